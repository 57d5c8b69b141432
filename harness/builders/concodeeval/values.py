"""Draws values that a schema allows: numbers, strings, arrays, objects.

Bounds and multiples have at most two decimals, as in the paper, so numbers are drawn as whole
hundredths: a multiple of 5.88 is exactly one. The formats of strings are those of Draft 2020-12
(section 7.3); each has short forms, so that a bound on the length leaves something to draw.

>>> valid({"type": "number", "multipleOf": 5.88, "maximum": 6, "minimum": 5}, Draws(0))
5.88
"""

from __future__ import annotations

import contextlib
import re
from math import lcm
from pathlib import Path
from typing import Any

from harness.builders.draws import Draws
from harness.scoring.validators import Validator, validator
from harness.tasks.concodeeval.schema import Schema

ATTEMPTS = 20
MOST_ITEMS = 4  # items of an array beyond those that it must have
UNBOUNDED = 10_000  # hundredths from a bound to the end of a range that has no other
UNBOUNDED_STEPS = 25  # the same in multiples of ``multipleOf``

WORDS: tuple[str, ...] = tuple(Path(__file__).with_name("words.txt").read_text("utf-8").split())
"""Common English words, none a keyword of JSON Schema or Python.

The paper draws names of properties from a dictionary (``pyrocinchonic``, ``scirenga``).
"""

FORMATS: dict[str, tuple[str, ...]] = {
    "date": ("2024-02-29", *["<year>-<month>-<day>"] * 4),
    "time": ("<clock>Z", "<clock>Z", "<clock>+01:00", "<clock>.<digit>5Z", "<clock>-05:30"),
    "date-time": ("<date>T<time>",),
    "duration": ("P<n>D", "P<n>W", "P<n>Y<n>M", "PT<n>H", "PT<n>M<n>S", "P<n>Y<n>M<n>DT<n>H<n>M"),
    "email": ("<name>@<host>", "<name>@<host>", "<name>.<word>@<host>", "<name>+<short>@<host>"),
    "idn-email": ("<accented>@<host>",),
    "hostname": ("<name>", "<host>", "<host>"),
    "idn-hostname": ("<accented>.com", "<accented>.org"),
    "ipv4": ("<byte>.<byte>.<byte>.<byte>", "<digit>.<digit>.<digit>.<digit>"),
    "ipv6": ("::1", "fe80::<hex><hex>", "2001:db8::<hex>", *[":".join(["<hex4>"] * 8)] * 5),
    "uri": (*["https://<host>/<path><query>"] * 2, "tag:<name>", "urn:a:b"),
    "uri-reference": ("a", "<uri>", "/<path>", "../<path>", "#<name>", "?<name>=<digit>"),
    "iri": ("tag:<name>", "https://<host>/<accented>", "https://<host>/<accented>"),
    "iri-reference": ("/<accented>", "<uri-reference>"),
    "uri-template": ("{<sign><name>}", "https://<host>/<path>/{<sign><name>}"),
    "uuid": ("<hex4><hex4>-<hex4>-<hex4>-<hex4>-<hex4><hex4><hex4>",),
    "json-pointer": ("", "/<path>", "/<path>/<digit>", "/<path>/a~1b", "/<path>/m~0n"),
    "relative-json-pointer": ("<digit>#", "<digit><json-pointer>", "<digit><json-pointer>"),
    "regex": ("<class><times>", "^<class><times>$", "<word><class><times>", "<class>(?:a|<word>)"),
}
"""Forms of each format; ``<part>`` stands for any form of a part, a format or a pattern."""

PATTERNS: dict[str, tuple[str, ...]] = {
    "^[a-z]+$": ("<name>",),
    "^[A-Z]{2,4}$": ("<capital><capital>", "<capital><capital><capital>"),
    "^[A-Z][a-z]*$": ("<capital>", "<capital><word>"),
    "^[0-9]{3}-[0-9]{4}$": ("<digit><digit><digit>-<digit><digit><digit><digit>",),
    "^#[0-9a-f]{6}$": ("#<hex4><hex><hex>",),
    "^v[0-9]+\\.[0-9]+$": ("v<digit>.<digit>", "v<n>.<digit><digit>"),
    "^(yes|no|maybe)$": ("yes", "no", "maybe"),
    "^[a-z]+_[a-z]+$": ("<name>_<name>",),
    "^[^ ]+ [^ ]+$": ("<word> <word>",),
    "[0-9]$": ("<word><digit>",),
}
"""Patterns of the extended vocabulary, with the forms of strings that match."""

_PARTS: dict[str, tuple[str, ...]] = {
    "digit": tuple("0123456789"),
    "n": tuple(map(str, range(1, 60))),
    "byte": tuple(map(str, range(256))),
    "hex": tuple("0123456789abcdef"),
    "hex4": ("<hex><hex><hex><hex>",),
    "capital": tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "year": tuple(map(str, range(1950, 2050))),
    "month": tuple(f"{month:02}" for month in range(1, 13)),
    "day": tuple(f"{day:02}" for day in range(1, 29)),
    "clock": ("<hour>:<sixtieth>:<sixtieth>",),
    "hour": tuple(f"{hour:02}" for hour in range(24)),
    "sixtieth": tuple(f"{part:02}" for part in range(60)),
    "word": WORDS,
    "short": ("a", "b", "x", "id", "go", "ab"),
    "name": ("<short>", "<word>"),
    "accented": ("café", "naïve", "über", "señor", "crème", "fjörd"),
    "host": ("<name>.com", "<name>.org", "<name>.io", "<name>.example"),
    "path": ("<name>", "<name>/<name>", "<name>/<name>/<name>"),
    "query": ("", "?<short>=<digit>", "#<word>"),
    "sign": ("", "", "?", "/", "#"),
    "class": ("[a-z]", "[0-9]", ".", "[^,]", "\\w"),
    "times": ("+", "*", "?", "{2}", "{1,4}"),
}
_FORMS = {**_PARTS, **FORMATS, **PATTERNS}

LONG: dict[str, str] = {
    "uri": "https://a.org/*",
    "uri-reference": "/*",
    "iri": "https://a.org/*",
    "iri-reference": "/*",
    "uri-template": "{*}",
    "email": "a@*.io",
    "idn-email": "é@*.io",
    "hostname": "*.org",
    "idn-hostname": "café.*",
    "json-pointer": "/*",
    "relative-json-pointer": "1/*",
    "regex": "^*$",
    "time": "10:30:00.%Z",
    "date-time": "2023-04-01T10:30:00.%Z",
    "duration": "P%D",
}
"""Formats of unbounded length: ``*`` stands for words, ``%`` for digits, of any total length."""

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


class NoInstanceError(Exception):
    """Bounded attempts found no instance: the schema may have none."""


def hundredths(value: float) -> int:
    """Convert a JSON number of at most two decimals."""
    return round(value * 100)


def number(value: int) -> int | float:
    """Convert hundredths to a JSON number; whole ones have no decimal point."""
    return value / 100 if value % 100 else value // 100


def allowed(schema: Schema) -> range:
    """Return the numbers that a schema allows, in hundredths.

    >>> allowed({"multipleOf": 5.88, "exclusiveMinimum": 0, "exclusiveMaximum": 10})
    range(588, 1000, 588)
    """
    step = 100 if schema.get("type") == "integer" else 1
    if "multipleOf" in schema:
        step = lcm(step, hundredths(schema["multipleOf"]))

    def ends(plain: str, exclusive: str, inward: int) -> list[int]:
        found = [hundredths(schema[plain])] if plain in schema else []
        return found + ([hundredths(schema[exclusive]) + inward] if exclusive in schema else [])

    low = max(ends("minimum", "exclusiveMinimum", 1), default=None)
    high = min(ends("maximum", "exclusiveMaximum", -1), default=None)
    span = UNBOUNDED_STEPS * step if "multipleOf" in schema else UNBOUNDED
    if low is None:
        low = (high or 0) - span
    return range(low + -low % step, (low + 2 * span if high is None else high) + 1, step)


def beyond(schema: Schema, keyword: str, draws: Draws) -> list[int | float]:
    """Return numbers at and beyond a bound, nearest first: an exclusive one is violated by itself.

    With ``multipleOf`` the others are multiples, so that they do not violate that too.
    """
    step = allowed({key: schema[key] for key in schema if key in ("type", "multipleOf")}).step
    bound = hundredths(schema[keyword])
    inward, away = (-bound % step, step) if keyword.endswith("aximum") else (-(bound % step), -step)
    further = (bound + inward + away * steps for steps in (0, 1, draws.integer(2, 6), 100))
    return [number(each) for each in (bound, *further)]


def no_multiples(schema: Schema, draws: Draws) -> list[int | float]:
    """Return numbers within the bounds, probably no multiples; the first is next to one."""
    multiples = allowed(schema)
    within = allowed({key: value for key, value in schema.items() if key != "multipleOf"})
    near = [draws.choice(multiples) + within.step] if multiples else []
    return [number(each) for each in (*near, *(draws.choice(within) for _ in range(6) if within))]


def words(draws: Draws, size: int, between: str = " ") -> str:
    """Draw words of ``size`` characters in all."""
    text = between.join(draws.choice(WORDS) for _ in range(size // 4 + 1))[:size]
    return f"{text[:-1]}s" if text.endswith(between) else text


def form(name: str, draws: Draws) -> str:
    """Draw a string of a format, or one that matches a pattern of `PATTERNS`."""
    chosen = draws.choice(_FORMS[name])
    return re.sub("<([a-z0-9-]+)>", lambda part: form(part[1], draws), chosen)


def measured(name: str, size: int, draws: Draws) -> str | None:
    """Build a string of a format with exactly ``size`` characters; None if that is not possible."""
    long = LONG.get(name, "")
    left = size - len(long) + 1
    if not long or left < 1:
        return None
    digits = "".join(draws.choice("123456789") for _ in range(left)) if "%" in long else ""
    return long.replace("%", digits).replace("*", words(draws, left, "."))


def string(schema: Schema, draws: Draws) -> str | None:
    """Draw a string that the schema allows; None if bounded attempts find none."""
    low = schema.get("minLength", 0)
    high = schema.get("maxLength", low + 24)
    name = schema.get("format") or schema.get("pattern")
    if low > high:
        return None
    if name not in _FORMS:
        # Of the lengths, the two ends are as frequent as all others.
        return words(draws, draws.choice((low, high, *[draws.integer(low, high)] * 2)))
    for _ in range(ATTEMPTS):
        text = form(name, draws)
        if low <= len(text) <= schema.get("maxLength", len(text)):
            return text
    sizes = draws.shuffled(range(low, min(high, low + 20) + 1))
    built = (measured(name, size, draws) for size in sizes)
    return next((text for text in built if text is not None), None)


def violating_strings(schema: Schema, keyword: str, draws: Draws) -> list[str | None]:
    """Draw strings that may violate a keyword and no other; the validator decides."""
    free = {key: value for key, value in schema.items() if key in ("format", "pattern")}
    low, high = schema.get("minLength", 0), schema.get("maxLength", 24)

    def of_length(*sizes: int) -> list[str | None]:
        return [string({**free, "minLength": n, "maxLength": n}, draws) for n in sizes if n >= 0]

    match keyword:
        case "minLength":
            return of_length(low - 1, draws.integer(0, max(low - 1, 0)))
        case "maxLength":
            return of_length(high + 1, high + draws.integer(2, 9))
        case "format":
            return [*draws.shuffled(INVALID[schema["format"]]), words(draws, max(low, high // 2))]
        case "pattern":
            others = draws.sample([each for each in PATTERNS if each != schema["pattern"]], 4)
            return [*(form(other, draws) for other in others), words(draws, max(low, 9))]
    return []


def valid(schema: Schema, draws: Draws, by: Validator | None = None) -> Any:
    """Draw an instance that the validator accepts."""
    by = by or validator(schema)
    for _ in range(ATTEMPTS):
        with contextlib.suppress(NoInstanceError):
            value = draw(schema, draws)
            if not by.violations(value):
                return value
    raise NoInstanceError(f"{ATTEMPTS} instances drawn, and none is valid")


def is_satisfiable(schema: Schema, draws: Draws) -> bool:
    """Return whether an instance is found three times in a row."""
    with contextlib.suppress(NoInstanceError):
        for _ in range(3):
            valid(schema, draws)
        return True
    return False


def anything(draws: Draws) -> Any:
    """Draw a scalar, for a place where any value is allowed."""
    return draws.choice((draws.choice(WORDS), draws.integer(0, 99), 2.5, True, False, None))


def draw(schema: Any, draws: Draws) -> Any:
    """Draw an instance that is probably valid; `valid` asks the validator."""
    if not isinstance(schema, dict) or not schema:
        return anything(draws)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draws.choice(schema["enum"])
    match schema.get("type"):
        case "boolean":
            return draws.chance(0.5)
        case "null":
            return None
        case "number" | "integer":
            if not (numbers := allowed(schema)):
                raise NoInstanceError("no number is between the bounds")
            ends = (numbers[0], numbers[-1])
            return number(draws.choice(ends if draws.chance(0.4) else numbers))
        case "string":
            text = string(schema, draws)
            if text is None:
                raise NoInstanceError("no string of the format has that length")
            return text
        case "array":
            return _array(schema, draws)
        case "object":
            return _object(schema, draws)
    return anything(draws)


def _array(schema: Schema, draws: Draws) -> list[Any]:
    low = schema.get("minItems", 0)
    high = schema.get("maxItems", max(low, schema.get("minContains", 0)) + MOST_ITEMS)
    size = draws.choice((low, high)) if draws.chance(0.3) else draws.integer(low, high)
    items: list[Any] = []
    if "contains" in schema:
        least = schema.get("minContains", 1)
        most = max(least, min(schema.get("maxContains", high), high))
        wanted = least if draws.chance(0.4) else draws.integer(least, most)
        items = [draw(schema["contains"], draws) for _ in range(wanted)]
    with contextlib.suppress(NoInstanceError):  # if no other item is allowed, these may do
        for _ in range(ATTEMPTS):
            if len(items) >= size:
                break
            item = uncounted(schema, draws)
            if not schema.get("uniqueItems") or item not in items:
                items.append(item)
    return draws.shuffled(items)


def uncounted(schema: Schema, draws: Draws) -> Any:
    """Return an item that the array may hold and that does not count for ``contains``."""
    if "contains" not in schema:
        return draw(schema.get("items"), draws)
    contains = validator(schema["contains"])
    for _ in range(ATTEMPTS):
        item = draw(schema.get("items"), draws)
        if contains.violations(item):
            return item
    raise NoInstanceError("every item that was drawn counts for contains")


def _object(schema: Schema, draws: Draws) -> dict[str, Any]:
    properties, required = schema.get("properties", {}), schema.get("required", ())
    share = draws.choice((0.0, 0.3, 0.7, 1.0))
    value = {
        name: draw(properties.get(name), draws)
        for name in dict.fromkeys((*properties, *required))
        if name in required or draws.chance(share)
    }
    additional = schema.get("additionalProperties", True)
    if additional is not False and draws.chance(0.25):
        value[other_name(schema, value, draws)] = draw(additional, draws)
    return value


def other_name(schema: Schema, value: dict[str, Any], draws: Draws) -> str:
    """Return a name that is not one of the schema's properties."""
    taken = {*schema.get("properties", ()), *value}
    free = [name for name in draws.sample(WORDS, ATTEMPTS) if name not in taken]
    return free[0] if free else words(draws, 120, "_")
