"""Lines with error bars: groups whose names are numbers, along an axis.

Owns which groups are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import altair as alt

from harness.report.figures.dots import Dot, Plan, datum, tooltip
from harness.report.figures.runs import Runs, specification
from harness.report.figures.scales import number_scale, wide
from harness.report.text import UNKNOWN

HEIGHT = 240

LEAST_OF_LINE = 3
"""Groups of which there is a line to see."""

LINE_BARS = "Bars: 95% interval. A hollow dot has no interval."

_MOST_TICKS = 10
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def as_numbers(groups: Sequence[str]) -> dict[str, float] | None:
    """Each group's number; None where one is none, or two are the same.

    >>> as_numbers(["2", "10"])
    {'2': 2.0, '10': 10.0}
    >>> as_numbers(["2", "10", "other"])
    """
    found = {group: float(group) for group in groups if _NUMBER.fullmatch(group)}
    unlike = len(set(found.values())) == len(groups)
    return found if unlike and all(map(isfinite, found.values())) else None


def line_chart(
    dots: Sequence[Dot], at: Mapping[str, float], plan: Plan, runs: Runs
) -> dict[str, Any]:
    """The picture. at: where a row is along the axis."""
    present = {one.run for one in dots}
    numbers = sorted(at.values())
    axis = alt.Axis(
        title=f"{plan.heading} (logarithmic)" if wide(numbers) else plan.heading,
        format="~g",
        grid=False,
        **({"values": numbers} if len(numbers) <= _MOST_TICKS else {"tickCount": _MOST_TICKS}),
    )
    values = [{"at": at[one.row], **datum(one, plan, runs)} for one in dots]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("at:Q", axis=axis, scale=number_scale(numbers, zero=False)),
        color=runs.colour(present),
        tooltip=tooltip(dots, plan),
    )
    scale = alt.Scale(domain=[0, 1]) if plan.bounded else alt.Scale(zero=False)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=scale, axis=alt.Axis(title=plan.value, tickCount=5))

    known = base.transform_filter("isValid(datum.value)")
    shape = runs.shape(present)
    picture = alt.layer(
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.25, opacity=0.7)
        .encode(y=y("low"), y2="high:Q"),
        known.mark_line(strokeWidth=1.5).encode(y=y("value")),
        known.transform_filter("isValid(datum.low)")
        .mark_point(filled=True, size=45, opacity=1)
        .encode(y=y("value"), shape=shape),
        known.transform_filter("!isValid(datum.low)")
        .mark_point(filled=False, size=45, strokeWidth=1.5, opacity=1)
        .encode(y=y("value"), shape=shape),
        base.transform_filter("!isValid(datum.value)")
        .mark_text(text=UNKNOWN, fontSize=9, baseline="bottom")
        .encode(y=alt.value(HEIGHT - 2)),
    )
    return specification(picture.properties(width="container", height=HEIGHT))
