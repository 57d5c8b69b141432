"""A judge's calibration curve."""

from __future__ import annotations

from harness.analysis.judge_validation import JudgeValidation
from harness.report.figure import Figure
from harness.report.figures.names import interval, number
from harness.report.figures.plot import Runs, Sheet, alt, known, specification


def calibration_figure(found: JudgeValidation) -> Figure | None:
    """Draw a judge's calibration curve, or return None if the judge's probabilities are unknown.

    DeGroot and Fienberg 1983, "The Comparison and Evaluation of Forecasters". Bins without criteria
    have no point.
    """
    bins = [one for one in found.calibration.bins if one.n]
    if not bins:
        return None
    headings = ("probability of yes", "mean", "reference says yes", "95% interval", "n")
    sheet = Sheet(Runs.of([]), *headings)
    for one in bins:
        texts = [number(one.mean_probability), number(one.yes.mean), interval(one.yes.ci95)]
        low, high = one.yes.ci95 or (None, None)
        sheet.add(
            "",
            [f"{one.low:g}-{one.high:g}", *texts, f"{one.n:,}"],
            probability=one.mean_probability,
            yes=one.yes.mean,
            n=one.n,
            low=low,
            high=high,
        )
    unit = alt.Scale(domain=[0, 1], nice=False)
    ticks = [tick / 5 for tick in range(6)]
    x_axis = alt.Axis(title="the judge's probability of yes", values=ticks, grid=False)
    y_axis = alt.Axis(title="the reference says yes", values=ticks)
    x = alt.X("probability:Q", scale=unit, axis=x_axis)

    def y(name: str) -> alt.Y:
        return alt.Y(f"{name}:Q", scale=unit, axis=y_axis)

    diagonal = alt.Chart(alt.InlineData(values=[{"probability": at, "yes": at} for at in (0, 1)]))
    base = sheet.base().encode(x=x)
    size = alt.Size("n:Q", scale=alt.Scale(range=[30, 300], zero=True), legend=None)
    chart = specification(
        diagonal.mark_line(strokeDash=[4, 4], opacity=0.5).encode(x=x, y=y("yes")),
        known(base, "low").mark_rule(strokeWidth=1.5).encode(y=y("low"), y2="high:Q"),
        base.mark_point(filled=True, shape="circle", opacity=1).encode(y=y("yes"), size=size),
        height=320,
    )
    marks = "".join(f" [{mark}]" for mark in found.marks)
    caption = (
        "A point: the criteria with similar probabilities of yes, its size how many; at their "
        "mean probability, the share for which the reference says yes, with its 95% interval. "
        "On the dashed line the probabilities are right; below it the judge says yes too "
        "readily."
    )
    title = f"Calibration of {found.judge} against {found.reference}{marks}"
    return sheet.figure("calibration", title, caption, chart)
