"""A judge beside the rules, against figures computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.analysis.judge_agreement import rule_agreement
from harness.records import Score
from harness.store.judgements import Judgement
from tests.store.test_index import attempt
from tests.store.test_judgements import judged, judgement

YES, NO = True, False


def told(judge: bool | None, rule: bool | None, kind: str = "word_count") -> dict[str, Any]:
    return {"constraint": "c", "passed": judge, "rule": rule, "groups": {"rule": kind}}


def said(instance: str, *constraints: Any, **changes: Any) -> Judgement:
    score = Score(True, True, "", {"constraints": constraints})
    found = judgement(instance, None, judge=changes.pop("judge", "j"), **changes)
    return replace(found, scores={f"{found.judge}.strict": score})


def test_figures_by_hand(tmp_path: Path) -> None:
    """20 times both yes, 5 only the judge, 10 only the rule, 15 both no: kappa is 0.4."""
    pairs = [(YES, YES)] * 20 + [(YES, NO)] * 5 + [(NO, YES)] * 10 + [(NO, NO)] * 15
    names = [f"i{number:02}" for number in range(len(pairs))]
    path = judged(
        tmp_path,
        [attempt(name) for name in names],
        *(said(name, told(*pair)) for name, pair in zip(names, pairs, strict=True)),
        deciding={"j": True},
    )
    (found,) = rule_agreement(path)
    (kind,) = found.kinds
    assert kind.rule == "word_count"
    assert (kind.agreement.accuracy.n, kind.agreement.accuracy.mean) == (50, pytest.approx(0.7))
    assert kind.agreement.kappa.mean == pytest.approx(0.4)
    assert (kind.agreement.confusion.yes_no, kind.agreement.confusion.no_yes) == (5, 10)
    assert kind.judge_only == names[20:23]
    assert kind.rule_only == names[25:28]
    assert found.overall.agreement == kind.agreement


def test_kinds_abstentions_and_what_has_one_verdict(tmp_path: Path) -> None:
    skipped = {"constraint": "c", "passed": YES, "groups": {"rule": "json"}, "decided_by": "rule"}
    without = {"constraint": "c", "passed": YES, "groups": {"category": "Length"}}
    path = judged(
        tmp_path,
        [attempt("a"), attempt("b"), attempt("c", outcome="refused")],
        said("a", told(YES, YES), told(None, NO), told(YES, NO, "no_commas"), without),
        said("b", told(NO, NO), skipped, told(YES, NO, "no_commas")),
        said("a", told(YES, YES), judge="other"),
        said("c", told(NO, YES)),
        deciding={"j": True, "other": False},
    )
    first, other = rule_agreement(path)
    assert [kind.rule for kind in first.kinds] == ["word_count", "no_commas"]
    words, commas = first.kinds
    assert (words.agreement.accuracy.n, words.agreement.confusion.abstained_no) == (2, 1)
    assert commas.judge_only == ["a", "b"]
    assert commas.agreement.kappa.mean == 0
    assert first.overall.agreement.accuracy.n == 4
    assert (first.n_skipped, first.n_without_rule) == (1, 1)
    assert (other.judge, other.overall.agreement.kappa.mean) == ("other", None)


def test_a_judge_that_knows_no_rules_is_not_told_of(tmp_path: Path) -> None:
    path = judged(
        tmp_path,
        [attempt("a")],
        said("a", {"constraint": "c", "passed": YES, "groups": {}}),
        deciding={"j": True},
    )
    assert rule_agreement(path) == []
    assert rule_agreement(tmp_path / "none" / "attempts.jsonl") == []
