"""Draws values that a schema allows, and numbers and strings that violate one of its keywords.

As in the paper, bounds and multiples have at most two decimals. Numbers are therefore drawn as
whole hundredths, so that multiples of 5.88, for example, are exact. The formats of strings are
those of Draft 2020-12 (section 7.3).
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from math import lcm
from pathlib import Path
from typing import Any

from harness.plugins.benchmarks.concodeeval.schema import Schema
from harness.plugins.builders.draws import Draws
from harness.records import JsonObject
from harness.scoring.validators import Validator, validator

ATTEMPTS = 20
MOST_ITEMS = 4  # maximum items of an array beyond the required ones
UNBOUNDED = 10_000  # width of a range without a lower bound, in hundredths; double without an upper
UNBOUNDED_STEPS = 25  # the same with ``multipleOf``, in multiples

# Common English words, no keywords; the paper draws rare ones (``pyrocinchonic``).
WORDS: tuple[str, ...] = tuple(Path(__file__).with_name("words.txt").read_text("utf-8").split())
# By format or pattern: templates of its strings. ``<name>`` is any template of that part or format.
_STRINGS = json.loads(Path(__file__).with_name("strings.json").read_text("utf-8"))
FORMATS: dict[str, list[str]] = _STRINGS["formats"]
PATTERNS: dict[str, list[str]] = _STRINGS["patterns"]  # those of the extended vocabulary
# By format: a template for strings of any length. ``*`` stands for words, ``%`` for digits.
LONG: dict[str, str] = _STRINGS["long"]
INVALID: dict[str, list[str]] = _STRINGS["invalid"]  # by format; most violate it narrowly
_NUMBERS = {"n": range(1, 60), "byte": range(256), "year": range(1950, 2050)}
_TWO_DIGITS = {"month": range(1, 13), "day": range(1, 29), "hour": range(24), "sixtieth": range(60)}
_FORMS: dict[str, Sequence[str]] = {
    "word": WORDS,
    "digit": "0123456789",
    "hex": "0123456789abcdef",
    "capital": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    **{part: list(map(str, numbers)) for part, numbers in _NUMBERS.items()},
    **{part: list(map("{:02}".format, numbers)) for part, numbers in _TWO_DIGITS.items()},
    **_STRINGS["parts"],
    **FORMATS,
    **PATTERNS,
}


class NoInstanceError(Exception):
    """No instance was found in a limited number of attempts."""


def hundredths(value: float) -> int:
    """Convert a JSON number with at most two decimals to hundredths."""
    return round(value * 100)


def number(value: int) -> int | float:
    """Convert hundredths to a JSON number, an integer if whole."""
    return value / 100 if value % 100 else value // 100


def allowed(schema: Schema) -> range:
    """Return the numbers that a schema allows, in hundredths. A missing bound is chosen here."""
    step = 100 if schema.get("type") == "integer" else 1
    span = UNBOUNDED
    if "multipleOf" in schema:
        step = lcm(step, hundredths(schema["multipleOf"]))
        span = UNBOUNDED_STEPS * step
    lows = []
    highs = []
    if "minimum" in schema:
        lows.append(hundredths(schema["minimum"]))
    if "exclusiveMinimum" in schema:
        lows.append(hundredths(schema["exclusiveMinimum"]) + 1)
    if "maximum" in schema:
        highs.append(hundredths(schema["maximum"]))
    if "exclusiveMaximum" in schema:
        highs.append(hundredths(schema["exclusiveMaximum"]) - 1)
    high = min(highs, default=None)
    low = max(lows, default=(high or 0) - span)
    if high is None:
        high = low + 2 * span
    return range(low + -low % step, high + 1, step)


def beyond(schema: Schema, keyword: str, draws: Draws) -> list[int | float]:
    """Return numbers at and beyond a bound of a schema, some of which may violate only this bound.

    ``keyword`` names the bound, for example ``maximum``.
    """
    step = allowed({key: schema[key] for key in schema if key in ("type", "multipleOf")}).step
    bound = hundredths(schema[keyword])
    first = bound - bound % step
    away = -step
    if keyword.endswith("aximum"):
        first = bound + -bound % step
        away = step
    distances = (0, 1, draws.integer(2, 6), 100)
    beyond_bound = [first + away * steps for steps in distances]
    return list(map(number, [bound, *beyond_bound]))


def no_multiples(schema: Schema, draws: Draws) -> list[int | float]:
    """Return numbers that probably violate ``multipleOf`` but not the bounds."""
    multiples = allowed(schema)
    within = allowed({key: value for key, value in schema.items() if key != "multipleOf"})
    numbers = []
    if multiples:
        numbers.append(draws.choice(multiples) + within.step)
    if within:
        numbers += [draws.choice(within) for _ in range(6)]
    return list(map(number, numbers))


def words(draws: Draws, size: int, between: str = " ") -> str:
    """Return random words joined by ``between``, cut to a total of ``size`` characters."""
    chosen = [draws.choice(WORDS) for _ in range(size // 4 + 1)]
    text = between.join(chosen)[:size]
    if text.endswith(between):
        text = f"{text[:-1]}s"
    return text


def form(name: str, draws: Draws) -> str:
    """Return a random string made from a template for a format, a pattern or a part of either."""
    chosen = draws.choice(_FORMS[name])
    return re.sub("<([a-z0-9-]+)>", lambda part: form(part[1], draws), chosen)


def measured(name: str, size: int, draws: Draws) -> str | None:
    """Return a string of ``size`` characters in a format, or None if `LONG` allows none."""
    long = LONG.get(name, "")
    left = size - len(long) + 1
    if not long or left < 1:
        return None
    if "%" in long:
        digits = [draws.choice("123456789") for _ in range(left)]
        long = long.replace("%", "".join(digits))
    return long.replace("*", words(draws, left, "."))


def string(schema: Schema, draws: Draws) -> str | None:
    """Return a string that the schema allows, or None if none is found in a few attempts."""
    low = schema.get("minLength", 0)
    high = schema.get("maxLength", low + 24)
    name = schema.get("format") or schema.get("pattern")
    if low > high:
        return None
    if name not in _FORMS:
        # The minimum and maximum length are together about as frequent as all other lengths.
        size = draws.integer(low, high)
        return words(draws, draws.choice((low, high, size, size)))
    for _ in range(ATTEMPTS):
        text = form(name, draws)
        if low <= len(text) <= schema.get("maxLength", len(text)):
            return text
    for size in draws.shuffled(range(low, min(high, low + 20) + 1)):
        long = measured(name, size, draws)
        if long is not None:
            return long
    return None


def violating_strings(schema: Schema, keyword: str, draws: Draws) -> list[str | None]:
    """Return strings that may violate only ``keyword``, and None for each failed search.

    The list is empty for keywords that do not concern strings.
    """
    free = {key: value for key, value in schema.items() if key in ("format", "pattern")}
    low = schema.get("minLength", 0)
    high = schema.get("maxLength", 24)

    def of_length(*sizes: int) -> list[str | None]:
        possible = [size for size in sizes if size >= 0]
        return [string({**free, "minLength": n, "maxLength": n}, draws) for n in possible]

    match keyword:
        case "minLength":
            return of_length(low - 1, draws.integer(0, max(low - 1, 0)))
        case "maxLength":
            return of_length(high + 1, high + draws.integer(2, 9))
        case "format":
            return [*draws.shuffled(INVALID[schema["format"]]), words(draws, max(low, high // 2))]
        case "pattern":
            others = [name for name in PATTERNS if name != schema["pattern"]]
            strings: list[str | None] = [form(name, draws) for name in draws.sample(others, 4)]
            return [*strings, words(draws, max(low, 9))]
    return []


def valid(schema: Schema, draws: Draws, by: Validator | None = None) -> Any:
    """Return a random instance that the validator ``by`` accepts (by default, the schema's own).

    Raises:
        NoInstanceError: If none is found in a few attempts.
    """
    by = by or validator(schema)
    for _ in range(ATTEMPTS):
        with contextlib.suppress(NoInstanceError):
            value = draw(schema, draws)
            if not by.violations(value):
                return value
    raise NoInstanceError(f"{ATTEMPTS} instances drawn, and none is valid")


def is_satisfiable(schema: Schema, draws: Draws) -> bool:
    """Return whether three searches in a row find a valid instance."""
    with contextlib.suppress(NoInstanceError):
        for _ in range(3):
            valid(schema, draws)
        return True
    return False


def anything(draws: Draws) -> Any:
    """Return a random scalar for a place where any value is allowed."""
    return draws.choice((draws.choice(WORDS), draws.integer(0, 99), 2.5, True, False, None))


def draw(schema: Any, draws: Draws) -> Any:
    """Draw an instance that is probably valid under a schema.

    Raises:
        NoInstanceError: If none is found.
    """
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
            numbers: Sequence[int] = allowed(schema)
            if not numbers:
                raise NoInstanceError("no number is between the bounds")
            if draws.chance(0.4):
                numbers = (numbers[0], numbers[-1])
            return number(draws.choice(numbers))
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
        n_counted = schema.get("minContains", 1)
        limit = max(n_counted, min(schema.get("maxContains", high), high))
        if not draws.chance(0.4):
            n_counted = draws.integer(n_counted, limit)
        items = [draw(schema["contains"], draws) for _ in range(n_counted)]
    with contextlib.suppress(NoInstanceError):  # the items so far may suffice
        for _ in range(ATTEMPTS):
            if len(items) >= size:
                break
            item = uncounted(schema, draws)
            if not schema.get("uniqueItems") or item not in items:
                items.append(item)
    return draws.shuffled(items)


def uncounted(schema: Schema, draws: Draws) -> Any:
    """Return an array item that the schema allows and that does not match its ``contains``.

    Raises:
        NoInstanceError: If no such item is found in a few attempts.
    """
    if "contains" not in schema:
        return draw(schema.get("items"), draws)
    contains = validator(schema["contains"])
    for _ in range(ATTEMPTS):
        item = draw(schema.get("items"), draws)
        if contains.violations(item):
            return item
    raise NoInstanceError("every item that was drawn counts for contains")


def _object(schema: Schema, draws: Draws) -> JsonObject:
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    share = draws.choice((0.0, 0.3, 0.7, 1.0))
    value = {}
    for name in dict.fromkeys((*properties, *required)):
        if name in required or draws.chance(share):
            value[name] = draw(properties.get(name), draws)
    additional = schema.get("additionalProperties", True)
    if additional is not False and draws.chance(0.25):
        extra = draw(additional, draws)
        value[other_name(schema, value, draws)] = extra
    return value


def other_name(schema: Schema, value: JsonObject, draws: Draws) -> str:
    """Return a random property name that neither the schema nor the value has."""
    used = {*schema.get("properties", ()), *value}
    for name in draws.sample(WORDS, ATTEMPTS):
        if name not in used:
            return name
    return words(draws, 120, "_")
