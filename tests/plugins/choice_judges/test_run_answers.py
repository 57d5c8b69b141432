"""The answers of an earlier run that judges compare with the current one's."""

from pathlib import Path

import pytest

from harness.errors import StoreFailed
from harness.plugins.choice_judges.run_answers import RunAnswers
from harness.records import Instance
from harness.scoring.reasoning import Reasoning
from tests.store.test_index import attempt, write

OUTCOMES = ("ok", "truncated")


def test_answers_are_the_last_rounds_of_the_first_samples(tmp_path: Path) -> None:
    path = write(
        tmp_path / "attempts.jsonl",
        attempt("a", 0, 1, text="first try"),
        attempt("a", 0, 2, text="second try"),
        attempt("a", 1, 1, text="another sample"),
        attempt("b", 0, 1, text="superseded"),
        attempt("b", 0, 1, text="says this"),
        attempt("c", 0, 1, text="", outcome="refused"),
        attempt("e", 0, 1, text=None, outcome="error"),
        attempt("f", 0, 1, text=None, outcome="error"),
        attempt("f", 0, 1, text="made again"),
    )
    answers = RunAnswers(path, OUTCOMES, Reasoning())
    found = {name: answers.text(Instance(name, None)) for name in "abcd"}
    assert {name for name in "abcdef" if answers.has(Instance(name, None))} == set("abf")
    assert answers.failed == 1
    assert found == {"a": "second try", "b": "says this", "c": None, "d": None}


def test_the_digest_depends_on_the_texts_but_not_on_their_order(tmp_path: Path) -> None:
    def digest(name: str, *attempts: object) -> str:
        return RunAnswers(write(tmp_path / name, *attempts), OUTCOMES, Reasoning()).fingerprint()[
            "against_sha256"
        ]

    a, b = attempt("a", text="x"), attempt("b", text="y")
    assert digest("one", a, b) == digest("two", b, a)
    assert digest("three", a) != digest("one", a, b)
    assert digest("four", a, attempt("b", text="z")) != digest("one", a, b)


def test_a_missing_file_has_no_answers_and_a_lost_one_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "attempts.jsonl"
    assert RunAnswers(path, OUTCOMES, Reasoning()).text(Instance("a", None)) is None
    answers = RunAnswers(write(path, attempt("a")), OUTCOMES, Reasoning())
    path.unlink()
    with pytest.raises(StoreFailed, match=r"Cannot read .*attempts\.jsonl"):
        answers.text(Instance("a", None))


def test_reasoning_that_an_earlier_version_left_in_a_text_is_no_part_of_the_answer(
    tmp_path: Path,
) -> None:
    texts = {"left": "<think>Red?</think>\n\nBlue", "separated": "Blue"}
    answers = {
        name: RunAnswers(write(tmp_path / name, attempt("a", text=text)), OUTCOMES, Reasoning())
        for name, text in texts.items()
    }
    assert answers["left"].text(Instance("a", None)) == "Blue"
    assert answers["left"].fingerprint() == answers["separated"].fingerprint()
