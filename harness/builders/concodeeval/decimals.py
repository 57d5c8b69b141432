"""Numbers within bounds, in decimal arithmetic: a multiple of 5.88 is exactly that.

Bounds and multiples have two decimals, as the paper's have; so every number here is a JSON number
whose shortest form says it exactly.

>>> Range.of({"multipleOf": 5.88, "exclusiveMinimum": 0, "exclusiveMaximum": 10}).ends()
[Decimal('5.88'), Decimal('5.88')]
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from harness.builders.draws import Draws
from harness.tasks.concodeeval.representations.schema import Schema

OPEN = 25
"""How many steps a range without an end goes."""


def decimal(value: int | float) -> Decimal:
    """The number that its shortest form says."""
    return Decimal(repr(value))


def number(value: Decimal) -> int | float:
    """The JSON number: whole ones without a point."""
    return int(value) if value == value.to_integral_value() else float(value)


@dataclass(frozen=True, slots=True)
class Range:
    """The multiples of a step from the first to the last one.

    first, last: how many steps from zero.
    """

    step: Decimal
    first: int
    last: int

    @classmethod
    def of(cls, schema: Schema) -> Range:
        """The numbers that a schema of numbers allows; those of two decimals where it lets any."""
        whole = schema.get("type") == "integer"
        step = Decimal("1") if whole else Decimal("0.01")
        if "multipleOf" in schema:
            step = decimal(schema["multipleOf"])
            if whole:  # the least multiple that is whole: of 27/4 it is 27
                step = Decimal(step.as_integer_ratio()[0])
        low, high = _lowest(schema, step), _highest(schema, step)
        if low is None and high is None:
            low = -OPEN if "multipleOf" in schema else int(-100 / step)
        span = OPEN if "multipleOf" in schema else int(100 / step)
        first = low if low is not None else (high or 0) - span
        return cls(step, first, high if high is not None else first + 2 * span)

    @property
    def empty(self) -> bool:
        """Whether no number is in it."""
        return self.first > self.last

    def ends(self) -> list[Decimal]:
        """The least and the greatest."""
        return [self.step * self.first, self.step * self.last]

    def draw(self, draws: Draws) -> Decimal:
        """One of the numbers, an end of them in two of five draws."""
        if draws.chance(0.4):
            return draws.choice(self.ends())
        return self.step * draws.integer(self.first, self.last)


def _lowest(schema: Schema, step: Decimal) -> int | None:
    bounds = []
    if "minimum" in schema:
        bounds.append(_steps(schema["minimum"], step, ROUND_CEILING))
    if "exclusiveMinimum" in schema:
        bounds.append(_steps(schema["exclusiveMinimum"], step, ROUND_FLOOR) + 1)
    return max(bounds, default=None)


def _highest(schema: Schema, step: Decimal) -> int | None:
    bounds = []
    if "maximum" in schema:
        bounds.append(_steps(schema["maximum"], step, ROUND_FLOOR))
    if "exclusiveMaximum" in schema:
        bounds.append(_steps(schema["exclusiveMaximum"], step, ROUND_CEILING) - 1)
    return min(bounds, default=None)


def _steps(bound: Any, step: Decimal, rounding: str) -> int:
    return int((decimal(bound) / step).to_integral_value(rounding))


def beyond(schema: Schema, keyword: str, draws: Draws) -> list[Decimal]:
    """Numbers that break a keyword of the bounds, the nearest first.

    The nearest to an exclusive bound is the bound itself.
    """
    free = {key: value for key, value in schema.items() if key in ("type", "multipleOf")}
    bound = decimal(schema[keyword])
    step = Range.of(free).step
    below = keyword in ("minimum", "exclusiveMinimum")
    end = "maximum" if below else "minimum"
    outside = Range.of({**free, end: schema[keyword]})
    edge = outside.last if below else outside.first
    away = -1 if below else 1
    if keyword in ("minimum", "maximum") and step * edge == bound:
        edge += away
    nearest = [bound] if keyword.startswith("exclusive") else []
    return [
        *nearest,
        step * edge,
        step * (edge + away * draws.integer(1, 5)),
        step * (edge + away * 100),
    ]


def no_multiples(schema: Schema, draws: Draws) -> list[Decimal]:
    """Numbers within the bounds that are no multiple, near ones first."""
    step = decimal(schema["multipleOf"])
    bounds = {key: value for key, value in schema.items() if key != "multipleOf"}
    allowed = Range.of(bounds)
    if allowed.empty:
        return []
    multiples = Range.of(schema)
    near = [] if multiples.empty else [multiples.draw(draws) + allowed.step]
    found = [*near, *(allowed.draw(draws) for _ in range(6))]
    low, high = allowed.ends()
    return [each for each in found if low <= each <= high and each % step]
