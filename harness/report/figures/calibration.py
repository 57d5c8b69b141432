"""A judge's calibration curve."""

from __future__ import annotations

from harness.analysis.judge_validation import JudgeValidation
from harness.report.figure import Figure
from harness.report.figures.names import interval, number
from harness.report.figures.plot import HEIGHT, Runs, Sheet, alt, interval_layers, specification


def calibration_figure(found: JudgeValidation) -> Figure | None:
    """Draw a judge's calibration curve, or return None if the judge's probabilities are unknown.

    DeGroot and Fienberg 1983, "The Comparison and Evaluation of Forecasters". Bins without criteria
    have no point.
    """
    headings = ("probability of yes", "mean", "reference says yes", "95% interval", "n")
    sheet = Sheet(Runs.of([]), *headings)
    for one in found.calibration.bins:
        if one.n:
            low, high = one.yes.ci95 or (None, None)
            texts = [number(one.mean_probability), number(one.yes.mean), interval(one.yes.ci95)]
            texts = [f"{one.low:g}-{one.high:g}", *texts, f"{one.n:,}"]
            sheet.add("", texts, at=one.mean_probability, value=one.yes.mean, low=low, high=high)
    if not sheet.rows:
        return None
    unit = alt.Scale(domain=[0, 1], nice=False, padding=8)
    axis = alt.Axis(title="the judge's probability of yes", tickCount=5, format=".1f")
    x = alt.X("at:Q", scale=unit, axis=axis)
    diagonal = alt.Chart(alt.InlineData(values=[{"at": end, "value": end} for end in (0, 1)]))
    chart = specification(
        diagonal.mark_line(strokeDash=[4, 4], opacity=0.5).encode(x=x, y="value:Q"),
        *interval_layers(sheet, sheet.base().encode(x=x), "the reference says yes", upright=True),
        height=HEIGHT,
    )
    caption = (
        "The share of criteria with a similar probability for which the reference says yes, with "
        "its 95% interval. On the dashed line the probabilities are right; below it the judge "
        "says yes too readily."
    )
    marks = "".join(f" [{mark}]" for mark in found.marks)
    title = f"Calibration of {found.judge} against {found.reference}{marks}"
    return sheet.figure("calibration", title, caption, chart)
