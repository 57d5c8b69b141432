from pathlib import Path

import pytest

from harness.plugins.report.entries import Failures, merged, read_failures
from harness.plugins.show.transcript import read_failed
from harness.records import Score
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.judgements import (
    Judgement,
    Register,
    RegisteredJudge,
    text_hash,
    write_register,
)
from tests.engine.test_recorder_crashes import run_that_crashes_at_two_lines
from tests.plugins.show.test_transcript_failures import index
from tests.report.attempts import attempt


def reasons(found: Failures) -> list[list[str]]:
    return [[found.reasons[kind] for kind in kinds] for kinds in found.of.values()]


def test_a_reason_is_a_constraint_or_else_a_score_or_an_outcome(tmp_path: Path) -> None:
    listed = [
        {"constraint": "at most 9 words", "passed": False},
        {"constraint": "at most 12 words", "passed": False},
        {"constraint": "no commas", "kind": "commas", "passed": False, "reason": "2 commas"},
        {"constraint": "titles", "passed": True},
    ]
    scores = {
        "rules": Score(False, False, "x", {"constraints": listed}),
        "short": Score(False, False, "98 of 60 words"),
        "loose": Score(False, None, "does not decide"),
        "bare": Score(False, False),
    }
    found = read_failures(
        index(
            tmp_path,
            attempt("a", passed=False, scores=scores),
            attempt("b", passed=False, outcome="truncated", scores={"bare": scores["bare"]}),
            attempt("c", passed=False, outcome="refused", scores=scores),
        )
    )
    assert reasons(found) == [
        ["not met: at most N words", "not met: commas", "short: 98 of 60 words", "bare"],
        ["truncated: the answer reached the token limit (decoding.max_tokens)", "bare"],
        ["refused: x; 98 of 60 words; does not decide"],
    ]
    assert list(found.names.values()) == [("a", 0, 1), ("b", 0, 1), ("c", 0, 1)]
    assert list(found.told.values()) == [
        ["not met: at most 9 words", "not met: at most 12 words", "2 commas"],
        ["the answer reached the token limit (decoding.max_tokens)", "bare"],
        ["x; 98 of 60 words; does not decide"],
    ]


@pytest.mark.parametrize("decides", [True, False])
def test_a_judge_that_does_not_decide_is_no_reason(decides: bool, tmp_path: Path) -> None:
    judges = {"j": RegisteredJudge(section={"model": {}}, decides=decides)}
    write_register(tmp_path, Register(judged=("ok",), judges=judges))
    wrong = attempt("a", passed=False, scores={"exact": Score(False, False, "wrong")})
    said = {"j.strict": Score(False, False, "rude")}
    with JsonLinesWriter(tmp_path / "judgements.jsonl") as writer:
        text = text_hash(wrong.text or "")
        writer.append(Judgement(1, "j", "a", 0, 1, text, "ok", 0.0, 1.0, scores=said))
    of = index(tmp_path, wrong)
    assert reasons(read_failures(of)) == [
        ["exact: wrong", *(["j.strict: rude"] if decides else [])]
    ]
    assert [one.reason for one in read_failed(of)] == ["wrong; rude" if decides else "wrong"]


def test_an_attempt_without_an_answer_tells_no_reason(tmp_path: Path) -> None:
    failed = attempt("a", passed=False, outcome="empty", text=None, scores={})
    found = read_failures(index(tmp_path, failed))
    assert reasons(found) == [["empty: the answer has no text"]]
    assert list(found.told.values()) == [[]]


def test_reasons_that_quote_other_texts_are_one_if_there_are_several() -> None:
    names = dict.fromkeys(range(3), ("a", 0, 1))
    ann, bob, short = "lacks 'Ann'", "lacks 'Bob'", "short"
    reasons_of_first = {ann: ann, bob: bob, short: short}
    first = Failures(reasons_of_first, {0: (ann, short), 1: (bob,), 2: (ann, bob)}, names, {})
    eve, is_x = "lacks 'Eve'", "is \"x\", don't say 'y'"
    second = Failures({eve: eve, is_x: is_x}, {0: (eve, is_x)}, {0: ("a", 0, 1)}, {})
    assert merged([first]) == [first]
    one, other = merged([first, second])
    assert reasons(one) == [["lacks '…'", "short"], ["lacks '…'"], ["lacks '…'"]]
    assert reasons(other) == [["lacks '…'", is_x]]


def test_numbers_that_all_attempts_share_stay_in_a_reason(tmp_path: Path) -> None:
    def failing(folder: Path, *told: str) -> Failures:
        folder.mkdir()
        lines = [
            attempt(str(at), passed=False, scores={"rule 1": Score(False, False, why)})
            for at, why in enumerate(told)
        ]
        return read_failures(index(folder, *lines))

    one = failing(tmp_path / "one", "at most 9 words, has 12", "at most 9 words, has 11")
    other = failing(tmp_path / "other", "at most 9 words, has 20", "must match '[NA]{3}'")
    assert [*one.reasons.values()] == ["rule 1: at most 9 words, has N"]
    assert [*other.reasons.values()] == [
        "rule 1: at most 9 words, has 20",
        "rule 1: must match '[NA]{3}'",
    ]
    assert [[*failures.reasons.values()] for failures in merged([one, other])] == [
        ["rule 1: at most 9 words, has N"],
        ["rule 1: at most 9 words, has N", "rule 1: must match '[NA]{3}'"],
    ]


def test_crashes_are_grouped_by_their_line(tmp_path: Path) -> None:
    run = run_that_crashes_at_two_lines(tmp_path)
    failures = read_failures(AttemptIndex(run.path / "attempts.jsonl"))
    places = [kind.partition(" at ")[2] for kind in failures.reasons]
    assert places == ["lookup.py:3", "lookup.py:5"]
    assert "raised KeyError: '1' (lookup.py, line 3)" in next(iter(failures.reasons.values()))
