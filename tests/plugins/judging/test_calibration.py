"""A calibration curve: a point for each bin that has criteria, and the title says what it is of."""

from __future__ import annotations

from xml.etree import ElementTree

from harness.plugins.comparisons.judge_verdicts import JudgedAnswer, JudgeVerdict, Said
from harness.plugins.judging.calibration import calibration_figure
from harness.plugins.judging.references import JUDGE, pair_verdicts
from harness.plugins.judging.validation import JudgeValidation, validate
from harness.plugins.report.figure import image


def found(*told: tuple[float | None, bool]) -> JudgeValidation:
    """A judge's probabilities of yes, each with what the reference says."""
    answers = [
        JudgedAnswer(str(n), 0, str(n), "", tuple(
            Said("ok", (JudgeVerdict("x", verdict, probability),))
            for verdict, probability in (((own or 0) >= 0.5, own), (yes, None))
        ))
        for n, (own, yes) in enumerate(told)
    ]  # fmt: skip
    pairs = pair_verdicts({"r": answers}, JUDGE)
    return validate(pairs, judge="<j>", reference="k", runs=["r"], marks=["SIMULATED"])


def test_bins_with_criteria_are_points() -> None:
    figure = calibration_figure(found((0.95, True), (0.92, True), (0.91, False), (0.15, False)))
    assert figure is not None
    assert figure.title == "Calibration of <j> against k [SIMULATED]"
    assert [(row[0], row[1], row[2], row[4]) for row in figure.rows] == [
        ("0.1-0.2", "0.150", "0.000", "1"),
        ("0.9-1", "0.927", "0.667", "3"),
    ]
    svg = image(figure, "svg").decode()
    ElementTree.fromstring(svg)
    assert "&lt;j&gt;" in svg


def test_without_probabilities_there_is_no_curve() -> None:
    assert calibration_figure(found((None, True), (None, False))) is None
