"""Schemas of scalars, in the shares that the paper's 300 recorded ones have.

Of the recorded numbers 128 of 150 have ``multipleOf`` (two decimals), of the strings 138 a
``format`` (one of 19); bounds are the ends of the schema's value range. Lengths differ from theirs
in one thing: the recorded ``minLength`` is always 0, which excludes nothing, and 48 of the 300
schemas are there more than once. Here a third of the bounds is drawn from within the range.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from harness.builders.concodeeval.decimals import number
from harness.builders.concodeeval.formats import FORMATS
from harness.builders.concodeeval.strings import PATTERNS
from harness.builders.concodeeval.words import WORDS
from harness.builders.draws import Draws

Drawn = dict[str, Any]

_BOUNDS: dict[tuple[str, ...], int] = {
    (): 46,
    ("exclusiveMinimum", "exclusiveMaximum"): 15,
    ("minimum", "exclusiveMaximum"): 15,
    ("exclusiveMinimum",): 10,
    ("minimum",): 10,
    ("exclusiveMaximum",): 10,
    ("minimum", "maximum"): 9,
    ("maximum",): 8,
    ("exclusiveMinimum", "maximum"): 5,
}
"""How many of the 128 recorded numbers with multipleOf have which bounds."""

_LENGTHS: dict[tuple[str, ...], int] = {
    (): 55,
    ("maxLength",): 36,
    ("minLength", "maxLength"): 32,
    ("minLength",): 27,
}
"""How many of the 150 recorded strings have which bounds."""


def root_number(draws: Draws, high: int) -> Drawn:
    """A number at the root: its bounds are the ends of the range from 0."""
    schema: Drawn = {"type": "number"}
    if draws.chance(128 / 150):
        schema["multipleOf"] = _cents(draws, 1, high * 100)
    for bound in draws.weighted(_BOUNDS):
        schema[bound] = 0 if bound.endswith("inimum") else high
    return schema


def root_string(draws: Draws, high: int) -> Drawn:
    """A string at the root."""
    schema: Drawn = {"type": "string"}
    if draws.chance(138 / 150):
        schema["format"] = draws.choice(FORMATS)
    for bound in draws.weighted(_LENGTHS):
        inside = draws.chance(1 / 3)
        if bound == "minLength":
            schema[bound] = draws.integer(1, high // 2) if inside else 0
        else:
            schema[bound] = draws.integer(high // 2, high) if inside else high
    return schema


def extended_string(draws: Draws) -> Drawn:
    """A string at the root by what the extension has."""
    if draws.chance(0.5):
        return {"type": "string", "pattern": draws.choice(tuple(PATTERNS))}
    words = draws.sample(WORDS, draws.integer(1, 5))
    if len(words) == 1:
        return {"type": "string", "const": words[0]}
    return {"type": "string", "enum": words}


def inner(draws: Draws, high: int, *, extended: bool) -> Drawn:
    """A scalar within an array or object; the empty schema, too, which allows anything."""
    kinds = {"number": 4, "string": 4, "boolean": 2, "null": 2, "": 2}
    if extended:
        kinds |= {"integer": 3, "choice": 3, "pattern": 2}
    match draws.weighted(kinds):
        case "number":
            return _inner_number(draws, high)
        case "string":
            return _inner_string(draws, high)
        case "integer":
            low = draws.integer(0, high // 2)
            return {"type": "integer", "minimum": low, "maximum": draws.integer(low, high)}
        case "choice":
            return choice(draws, high)
        case "pattern":
            return {"type": "string", "pattern": draws.choice(tuple(PATTERNS))}
        case kind:
            return {"type": kind} if kind else {}


def choice(draws: Draws, high: int) -> Drawn:
    """A constant, or one of a few values."""
    kind = draws.choice(("string", "integer"))
    pool: list[Any] = [*draws.sample(WORDS, 5)]
    if kind == "integer":
        pool = [*draws.sample(range(high + 1), 5)]
    if draws.chance(0.3):
        return {"type": kind, "const": pool[0]}
    return {"type": kind, "enum": pool[: draws.integer(2, 5)]}


def _inner_number(draws: Draws, high: int) -> Drawn:
    schema: Drawn = {"type": "number"}
    if draws.chance(0.5):
        return schema
    if draws.chance(0.5):
        schema["multipleOf"] = _cents(draws, 1, high * 50)
    for bound in draws.weighted(_BOUNDS):
        low_end = bound.endswith("inimum")
        ends = (0, high * 50) if low_end else (high * 50 + 1, high * 100)
        schema[bound] = _cents(draws, *ends)
    return schema


def _inner_string(draws: Draws, high: int) -> Drawn:
    schema: Drawn = {"type": "string"}
    if draws.chance(0.4):
        schema["format"] = draws.choice(FORMATS)
    if draws.chance(0.4):
        for bound in draws.weighted(_LENGTHS):
            ends = (0, high // 2) if bound == "minLength" else (high // 2 + 1, high)
            schema[bound] = draws.integer(*ends)
    return schema


def _cents(draws: Draws, low: int, high: int) -> int | float:
    return number(Decimal(draws.integer(low, high)) / 100)
