"""A judge's calibration curve: what its probabilities say, and how often the reference agrees.

DeGroot and Fienberg 1983, "The Comparison and Evaluation of Forecasters".
"""

from __future__ import annotations

from typing import Any

import altair as alt

from harness.analysis.judge_validation import Bin, JudgeValidation
from harness.report.figure import Figure
from harness.report.figures.names import interval, number
from harness.report.figures.runs import specification

HEIGHT = 320
CAPTION = (
    "A point: the criteria to which the judge gives similar probabilities of yes, its size how "
    "many; at their mean probability, the share to which the reference says yes, with its 95% "
    "interval. On the dashed line the probabilities mean what they say; below it the judge says "
    "yes too readily."
)


def calibration_figure(found: JudgeValidation) -> Figure | None:
    """The curve; None where the judge's probabilities are not known.

    found: its bins without criteria have no point.
    """
    bins = [one for one in found.calibration.bins if one.n]
    if not bins:
        return None
    marks = "".join(f" [{mark}]" for mark in found.marks)
    return Figure(
        name="calibration",
        title=f"Calibration of {found.judge} against {found.reference}{marks}",
        caption=CAPTION,
        chart=_chart(bins),
        headings=("probability of yes", "mean", "reference says yes", "95% interval", "n"),
        rows=tuple(_row(one) for one in bins),
    )


def _row(one: Bin) -> tuple[str, ...]:
    return (
        f"{one.low:g}-{one.high:g}",
        number(one.mean_probability),
        number(one.yes.mean),
        interval(one.yes.ci95),
        f"{one.n:,}",
    )


def _chart(bins: list[Bin]) -> dict[str, Any]:
    unit = alt.Scale(domain=[0, 1], nice=False)
    ticks = [tick / 5 for tick in range(6)]
    says, agrees = "the judge's probability of yes", "the reference says yes"
    x = alt.X("probability:Q", scale=unit, axis=alt.Axis(title=says, values=ticks, grid=False))
    y_axis = alt.Axis(title=agrees, values=ticks)
    even = (
        alt.Chart(alt.InlineData(values=[{"probability": at, "yes": at} for at in (0, 1)]))
        .mark_line(strokeDash=[4, 4], opacity=0.5)
        .encode(x=x, y=alt.Y("yes:Q", scale=unit, axis=y_axis))
    )
    base = alt.Chart(alt.InlineData(values=[_datum(one) for one in bins])).encode(x=x)
    bars = (
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.5)
        .encode(y=alt.Y("low:Q", scale=unit, axis=y_axis), y2="high:Q")
    )
    titles = {"between": "probability of yes", "share": agrees, "interval": "95%", "n": "n"}
    points = base.mark_point(filled=True, shape="circle", opacity=1).encode(
        y=alt.Y("yes:Q", scale=unit, axis=y_axis),
        size=alt.Size("n:Q", scale=alt.Scale(range=[30, 300], zero=True), legend=None),
        tooltip=[alt.Tooltip(f"{field}:N", title=title) for field, title in titles.items()],
    )
    return specification(alt.layer(even, bars, points).properties(width="container", height=HEIGHT))


def _datum(one: Bin) -> dict[str, Any]:
    low, high = one.yes.ci95 or (None, None)
    between, _, share, around, _ = _row(one)
    return {
        "probability": one.mean_probability,
        "yes": one.yes.mean,
        "low": low,
        "high": high,
        **{"between": between, "share": share, "interval": around, "n": one.n},
    }
