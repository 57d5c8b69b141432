"""Lines with bands: a figure of each run that depends on a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import altair as alt

from harness.report.figures.names import interval, number
from harness.report.figures.runs import Runs, specification

HEIGHT = 240
_TICKS = 10

BANDS = "Bands: 95% intervals, each for itself."


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a line.

    kind: of line, by its dashes.
    at: where it is.
    n: of what it is the mean.
    """

    kind: str
    run: str
    at: int
    value: float
    stderr: float | None
    ci95: tuple[float, float] | None
    n: int


def table(
    points: Sequence[Point], at: str, value: str, of: str
) -> tuple[list[str], list[list[str]]]:
    """The headings, and a row for each point."""
    headings = ["line", "run", at, value, "s.e.", "95% interval", of]
    return headings, [[one.kind, one.run, *_texts(one)] for one in points]


def chart(
    points: Sequence[Point], kinds: Sequence[str], at: str, value: str, of: str, runs: Runs
) -> dict[str, Any]:
    """The picture. kinds: of lines, the first solid; at: heading of the numbers below."""
    present = {one.run for one in points}
    titles, _ = table([], at, value, of)
    fields = ["kind", "run", "at", "figure", "error", "between", "n"]
    last = max((one.at for one in points), default=1)
    ticks = list(range(1, last + 1, ceil(last / _TICKS)))
    axis = alt.Axis(title=at, format="d", values=ticks, grid=False)
    base = alt.Chart(alt.InlineData(values=[_datum(one, runs) for one in points])).encode(
        x=alt.X("at:Q", axis=axis, scale=alt.Scale(domain=[1, last], nice=False, padding=6)),
        color=runs.colour(present),
        detail=["kind:N", "run:N"],
        tooltip=[
            alt.Tooltip(f"{name}:N", title=title)
            for name, title in zip(fields, titles, strict=True)
        ],
    )
    dash = alt.StrokeDash(
        "kind:N",
        scale=alt.Scale(domain=list(kinds), range=[[1, 0], [5, 3], [2, 2]][: len(kinds)]),
        legend=alt.Legend(title=None, symbolType="stroke", symbolSize=300) if kinds[1:] else None,
    )
    y = alt.Y("value:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(title=value, tickCount=5))
    band = (
        base.transform_filter("isValid(datum.low)")
        .mark_area(opacity=0.13)
        .encode(y=alt.Y("low:Q", scale=alt.Scale(domain=[0, 1])), y2="high:Q")
    )
    line = base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash)
    mark = base.mark_point(filled=True, size=45, opacity=1).encode(y=y, shape=runs.shape(present))
    return specification(alt.layer(band, line, mark).properties(width="container", height=HEIGHT))


def _texts(one: Point) -> list[str]:
    return [
        f"{one.at:,}",
        number(one.value),
        number(one.stderr),
        interval(one.ci95),
        f"{one.n:,}",
    ]


def _datum(one: Point, runs: Runs) -> dict[str, Any]:
    low, high = one.ci95 or (None, None)
    _, value, error, between, n = _texts(one)
    return {
        "kind": one.kind,
        "run": one.run,
        "key": runs.keys[one.run],
        "at": one.at,
        "value": one.value,
        "low": low,
        "high": high,
        "figure": value,
        "error": error,
        "between": between,
        "n": n,
    }
