"""A conversation has one verdict, at its last answer, and each turn keeps its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.records import Attempt, Outcome, Score
from harness.store.columns import NOT_JUDGED
from harness.store.index import AttemptIndex
from tests.store.test_index import attempt, write

Turn = bool | Outcome | None  # a verdict, the outcome of an answer without one, or no checks


def answered(number: int, turn: Turn, turns: int = 3) -> Attempt:
    if isinstance(turn, str):
        passed = None if turn == "error" else False
        return attempt(round_=number, outcome=turn, passed=passed, turns=turns)
    scores = {} if turn is None else {f"check_{number}": Score(turn, turn)}
    return attempt(round_=number, passed=turn, scores=scores, turns=turns)


def conversation(path: Path, said: Sequence[Turn]) -> AttemptIndex:
    lines = (answered(number, turn) for number, turn in enumerate(said, start=1))
    return AttemptIndex(write(path / "attempts.jsonl", *lines))


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ([True, True, True], 1),
        ([True, False, True], 0),
        ([False, True, True], 0),
        ([None, None, True], 1),
        ([None, False, None], 0),
        ([None, None, None], NOT_JUDGED),
        ([True, True], NOT_JUDGED),  # unfinished
        ([True, "empty"], 0),  # the end of the conversation
        (["refused"], 0),
        ([True, "truncated", True], 0),
        ([True, "error"], NOT_JUDGED),
        ([False, "error"], NOT_JUDGED),
    ],
)
def test_a_conversation_passes_if_all_its_turns_do(
    tmp_path: Path, said: list[Turn], verdict: int
) -> None:
    table = conversation(tmp_path, said).attempts
    assert table.passed.tolist() == [NOT_JUDGED] * (len(said) - 1) + [verdict]
    assert table.turns is not None
    own = {True: 1, False: 0, None: NOT_JUDGED, "error": NOT_JUDGED}
    assert table.turns.passed.tolist() == [own.get(turn, 0) for turn in said]


def test_the_scores_of_a_conversation_are_those_of_its_last_turn(tmp_path: Path) -> None:
    table = conversation(tmp_path, [True, True, False]).attempts
    assert table.scores["check_1"].tolist() == [NOT_JUDGED] * 3
    assert table.scores["check_3"].tolist() == [NOT_JUDGED, NOT_JUDGED, 0]
    assert table.turns is not None
    assert table.turns.scores["check_1"].tolist() == [1, NOT_JUDGED, NOT_JUDGED]
    unfinished = conversation(tmp_path, [True, True]).attempts
    assert unfinished.last_rounds().scores["check_2"].tolist() == [NOT_JUDGED]


def test_an_attempt_is_read_with_its_turns_verdict_and_the_last_with_that_of_all(
    tmp_path: Path,
) -> None:
    index = conversation(tmp_path, [True, False, True])
    assert [one.passed for one in index.read(Attempt)] == [True, False, False]
    assert [one.passed for one in index.read(Attempt, judged=False)] == [True, False, True]


def test_other_samples_of_the_run_keep_their_verdicts(tmp_path: Path) -> None:
    lines = [
        attempt("a", passed=True),
        *(answered(number, True) for number in (1, 2)),
        attempt("b", passed=False),
    ]
    lines[1:3] = [attempt("c", round_=number, passed=True, turns=2) for number in (1, 2)]
    index = AttemptIndex(write(tmp_path / "attempts.jsonl", *lines))
    found = {one.instance: one.passed for one in index.read(Attempt)}
    assert found == {"a": True, "b": False, "c": True}
    assert index.attempts.max_round == 1
    assert len(index.last_rounds(1)) == 3
