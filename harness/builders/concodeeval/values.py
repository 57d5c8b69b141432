"""Draws values that a schema allows: numbers in decimal arithmetic, strings, arrays, objects.

Values at the bounds are as frequent as values between them. Bounds and multiples have at most two
decimals, as in the paper, so the shortest form of every number here is exact: a multiple of 5.88 is
one.

>>> valid({"type": "number", "multipleOf": 5.88, "maximum": 6, "minimum": 5}, Draws(0))
5.88
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from harness.builders.concodeeval.strings import WORDS, plain, string
from harness.builders.draws import Draws
from harness.scoring.validators import Validator, validator
from harness.tasks.concodeeval.schema import Schema

ATTEMPTS = 20
MOST_ITEMS = 4
"""Items of an array beyond those that it must have."""
UNBOUNDED_STEPS = 25
"""Length, in steps, of a range without an upper or lower bound."""


class NoInstanceError(Exception):
    """Bounded attempts found no instance: the schema may have none."""


def decimal(value: int | float) -> Decimal:
    """Return the number that the shortest form of a JSON number stands for."""
    return Decimal(repr(value))


def number(value: Decimal) -> int | float:
    """Convert to a JSON number; whole ones have no decimal point."""
    return int(value) if value == value.to_integral_value() else float(value)


@dataclass(frozen=True, slots=True)
class Range:
    """The multiples ``first * step`` to ``last * step``.

    >>> Range.of({"multipleOf": 5.88, "exclusiveMinimum": 0, "exclusiveMaximum": 10}).ends()
    [Decimal('5.88'), Decimal('5.88')]
    """

    step: Decimal
    first: int
    last: int

    @classmethod
    def of(cls, schema: Schema) -> Range:
        """Return the numbers that a schema allows, in steps of 0.01 without ``multipleOf``."""
        whole = schema.get("type") == "integer"
        step = Decimal("1") if whole else Decimal("0.01")
        if "multipleOf" in schema:
            step = decimal(schema["multipleOf"])
            if whole:  # the least whole multiple: of 27/4 it is 27
                step = Decimal(step.as_integer_ratio()[0])

        def steps(key: str, rounding: str, inward: int) -> list[int]:
            if key not in schema:
                return []
            return [int((decimal(schema[key]) / step).to_integral_value(rounding)) + inward]

        low = max(
            [*steps("minimum", ROUND_CEILING, 0), *steps("exclusiveMinimum", ROUND_FLOOR, 1)],
            default=None,
        )
        high = min(
            [*steps("maximum", ROUND_FLOOR, 0), *steps("exclusiveMaximum", ROUND_CEILING, -1)],
            default=None,
        )
        if low is None and high is None:
            low = -UNBOUNDED_STEPS if "multipleOf" in schema else int(-100 / step)
        span = UNBOUNDED_STEPS if "multipleOf" in schema else int(100 / step)
        first = low if low is not None else (high or 0) - span
        return cls(step, first, high if high is not None else first + 2 * span)

    @property
    def empty(self) -> bool:
        """Whether it holds no number."""
        return self.first > self.last

    def ends(self) -> list[Decimal]:
        """Return the least and the greatest number."""
        return [self.step * self.first, self.step * self.last]

    def draw(self, draws: Draws) -> Decimal:
        """Draw one of the numbers; 40% of draws are one of the ends."""
        if draws.chance(0.4):
            return draws.choice(self.ends())
        return self.step * draws.integer(self.first, self.last)


def numbers_beyond(schema: Schema, keyword: str, draws: Draws) -> list[Decimal]:
    """Return numbers that violate a bound, nearest first: an exclusive bound is one itself."""
    free = {key: value for key, value in schema.items() if key in ("type", "multipleOf")}
    bound = decimal(schema[keyword])
    step = Range.of(free).step
    below = keyword in ("minimum", "exclusiveMinimum")
    outside = Range.of({**free, "maximum" if below else "minimum": schema[keyword]})
    edge = outside.last if below else outside.first
    away = -1 if below else 1
    if keyword in ("minimum", "maximum") and step * edge == bound:
        edge += away
    nearest = [bound] if keyword.startswith("exclusive") else []
    further = [edge, edge + away * draws.integer(1, 5), edge + away * 100]
    return [*nearest, *(step * each for each in further)]


def no_multiples(schema: Schema, draws: Draws) -> list[Decimal]:
    """Return numbers within the bounds that violate ``multipleOf``, nearest to a multiple first."""
    step = decimal(schema["multipleOf"])
    allowed = Range.of({key: value for key, value in schema.items() if key != "multipleOf"})
    if allowed.empty:
        return []
    multiples = Range.of(schema)
    near = [] if multiples.empty else [multiples.draw(draws) + allowed.step]
    found = [*near, *(allowed.draw(draws) for _ in range(6))]
    low, high = allowed.ends()
    return [each for each in found if low <= each <= high and each % step]


def valid(schema: Schema, draws: Draws, by: Validator | None = None) -> Any:
    """Draw an instance that the validator accepts."""
    by = by or validator(schema)
    for _ in range(ATTEMPTS):
        try:
            value = draw(schema, draws)
        except NoInstanceError:
            continue
        if not by.violations(value):
            return value
    raise NoInstanceError(f"{ATTEMPTS} instances drawn, and none is valid")


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
            allowed = Range.of(schema)
            if allowed.empty:
                raise NoInstanceError("no number is between the bounds")
            return number(allowed.draw(draws))
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
        most = min(schema.get("maxContains", high), high)
        wanted = least if draws.chance(0.4) else draws.integer(least, max(least, most))
        items = [draw(schema["contains"], draws) for _ in range(wanted)]
    try:
        while len(items) < size:
            items.append(unmatched(schema, draws))
    except NoInstanceError:
        if len(items) < low:
            raise
    items = draws.shuffled(items)
    return _distinct(items, schema, draws) if schema.get("uniqueItems") else items


def unmatched(schema: Schema, draws: Draws) -> Any:
    """Return an item that the array may hold and that does not count for ``contains``."""
    if "contains" not in schema:
        return draw(schema.get("items"), draws)
    contains = validator(schema["contains"])
    for _ in range(ATTEMPTS):
        item = draw(schema.get("items"), draws)
        if contains.violations(item):
            return item
    raise NoInstanceError("every item that was drawn counts for contains")


def _distinct(items: list[Any], schema: Schema, draws: Draws) -> list[Any]:
    """Return the items without repetitions; others are drawn in place of repeated ones."""
    found: dict[str, Any] = {}
    for item in items:
        found.setdefault(json.dumps(item, sort_keys=True), item)
    for _ in range(ATTEMPTS):
        if len(found) >= max(len(items), schema.get("minItems", 0)):
            break
        item = unmatched(schema, draws)
        found.setdefault(json.dumps(item, sort_keys=True), item)
    if len(found) < schema.get("minItems", 0):
        raise NoInstanceError("too few different items")
    return list(found.values())


def _object(schema: Schema, draws: Draws) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    share = draws.choice((0.0, 0.3, 0.7, 1.0))
    value = {
        name: draw(inner, draws)
        for name, inner in schema.get("properties", {}).items()
        if name in required or draws.chance(share)
    }
    value |= {name: anything(draws) for name in schema.get("required", ()) if name not in value}
    additional = schema.get("additionalProperties", True)
    if additional is not False and draws.chance(0.25):
        value[other_name(schema, value, draws)] = draw(additional, draws)
    return value


def other_name(schema: Schema, value: dict[str, Any], draws: Draws) -> str:
    """Return a name that is not one of the schema's properties."""
    taken = {*schema.get("properties", ()), *schema.get("required", ()), *value}
    for _ in range(ATTEMPTS):
        if (name := draws.choice(WORDS)) not in taken:
            return name
    return plain(draws, 120, 120).replace(" ", "_")
