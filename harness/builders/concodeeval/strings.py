"""Strings under bounds of length, formats and patterns.

Patterns come from a list of our own, each with what draws a string of it: so no pattern is ever
solved, and none is one that takes a validator long.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.builders.concodeeval.formats import INVALID, VALID
from harness.builders.concodeeval.words import WORDS
from harness.builders.draws import Draws
from harness.tasks.concodeeval.representations.schema import Schema

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ATTEMPTS = 30
"""Draws of a format's usual strings before one is made to measure."""


def _letters(draws: Draws, low: int, high: int) -> str:
    return "".join(draws.choice(LETTERS) for _ in range(draws.integer(low, high)))


def _digits(draws: Draws, low: int, high: int) -> str:
    return "".join(draws.choice("0123456789") for _ in range(draws.integer(low, high)))


PATTERNS: dict[str, Callable[[Draws], str]] = {
    "^[a-z]+$": lambda draws: _letters(draws, 1, 12),
    "^[A-Z]{2,4}$": lambda draws: _letters(draws, 2, 4).upper(),
    "^[A-Z][a-z]*$": lambda draws: _letters(draws, 1, 9).capitalize(),
    "^[0-9]{3}-[0-9]{4}$": lambda draws: f"{_digits(draws, 3, 3)}-{_digits(draws, 4, 4)}",
    "^#[0-9a-f]{6}$": lambda draws: "#" + "".join(draws.choice("09af") for _ in range(6)),
    "^v[0-9]+\\.[0-9]+$": lambda draws: f"v{_digits(draws, 1, 3)}.{_digits(draws, 1, 3)}",
    "^(yes|no|maybe)$": lambda draws: draws.choice(("yes", "no", "maybe")),
    "^[a-z]+_[a-z]+$": lambda draws: f"{_letters(draws, 1, 8)}_{_letters(draws, 1, 8)}",
    "^[^ ]+ [^ ]+$": lambda draws: f"{draws.choice(WORDS)} {draws.choice(WORDS)}",
    "[0-9]$": lambda draws: f"{draws.choice(WORDS)}{_digits(draws, 1, 3)}",
}
"""The patterns of the extension, each with what draws a string that it matches."""

_URI = ("https://a.org/", "-", "")
MEASURES: dict[str, tuple[str, str, str]] = {
    "uri": _URI,
    "uri-reference": ("/", "-", ""),
    "iri": _URI,
    "iri-reference": ("/", "-", ""),
    "uri-template": ("{", "_", "}"),
    "email": ("a@", ".", ".io"),
    "idn-email": ("é@", ".", ".io"),
    "hostname": ("", ".", ".org"),
    "idn-hostname": ("café.", ".", ""),
    "json-pointer": ("/", "-", ""),
    "relative-json-pointer": ("1/", "-", ""),
    "regex": ("^", "-", "$"),
    "time": ("10:30:00.", "1", "Z"),
    "date-time": ("2023-04-01T10:30:00.", "1", "Z"),
    "duration": ("P", "1", "D"),
}
"""For formats without a longest form: how it starts, what stands between words ("1": it is
digits), how it ends."""


def _bounds(schema: Schema) -> tuple[int, int | None]:
    return schema.get("minLength", 0), schema.get("maxLength")


def plain(draws: Draws, low: int, high: int) -> str:
    """Words whose characters are between two numbers, one of the two in two of five draws."""
    size = draws.choice((low, high)) if draws.chance(0.4) else draws.integer(low, high)
    text = draws.choice(WORDS)
    while len(text) < size:
        text = f"{text} {draws.choice(WORDS)}"
    text = text[:size]
    return f"{text[:-1]}s" if text.endswith(" ") else text


def string(schema: Schema, draws: Draws) -> str | None:
    """A string that the schema allows; None where none was found in bounded attempts."""
    low, high = _bounds(schema)
    maker = VALID.get(schema.get("format", "")) or PATTERNS.get(schema.get("pattern", ""))
    if maker is None:
        longest = low + 24 if high is None else high
        return plain(draws, low, min(longest, low + 60)) if longest >= low else None
    for _ in range(ATTEMPTS):
        text = maker(draws)
        if low <= len(text) and (high is None or len(text) <= high):
            return text
    longest = low + 20 if high is None else min(high, low + 20)
    sizes = range(low, longest + 1)
    made = (measured(schema.get("format", ""), size, draws) for size in draws.shuffled(sizes))
    return next((text for text in made if text is not None), None)


def breaking(schema: Schema, keyword: str, draws: Draws) -> list[str]:
    """Strings that break a keyword, and try to break no other."""
    low, high = _bounds(schema)
    match keyword:
        case "minLength":
            return _other_length(schema, {"maxLength": low - 1}, draws)
        case "maxLength" if high is not None:
            return _other_length(schema, {"minLength": high + 1}, draws)
        case "format":
            near = [text for text in INVALID.get(schema["format"], ()) if len(text) >= low]
            fits = [text for text in near if high is None or len(text) <= high]
            return [*draws.shuffled(fits), plain(draws, low, low + 9 if high is None else high)]
        case "pattern":
            longest = low + 9 if high is None else high
            others = draws.sample([each for each in PATTERNS if each != schema["pattern"]], 4)
            texts = [PATTERNS[other](draws) for other in others]
            return [*texts, plain(draws, low, longest), plain(draws, low, longest).upper()]
    return []


def _other_length(schema: Schema, bounds: dict[str, int], draws: Draws) -> list[str]:
    """Strings just outside a bound of the length, else in all the space there."""
    (bound,) = bounds.values()
    if bound < 0:
        return []
    rest = {key: value for key, value in schema.items() if key in ("format", "pattern")}
    edge = {"minLength": bound, "maxLength": bound}
    found = [string({**rest, **limits}, draws) for limits in (edge, bounds, bounds)]
    return [text for text in found if text is not None]


def measured(name: str, size: int, draws: Draws) -> str | None:
    """A string of a format that has just that length, where the format has such."""
    start, fill, end = MEASURES.get(name, ("", "", ""))
    left = size - len(start) - len(end)
    if not fill or left < 1:
        return None
    if fill == "1":
        return f"{start}{_digits(draws, left, left).replace('0', '1')}{end}"
    words = fill.join(draws.choice(WORDS) for _ in range(left // 4 + 1))[:left]
    return f"{start}{words[:-1]}{'s' if words.endswith(fill) else words[-1]}{end}"
