"""A histogram of how far off answers are, the runs side by side in each bin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import altair as alt

from harness.report.figures.dots import SIGNED
from harness.report.figures.names import number
from harness.report.figures.runs import Runs, specification

BINS = 30
"""At most so many, and two for what is further off at either end."""

_TAIL = 0.02
_LEAST = 4
_STEPS = (1, 2, 5, 10, 20, 25, 50)

OffBy = Mapping[str, Mapping[float, int]]
"""Shown name of a run to its misses: observed minus wanted, to how many."""


@dataclass(frozen=True, slots=True)
class Bin:
    """What falls from low to below high; low or high is None at an open end."""

    low: float | None
    high: float | None
    drawn: tuple[float, float]

    def holds(self, value: float) -> bool:
        """Whether a miss belongs here."""
        return (self.low is None or self.low <= value) and (self.high is None or value < self.high)

    def said(self, *, integers: bool) -> str:
        """The bin in words."""
        last = None if self.high is None else self.high - 1 if integers else self.high
        if self.low is None:
            return f"{_text(last)} or less" if integers else f"below {_text(last)}"
        if last is None:
            return f"{_text(self.low)} or more"
        if last == self.low:
            return _text(self.low)
        return f"{_text(self.low)} to {'' if integers else 'below '}{_text(last)}"


def bins(off_by: OffBy) -> list[Bin]:
    """Bins of one whole number each, or wider where they would be too many.

    The furthest misses, 2% at either end, share a bin: one answer that is off by
    thousands shall not hide the others.
    """
    total: dict[float, int] = {}
    for of in off_by.values():
        for value, count in of.items():
            total[value] = total.get(value, 0) + count
    values = sorted(total)
    low, high = values[0], values[-1]
    if high - low >= BINS:
        low, high = _quantile(total, _TAIL), _quantile(total, 1 - _TAIL)
    width = _width(low, high, integers=_integers(off_by))
    first, last = floor(low / width), floor(high / width) + 1
    found = [
        Bin(i * width, (i + 1) * width, (i * width, (i + 1) * width)) for i in range(first, last)
    ]
    if values[0] < found[0].drawn[0]:
        edge = found[0].drawn[0]
        found.insert(0, Bin(None, edge, (edge - width, edge)))
    if values[-1] >= found[-1].drawn[1]:
        edge = found[-1].drawn[1]
        found.append(Bin(edge, None, (edge, edge + width)))
    return found


def miss_rows(off_by: OffBy) -> list[list[str]]:
    """Run, bin and count: of the bins that are not empty."""
    return [
        [run, one.said(integers=_integers(off_by)), f"{count:,}"]
        for run, one, count in _counts(off_by)
        if count
    ]


def miss_chart(off_by: OffBy, runs: Runs) -> dict[str, Any]:
    """The picture: in each bin a bar of each run."""
    places = {run: place for place, run in enumerate(off_by)}
    integers = _integers(off_by)
    every = bins(off_by)
    # With what is wanted in sight, and not one bar as wide as the picture.
    step = _step(every)
    low, high = every[0].drawn[0] - step / 2, every[-1].drawn[1] + step / 2
    domain = [min(low, -_LEAST * step), max(high, _LEAST * step)]
    # A bar of a whole number stands over it, not beside it.
    shift = 0.5 if integers and step == 1 else 0.0
    values = []
    for run, one, count in _counts(off_by):
        if count:
            left, right = one.drawn
            share = (right - left) * 0.9 / len(places)
            start = left + (right - left) * 0.05 + places[run] * share - shift
            values.append(
                {"run": run, "start": start, "end": start + share, "count": count, "zero": 0}
                | {"of": one.said(integers=integers), "told": f"{count:,}"}
            )
    fields = {"run": "run", "of": "off by", "told": "misses"}
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X(
            "start:Q",
            scale=alt.Scale(domain=domain, nice=False, padding=6),
            axis=alt.Axis(
                title="observed minus wanted",
                labelExpr=SIGNED,
                tickCount=7,
                tickMinStep=1 if integers else 0,
                grid=False,
            ),
        ),
        x2="end:Q",
        y=alt.Y("count:Q", axis=alt.Axis(title="misses", tickCount=4, tickMinStep=1, format="~s")),
        y2="zero:Q",
        color=runs.colour(off_by),
        tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in fields.items()],
    )
    picture = base.mark_rect().properties(width="container", height=150)
    return specification(picture)


def _counts(off_by: OffBy) -> Iterator[tuple[str, Bin, int]]:
    every = bins(off_by)
    for run, of in off_by.items():
        for one in every:
            yield run, one, sum(count for value, count in of.items() if one.holds(value))


def _integers(off_by: OffBy) -> bool:
    return all(float(value).is_integer() for of in off_by.values() for value in of)


def _step(found: list[Bin]) -> float:
    left, right = found[0].drawn
    return right - left


def _width(low: float, high: float, *, integers: bool) -> float:
    if integers and high - low < BINS:
        return 1.0
    scale = 1.0
    if not integers:
        while (high - low) / scale < 1 and scale > 1e-12:
            scale /= 10
        scale /= 10
    while True:
        for step in _STEPS:
            if ceil((high - low) / (step * scale)) < BINS:
                return step * scale
        scale *= 10


def _quantile(total: Mapping[float, int], share: float) -> float:
    """The smallest value up to which there is that share of all."""
    wanted, seen = share * sum(total.values()), 0
    for value in sorted(total):
        seen += total[value]
        if seen >= wanted:
            return value
    return max(total)


def _text(value: float | None) -> str:
    if value is None or value == 0:
        return "0"
    return f"{value:+,.0f}" if float(value).is_integer() else number(value, sign=True)
