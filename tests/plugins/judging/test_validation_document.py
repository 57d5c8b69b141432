"""A validation to look at: what is not known is said, and names cannot harm a terminal."""

import json

from rich.console import Console

from harness.plugins.comparisons.judge_verdicts import JudgedAnswer, JudgeVerdict, Said
from harness.plugins.judging.references import JUDGE, pair_verdicts
from harness.plugins.judging.validation import (
    JudgeValidation,
    validate,
    validation_document,
)
from harness.report.table import as_json
from harness.report.terminal import render_for_terminal


def found(probability: float | None = None, runs: tuple[str, ...] = ("r",)) -> JudgeValidation:
    def said(passed: bool | None) -> Said:
        told = JudgeVerdict("x", passed, probability, groups={"c": "[bold]\x1b[2J"})
        return Said("ok", (told,))

    answers = [
        JudgedAnswer(str(n), 0, str(n), "", (said(own), said(True)))
        for n, own in enumerate([True, None, False])
    ]
    pairs = pair_verdicts(dict.fromkeys(runs, answers), JUDGE)
    return validate(
        pairs, judge="\x1b[31mj", reference="k", runs=runs, label="c", marks=["SIMULATED"]
    )


def shown(validation: JudgeValidation, width: int = 100) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(render_for_terminal(validation_document(validation)))
    return capture.get()


def test_what_is_not_known_is_said() -> None:
    text = shown(found())
    assert "SIMULATED" in text
    assert "\x1b[31m" not in text
    assert "\x1b[2J" not in text
    assert "[bold]" in text
    assert "0.500 ± 0.500" in text  # accuracy, of two
    assert "The judge abstained on 1 of them" in " ".join(text.split())
    assert "probabilities are not known" in text
    assert "calibration error" not in text


def test_narrow_and_with_everything() -> None:
    text = shown(found(0.75, ("one", "two")), width=60)
    for said in ("calibration error", "0.7-0.8", "tau-b", "one strict"):
        assert said in text
    assert max(map(len, text.splitlines())) <= 60


def test_json_is_whole_and_in_ascii() -> None:
    text = as_json(validation_document(found(0.75)))
    assert text.isascii()
    assert "\x1b" not in text
    told = json.loads(text)
    assert told["agreement"]["confusion"]["abstained_yes"] == 1
    assert len(told["calibration"]["bins"]) == 10
