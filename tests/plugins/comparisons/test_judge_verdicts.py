"""What judges say, verdict by verdict: what is matched, and whose word counts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.errors import DataInvalid
from harness.plugins.comparisons.judge_verdicts import (
    JudgeVerdict,
    Said,
    judges_with_verdicts,
    read_answers,
    read_judged,
)
from harness.records import Score
from harness.store.columns import NOT_JUDGED, AttemptTable
from harness.store.index import AttemptIndex
from harness.store.judgements import Judgement, text_hash
from tests.store.test_index import attempt
from tests.store.test_judgements import judged, judgement


def said(*constraints: dict[str, Any], **changes: Any) -> Judgement:
    """A judgement that tells of constraints."""
    changes = {"judge": "j", **changes}
    found = judgement(changes.pop("instance", "a"), None, **changes)
    score = Score(None, None, "", {"constraints": constraints})
    scores = {f"{found.judge}.strict": score, f"{found.judge}.soft": Score(0.5)}
    return msgspec.structs.replace(found, scores=scores)


def scored(scores: dict[str, Score], **changes: Any) -> Judgement:
    found = judgement("a", None, **{"judge": "j", **changes})
    return msgspec.structs.replace(
        found, scores={f"{found.judge}.{name}": score for name, score in scores.items()}
    )


def test_verdicts_on_criteria_with_probability_rule_and_groups(tmp_path: Path) -> None:
    path = judged(
        tmp_path,
        [attempt("a")],
        said(
            {"constraint": "x", "passed": True, "probability": 0.9, "groups": {"c": "y", "n": 1}},
            {"constraint": "x", "passed": None, "probability": None, "rule": False},
            {"constraint": "z", "passed": True, "rule": True, "decided_by": "rule"},
            {"constraint": "r", "passed": True, "rule": "odd", "decided_by": 3},
        ),
        deciding={"j": True},
    )
    (answer,) = read_answers(AttemptIndex(path), ["j"])
    assert (answer.instance, answer.sample, answer.cluster) == ("a", 0, "prompt of a")
    assert answer.attempt == text_hash("an answer")
    assert answer.said == (
        Said(
            "ok",
            (
                JudgeVerdict("x", True, 0.9, None, False, {"c": "y"}),
                JudgeVerdict("x", None, None, False),
                JudgeVerdict("z", True, None, True, True),
                JudgeVerdict("r", True),
            ),
            of_criteria=True,
        ),
    )


def test_a_judge_without_criteria_is_read_by_its_scores(tmp_path: Path) -> None:
    scores = {
        "polite": Score(1.0, True),
        "helpful": Score(0.0, False),
        "correct": Score(True),  # advises: it has a value and no verdict
        "number": Score(7.0),  # no verdict at all
        "unmade": Score(None),
    }
    path = judged(tmp_path, [attempt("a")], scored(scores), deciding={"j": False})
    (answer,) = read_answers(AttemptIndex(path), ["j"])
    (told,) = answer.said
    assert told is not None
    assert [(one.criterion, one.passed) for one in told.verdicts] == [
        ("polite", True),
        ("helpful", False),
        ("correct", True),
        ("unmade", None),
    ]
    assert judges_with_verdicts(path) == ["j"]
    assert judges_with_verdicts(path, of_criteria=True) == []


def test_the_last_word_on_the_text_that_the_last_round_has(tmp_path: Path) -> None:
    yes, no = ({"constraint": "x", "passed": passed} for passed in (True, False))
    path = judged(
        tmp_path,
        [attempt("a", 0, 1), attempt("a", 0, 2), attempt("b"), attempt("c", outcome="refused")],
        said(no, round_=1),
        said(no, round_=2),
        said(yes, round_=2),
        said(no, round_=2, text="superseded"),
        said(no, instance="c"),
        said(no, judge="removed"),
        judgement("b", None, judge="k", outcome="unparseable"),
        deciding={"j": True, "k": True},
    )
    found = {
        answer.instance: answer.said for answer in read_answers(AttemptIndex(path), ["j", "k"])
    }
    assert found == {
        "a": (Said("ok", (JudgeVerdict("x", True),), of_criteria=True), None),
        "b": (None, Said("unparseable", ())),
        "c": (None, None),
    }
    assert judges_with_verdicts(path) == ["j"]


def test_what_is_no_probability_tells_nothing_and_a_damaged_line_is_named(tmp_path: Path) -> None:
    odd = said({"constraint": "x", "passed": True, "probability": 7})
    path = judged(tmp_path, [attempt("a")], odd, deciding={"j": True})
    (answer,) = read_answers(AttemptIndex(path), ["j"])
    assert [one.criterion for one in (answer.said[0] or odd).verdicts] == ["strict"]  # type: ignore[union-attr]
    with (tmp_path / "judgements.jsonl").open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(DataInvalid, match="line 2"):
        list(read_answers(AttemptIndex(path), ["j"]))


Told = Mapping[str, bool | None]


def told(verdicts: Told, *, judge: str = "j", **changes: Any) -> Judgement:
    """A judgement of an answer's constraints; ``kind`` is the first word of each."""
    constraints = [
        {
            "constraint": text,
            "passed": passed,
            "probability": 0.5,
            "groups": {"category": text.split()[0], "odd": 3},
        }
        for text, passed in verdicts.items()
    ]
    score = Score(all(verdicts.values()), True, "", {"constraints": constraints})
    found = judgement(changes.pop("instance", "a"), None, judge=judge, **changes)
    # Two scores that tell of the same constraints: they are there once.
    scores = {f"{judge}.strict": score, f"{judge}.again": score}
    return Judgement(
        **{**{f: getattr(found, f) for f in found.__struct_fields__}, "scores": scores}
    )


def by_group(table: AttemptTable, label: str = "category") -> dict[str, list[int]]:
    return {group: rows.passed.tolist() for group, rows in table.split_by(label)}


def passed(path: Path, judge: str, round_: int | None = None) -> dict[str, list[int]]:
    return by_group(read_judged(AttemptIndex(path), judge, round_)[0])


def test_each_constraint_is_a_row_with_its_groups_and_the_instances(tmp_path: Path) -> None:
    attempts = [
        attempt("a", groups={"domain": "Law"}),
        attempt("b", groups={"domain": "Arts"}, cluster="prompt of a"),
    ]
    path = judged(
        tmp_path,
        attempts,
        told({"Length one": True, "Format two": False, "Length three": None}),
        told({"Length four": False}, instance="b"),
        deciding={"j": True},
    )
    table, without = read_judged(AttemptIndex(path), "j")
    by_category = {group: sorted(values) for group, values in by_group(table).items()}
    assert by_category == {"Format": [0], "Length": [NOT_JUDGED, 0, 1]}
    by_domain = {group: sorted(values) for group, values in by_group(table, "domain").items()}
    assert by_domain == {"Arts": [0], "Law": [NOT_JUDGED, 0, 1]}
    assert len(set(table.cluster.tolist())) == 1
    assert without == 0
    assert "odd" not in table.labels()


def test_the_last_word_on_the_text_that_counts(tmp_path: Path) -> None:
    attempts = [attempt("a", text="old"), attempt("a", text="new")]
    path = judged(
        tmp_path,
        attempts,
        told({"Length": True}, text="new"),
        told({"Length": False}, text="new"),
        told({"Length": True}, text="old"),
        told({"Length": True}, text="new", judge="other"),
        deciding={"j": True, "other": False},
    )
    with (tmp_path / "judgements.jsonl").open("ab") as file:
        file.write(b'{"v":1,"judge":"j","inst')  # torn: a judge was killed here
    assert passed(path, "j") == {"Length": [0]}
    assert passed(path, "other") == {"Length": [1]}


def test_rounds_and_samples(tmp_path: Path) -> None:
    attempts = [attempt("a", 0, 1), attempt("a", 0, 2), attempt("a", 1, 1)]
    path = judged(
        tmp_path,
        attempts,
        told({"Length": False}, round_=1),
        told({"Length": True}, round_=2),
        told({"Length": False}, sample=1),
        deciding={"j": True},
    )
    assert passed(path, "j") == {"Length": [1, 0]}
    assert passed(path, "j", round_=1) == {"Length": [0, 0]}


def test_samples_without_a_word_are_counted(tmp_path: Path) -> None:
    attempts = [
        attempt("a"),
        attempt("b", outcome="refused", text="", passed=False),
        attempt("c"),
        attempt("d"),
    ]
    path = judged(
        tmp_path,
        attempts,
        told({"Length": True}),
        told({"Length": True}, instance="b", text=""),  # no judge sees it
        judgement("c", outcome="unparseable"),
        deciding={"j": True},
    )
    assert passed(path, "j") == {"Length": [1]}
    assert read_judged(AttemptIndex(path), "j")[1] == 3


def test_which_judges_tell_of_constraints(tmp_path: Path) -> None:
    path = judged(
        tmp_path,
        [attempt("a")],
        judgement("a", judge="plain"),
        told({"Length": True}, judge="late"),
        told({"Length": True}, judge="gone"),
        told({"Length": True}),
        deciding={"plain": True, "j": True, "late": False},
    )
    assert judges_with_verdicts(path, of_criteria=True) == ["j", "late"]
    assert len(read_judged(AttemptIndex(path), "plain")[0]) == 0


def test_details_of_another_shape_tell_nothing(tmp_path: Path) -> None:
    odd = Score(True, True, "", {"constraints": [{"text": 3}]})
    path = judged(tmp_path, [attempt("a")], judgement("a", odd), deciding={"j": True})
    assert judges_with_verdicts(path, of_criteria=True) == []
    assert read_judged(AttemptIndex(path), "j")[1] == 1


def test_a_line_that_is_no_judgement_is_named(tmp_path: Path) -> None:
    path = judged(tmp_path, [attempt("a")], told({"Length": True}), deciding={"j": True})
    with (tmp_path / "judgements.jsonl").open("ab") as file:
        file.write(b'{"v":1}\n')
    with pytest.raises(DataInvalid, match="line 2: not a judgement"):
        read_judged(AttemptIndex(path), "j")


def test_a_run_without_judgements(tmp_path: Path) -> None:
    path = judged(tmp_path, [attempt("a")], deciding={})
    (tmp_path / "judgements.jsonl").unlink()
    assert judges_with_verdicts(path, of_criteria=True) == []
    assert read_judged(AttemptIndex(path), "j")[1] == 1
