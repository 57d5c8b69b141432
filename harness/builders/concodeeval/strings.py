"""Draws strings for a schema: words, formats, patterns, and bounds on the length.

The formats are those of Draft 2020-12 (section 7.3), as in the paper's recorded schemas. Each has
short forms, so that a bound on the length leaves something to draw. The patterns are our own list,
each with a function that draws a matching string: none is ever solved, and none is slow to check.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.builders.draws import Draws
from harness.tasks.concodeeval.schema import Schema

WORDS: tuple[str, ...] = tuple(Path(__file__).with_name("words.txt").read_text("utf-8").split())
"""Common English words, none a keyword of JSON Schema or Python.

The paper draws names of properties from a dictionary (``pyrocinchonic``, ``scirenga``); ours are
common, so that the meaning of a name is never the difficulty.
"""

ACCENTED = ("café", "naïve", "über", "señor", "crème", "fjörd")


def _short(draws: Draws) -> str:
    return draws.choice(("a", "b", "x", "id", "go", "ab"))


def _name(draws: Draws) -> str:
    return _short(draws) if draws.chance(0.4) else draws.choice(WORDS)


def _hex(draws: Draws, size: int) -> str:
    return "".join(draws.choice("0123456789abcdef") for _ in range(size))


def _date(draws: Draws) -> str:
    if draws.chance(0.2):
        return draws.choice(("2024-02-29", "2000-12-31", "1999-01-01"))
    return f"{draws.integer(1950, 2049)}-{draws.integer(1, 12):02}-{draws.integer(1, 28):02}"


def _time(draws: Draws) -> str:
    clock = f"{draws.integer(0, 23):02}:{draws.integer(0, 59):02}:{draws.integer(0, 59):02}"
    fraction = f".{draws.integer(1, 999):03}" if draws.chance(0.2) else ""
    return clock + fraction + draws.choice(("Z", "Z", "+01:00", "-05:30"))


def _duration(draws: Draws) -> str:
    if draws.chance(0.2):
        return f"P{draws.integer(1, 9)}W"
    date = "".join(f"{draws.integer(1, 9)}{unit}" for unit in "YMD" if draws.chance(0.5))
    time = "".join(f"{draws.integer(1, 59)}{unit}" for unit in "HMS" if draws.chance(0.4))
    # RFC 3339, appendix A: no unit between two given ones may be missing.
    date = date if "Y" not in date or "D" not in date or "M" in date else date.split("D")[0][:2]
    time = time if "H" not in time or "S" not in time or "M" in time else time.split("H")[0] + "H"
    return f"P{date}T{time}" if time else f"P{date or '1D'}"


def _host(draws: Draws) -> str:
    return f"{_name(draws)}.{draws.choice(('com', 'org', 'io', 'example'))}"


def _email(draws: Draws) -> str:
    tag = draws.choice(("", "", f".{draws.choice(WORDS)}", f"+{_short(draws)}"))
    return f"{_name(draws)}{tag}@{_host(draws)}"


def _ipv4(draws: Draws) -> str:
    high = draws.choice((9, 255, 255))
    return ".".join(str(draws.integer(0, high)) for _ in range(4))


def _path(draws: Draws) -> str:
    return "/".join(_name(draws) for _ in range(draws.integer(1, 4)))


def _uri(draws: Draws) -> str:
    if draws.chance(0.3):
        return f"{draws.choice(('urn:a', 'tag', 'data', 'mid'))}:{_name(draws)}"
    forms = ("", f"?{_short(draws)}={draws.integer(0, 99)}", f"#{draws.choice(WORDS)}")
    query = draws.choice(forms)
    return f"https://{_host(draws)}/{_path(draws)}{query}"


def _uri_reference(draws: Draws) -> str:
    if draws.chance(0.05):
        return draws.choice(("", "a", "#"))
    forms: tuple[Callable[[], str], ...] = (
        lambda: _uri(draws),
        lambda: f"/{_path(draws)}",
        lambda: f"../{_path(draws)}",
        lambda: f"#{_name(draws)}",
        lambda: f"?{_name(draws)}={draws.integer(0, 9)}",
    )
    return draws.choice(forms)()


def _pointer(draws: Draws) -> str:
    if draws.chance(0.1):
        return ""
    ends = ("", f"/{draws.integer(0, 9)}", "/a~1b", "/m~0n")
    return f"/{_path(draws)}{draws.choice(ends)}"


def _template(draws: Draws) -> str:
    variable = f"{{{draws.choice(('', '', '?', '/', '#'))}{_name(draws)}}}"
    return variable if draws.chance(0.4) else f"https://{_host(draws)}/{_path(draws)}/{variable}"


def _regex(draws: Draws) -> str:
    some = draws.choice(("[a-z]", "[0-9]", ".", "[^,]", "\\w"))
    many = draws.choice(("+", "*", "?", "{2}", "{1,4}"))
    start = draws.choice(("", "^", draws.choice(WORDS)))
    end = draws.choice(("", "$", f"(?:{draws.choice(WORDS)}|{_short(draws)})"))
    return start + some + many + end


VALID: dict[str, Callable[[Draws], str]] = {
    "date": _date,
    "time": _time,
    "date-time": lambda draws: f"{_date(draws)}T{_time(draws)}",
    "duration": _duration,
    "email": _email,
    "idn-email": lambda draws: f"{draws.choice(ACCENTED)}@{_host(draws)}",
    "hostname": lambda draws: _name(draws) if draws.chance(0.3) else _host(draws),
    "idn-hostname": lambda draws: f"{draws.choice(ACCENTED)}.{draws.choice(('com', 'org'))}",
    "ipv4": _ipv4,
    "ipv6": lambda draws: (
        draws.choice(("::", "::1", "fe80::1", f"2001:db8::{_hex(draws, 2)}"))
        if draws.chance(0.3)
        else ":".join(_hex(draws, 4) for _ in range(8))
    ),
    "uri": _uri,
    "uri-reference": _uri_reference,
    "iri": lambda draws: (
        f"tag:{_name(draws)}"
        if draws.chance(0.3)
        else f"https://{_host(draws)}/{draws.choice(ACCENTED)}"
    ),
    "iri-reference": lambda draws: (
        f"/{draws.choice(ACCENTED)}" if draws.chance(0.4) else _uri_reference(draws)
    ),
    "uri-template": _template,
    "uuid": lambda draws: "-".join(_hex(draws, size) for size in (8, 4, 4, 4, 12)),
    "json-pointer": _pointer,
    "relative-json-pointer": lambda draws: (
        f"{draws.integer(0, 9)}{'#' if draws.chance(0.3) else _pointer(draws)}"
    ),
    "regex": _regex,
}
"""Draws a string of each format."""

INVALID: dict[str, tuple[str, ...]] = {
    "date": ("2023-02-29", "2023-13-01", "2023-4-1", "01/04/2023", "2023-04-31T"),
    "time": ("10:30:00", "25:00:00Z", "10:61:00Z", "10:30Z", "noon"),
    "date-time": ("2023-04-01 10:30:00", "2023-04-01T10:30:00", "2023-04-01T25:00:00Z", "now"),
    "duration": ("P", "1D", "P1H", "P1DT", "PT1D", "P-1Y", "one day"),
    "email": ("anna", "anna@", "@example.com", "anna at example.com", "a@@b.org"),
    "idn-email": ("café", "café@", "@café.com", "naïve at café.com"),
    "hostname": ("-host", "host-.com", "my_host", "a..b", "exa mple.com"),
    "idn-hostname": ("-café", "café..com", "my café.com", "naïve_.org"),
    "ipv4": ("1.2.3", "1.2.3.256", "1.2.3.4.5", "01.2.3.4", "a.b.c.d"),
    "ipv6": ("1::2::3", "12345::", ":1", "1:2:3:4:5:6:7", "fe80::g"),
    "uri": ("example.com", "/a/b", "http://a b.com", "://x", "https://[::1"),
    "uri-reference": ("a b", "%zz", "\\\\a\\b", "#a#b", "http://exa mple.com/"),
    "iri": ("café", "/a/é", "http://a é.com", "://é"),
    "iri-reference": ("a é", "%zé", "\\\\é", "#é#b", "http://caf é.com/"),
    "uri-template": ("{a", "a}", "{}", "https://a.com/{b c}", "/x/{{y}}", "{a b}"),
    "uuid": (
        "550e8400-e29b-41d4-a716",
        "550e8400e29b41d4a716446655440000",
        "550e8400-e29b-41d4-a716-44665544000g",
        "not-a-uuid",
    ),
    "json-pointer": ("a/b", "/a~", "/a~2b", "#/a"),
    "relative-json-pointer": ("/a", "-1/a", "01/a", "a", "1a"),
    "regex": ("[a-z", "(ab", "*a", "a{2,1}", "[z-a]", "a)"),
}
"""Strings that fail the format, most of them by little."""

ATTEMPTS = 30
"""Ordinary strings of a format that are drawn before one is built to the wanted length."""


def _letters(draws: Draws, low: int, high: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return "".join(draws.choice(letters) for _ in range(draws.integer(low, high)))


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
"""Patterns of the extended vocabulary, each with a function that draws a matching string."""

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
"""For formats of unbounded length: prefix, separator between words ("1": digits instead of words),
suffix."""


def plain(draws: Draws, low: int, high: int) -> str:
    """Draw words of ``low`` to ``high`` characters; 40% have exactly one of these lengths."""
    size = draws.choice((low, high)) if draws.chance(0.4) else draws.integer(low, high)
    text = draws.choice(WORDS)
    while len(text) < size:
        text = f"{text} {draws.choice(WORDS)}"
    text = text[:size]
    return f"{text[:-1]}s" if text.endswith(" ") else text


def string(schema: Schema, draws: Draws) -> str | None:
    """Draw a string that the schema allows; None if bounded attempts find none."""
    low, high = schema.get("minLength", 0), schema.get("maxLength")
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


def violating(schema: Schema, keyword: str, draws: Draws) -> list[str]:
    """Draw strings that violate a keyword and probably no other."""
    low, high = schema.get("minLength", 0), schema.get("maxLength")
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
    """Draw strings just beyond a bound on the length, then anywhere beyond it."""
    (bound,) = bounds.values()
    if bound < 0:
        return []
    rest = {key: value for key, value in schema.items() if key in ("format", "pattern")}
    edge = {"minLength": bound, "maxLength": bound}
    found = [string({**rest, **limits}, draws) for limits in (edge, bounds, bounds)]
    return [text for text in found if text is not None]


def measured(name: str, size: int, draws: Draws) -> str | None:
    """Build a string of a format with exactly ``size`` characters; None if that is not possible."""
    start, fill, end = MEASURES.get(name, ("", "", ""))
    left = size - len(start) - len(end)
    if not fill or left < 1:
        return None
    if fill == "1":
        return f"{start}{_digits(draws, left, left).replace('0', '1')}{end}"
    words = fill.join(draws.choice(WORDS) for _ in range(left // 4 + 1))[:left]
    return f"{start}{words[:-1]}{'s' if words.endswith(fill) else words[-1]}{end}"
