"""A validation to look at: what is not known is said, and names cannot harm a terminal."""

import json

import numpy as np
from rich.console import Console

from harness.analysis.judge_agreement import JudgeAndRules, RuleAgreement, agreement
from harness.analysis.judge_pairs import JUDGE, pair_verdicts
from harness.analysis.judge_validation import JudgeValidation, validate
from harness.analysis.judge_verdicts import JudgedAnswer, JudgeVerdict, Said
from harness.report.judges import rule_agreement_document, validation_document
from harness.report.table import as_json
from harness.report.terminal import terminal


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
        console.print(terminal(validation_document(validation)))
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


NASTY = "[red]a\x1b[2J"


def kind(rule: str, judge: list[int], reference: list[int]) -> RuleAgreement:
    found = agreement(np.array(judge), np.array(reference), np.arange(len(judge)))
    return RuleAgreement(rule=rule, agreement=found, judge_only=[NASTY, "b"], rule_only=[])


def shown_rules(*kinds: RuleAgreement, width: int = 120) -> str:
    overall = kind("", [1, 0, -1, 1], [1, 0, 1, 0])
    found = JudgeAndRules(
        judge=NASTY, overall=overall, kinds=list(kinds), n_skipped=2, n_without_rule=1_000
    )
    console = Console(width=width, record=True, force_terminal=False)
    with console.capture() as captured:
        console.print(terminal(rule_agreement_document([found])))
    return captured.get()


def test_figures_and_what_is_unknown() -> None:
    told = shown_rules(
        kind("word_count", [1, 0, -1, 1], [1, 0, 1, 0]), kind("json", [1, 1], [1, 1])
    )
    rows = {line.split()[0]: line.split()[1:] for line in told.splitlines() if line.strip()}
    assert rows["word_count"][:2] == ["3", "66.7%"]
    assert rows["word_count"][3:] == ["0.40", "1", "0", "1"]
    assert rows["json"][3] == "n/a"
    assert rows["all"][0] == "3"
    assert "Decided by a rule without asking the judge: 2 constraints." in told
    assert "Without a rule: 1,000 constraints." in told


def test_names_from_data_are_inert_and_narrow_terminals_lose_no_figure() -> None:
    told = shown_rules(kind("word_count", [1], [0]), width=60)
    assert "\x1b" not in told
    assert "[red]a\\x1b[2J, b" in told
    assert "…" not in told
    assert shown_rules(width=60).count("agree") == 0
