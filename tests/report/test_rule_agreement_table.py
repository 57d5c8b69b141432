"""A judge beside the rules, as a reader gets it in a terminal."""

from __future__ import annotations

import numpy as np
from rich.console import Console

from harness.analysis.judge_agreement import JudgeAndRules, RuleAgreement, agreement
from harness.report.rule_agreement_table import rule_agreement_table

NASTY = "[red]a\x1b[2J"


def kind(rule: str, judge: list[int], reference: list[int]) -> RuleAgreement:
    found = agreement(np.array(judge), np.array(reference), np.arange(len(judge)))
    return RuleAgreement(rule=rule, agreement=found, judge_only=[NASTY, "b"], rule_only=[])


def shown(*kinds: RuleAgreement, width: int = 120) -> str:
    overall = kind("", [1, 0, -1, 1], [1, 0, 1, 0])
    found = JudgeAndRules(
        judge=NASTY, overall=overall, kinds=list(kinds), n_skipped=2, n_without_rule=1_000
    )
    console = Console(width=width, record=True, force_terminal=False)
    with console.capture() as captured:
        console.print(rule_agreement_table([found]))
    return captured.get()


def test_figures_and_what_is_unknown() -> None:
    told = shown(kind("word_count", [1, 0, -1, 1], [1, 0, 1, 0]), kind("json", [1, 1], [1, 1]))
    rows = {line.split()[0]: line.split()[1:] for line in told.splitlines() if line.strip()}
    assert rows["word_count"][:2] == ["3", "66.7%"]
    assert rows["word_count"][3:] == ["0.40", "1", "0", "1"]
    assert rows["json"][3] == "n/a"
    assert rows["all"][0] == "3"
    assert "Decided by a rule, the judge not asked: 2 constraints." in told
    assert "Without a rule: 1,000 constraints." in told


def test_names_from_data_are_inert_and_narrow_terminals_lose_no_figure() -> None:
    told = shown(kind("word_count", [1], [0]), width=60)
    assert "\x1b" not in told
    assert "[red]a\\x1b[2J, b" in told
    assert "…" not in told
    assert shown(width=60).count("agree") == 0
