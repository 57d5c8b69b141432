"""What judges say, verdict by verdict: on criteria, else by their scores."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.analysis.judge_verdicts import JudgeVerdict, Said, judges_with_verdicts, read_answers
from harness.errors import DataInvalid
from harness.records import Score
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
