"""A histogram of how far off answers are, the runs side by side in each bin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
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
    integers = _integers(off_by)
    width = _width(low, high, integers=integers)
    # What is drawn of whole numbers stands over them, not beside them.
    shift = 0.5 if integers else 0.0
    found = [
        Bin(left, right, (left - shift, right - shift))
        for left, right in pairwise(_edges(low, high, width, integers=integers))
    ]
    least, most = found[0].drawn[0] + shift, found[-1].drawn[1] + shift
    if values[0] < least:
        found.insert(0, Bin(None, least, (least - width - shift, least - shift)))
    if values[-1] >= most:
        found.append(Bin(most, None, (most - shift, most + width - shift)))
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
    misses = [value for of in off_by.values() for value in of]
    domain = [
        min(every[0].drawn[0], -_LEAST * step if min(misses) < 0 else -step / 2),
        max(every[-1].drawn[1], _LEAST * step if max(misses) > 0 else step / 2),
    ]
    values = []
    for run, one, count in _counts(off_by):
        if count:
            left, right = one.drawn
            share = (right - left) * 0.9 / len(places)
            start = left + (right - left) * 0.05 + places[run] * share
            values.append(
                {
                    "run": run,
                    "key": runs.keys[run],
                    "start": start,
                    "end": start + share,
                    "count": count,
                    "zero": 0,
                }
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


def _edges(low: float, high: float, width: float, *, integers: bool) -> list[float]:
    """Where bins begin and end that hold low and high.

    Of whole numbers none holds both too little and too much: what was wanted is a bin.
    """
    if not integers:
        return [i * width for i in range(floor(low / width), floor(high / width) + 2)]
    edges = {0.0, 1.0} if low <= 0 <= high else set()
    if low < 0:
        first, last = ceil(max(1.0, -high) / width) - 1, ceil(-low / width)
        edges |= {-i * width for i in range(first, last + 1)}
    if high > 0:
        first, last = int((max(1.0, low) - 1) // width), int((high - 1) // width) + 1
        edges |= {1 + i * width for i in range(first, last + 1)}
    return sorted(edges)


def _counts(off_by: OffBy) -> Iterator[tuple[str, Bin, int]]:
    every = bins(off_by)
    for run, of in off_by.items():
        for one in every:
            yield run, one, sum(count for value, count in of.items() if one.holds(value))


def _integers(off_by: OffBy) -> bool:
    return all(float(value).is_integer() for of in off_by.values() for value in of)


def _step(found: list[Bin]) -> float:
    return max(right - left for left, right in (one.drawn for one in found))


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
