"""The figure of a judge's calibration."""

from __future__ import annotations

from pathlib import Path

from harness.errors import DataMissing
from harness.plugins.judging.validation import JudgeValidation
from harness.plugins.report.figure import NUMBER, Figure, interval, number, write_image
from harness.plugins.report.figures import plot
from harness.plugins.report.figures.plot import Runs, Sheet
from harness.plugins.report.runs import run_title


def calibration_figure(validation: JudgeValidation) -> Figure | None:
    """Draw a judge's calibration curve, or return None without probabilities."""
    headings = ("probability of yes", "mean", "reference says yes", "95% interval", "n")
    sheet = Sheet(Runs.of([]), *headings)
    for bin_ in validation.calibration.bins:
        if bin_.n:
            low, high = bin_.yes.ci95 or (None, None)
            texts = [number(bin_.mean_probability), number(bin_.yes.mean), interval(bin_.yes.ci95)]
            texts = [f"{bin_.low:g}-{bin_.high:g}", *texts, f"{bin_.n:,}"]
            sheet.add("", texts, at=bin_.mean_probability, value=bin_.yes.mean, low=low, high=high)
    if not sheet.rows:
        return None
    chart = plot.points_chart(
        sheet,
        "the reference says yes",
        NUMBER,
        at={"title": "the judge's probability of yes", "domain": [0, 1]},
        curve=[{"at": end, "value": end} for end in (0, 1)],
        curve_mark={"type": "line", "strokeDash": [4, 4], "opacity": 0.5},
    )
    caption = (
        "Of criteria with similar probability, the share for which the reference says yes, with "
        "its 95% interval. On the dashed line the probabilities are calibrated; below it the judge "
        "says yes too readily."
    )
    marks = "".join(f" [{mark}]" for mark in validation.marks)
    title = f"Calibration of {validation.judge} against {validation.reference}{marks}"
    return sheet.figure("calibration", title, caption, chart)


def write_calibration(path: Path, validation: JudgeValidation) -> None:
    """Write a judge's calibration curve.

    Raises:
        DataMissing: If the judge reports no probabilities.
    """
    curve = calibration_figure(validation)
    if curve is None:
        remedy = "A judge reports them from log-probabilities or votes (harness docs judges)."
        problem = f"--figure: the probabilities of {validation.judge!r} are not known."
        raise DataMissing(problem, remedy)
    write_image(path, curve, run_title(validation.runs))
