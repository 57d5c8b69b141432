"""Presets for the rows of published data sets."""

from typing import Any

import pytest

from harness.errors import DataInvalid, Unparseable
from tests.tasks.test_task import Made, made, passed

__all__ = ["made"]


def test_presets_read_well_known_forms(made: Made) -> None:
    sums = made({"question": "…", "answer": "6 * 7 = 42\n#### 1,042"}, preset="gsm8k")
    for right in ("The answer is 1042", "So the answer is **$1,042.00**.", "answer is: 1042"):
        assert passed(sums, right) is True, right
    assert passed(sums, "The answer is:\n\n1,042") is True
    assert passed(sums, "The answer is 1042.\n\nQ: …\nA: The answer is 7.") is True
    assert passed(sums, "The answer is 1,042 at first. No: The answer is 42.") is False
    with pytest.raises(Unparseable):
        passed(sums, "1042")
    moves = made({"input": "…\n(A) x\n(B) y", "target": "(B)"}, preset="shuffled_objects")
    assert passed(moves, "The answer is (B)") is True
    assert passed(moves, "the answer is **(b)**.") is True
    assert passed(moves, "The answer is (A).") is False
    sums_json = made({"question": "…", "answer": "#### 1,042"}, preset="gsm8k_json")
    assert passed(sums_json, '{"reasoning": "", "answer": 1042}') is True
    assert passed(sums_json, '{"reasoning": "", "answer": 42}') is False
    moves_json = made({"input": "…", "target": "(B)"}, preset="shuffled_objects_json")
    assert passed(moves_json, '```json\n{"reasoning": "…", "answer": "B"}\n```') is True
    assert passed(moves_json, '{"reasoning": "", "answer": "A"}') is False
    for task in (sums, moves, sums_json, moves_json):
        gold = task.reference(next(task.instances()))
        assert gold is not None
        assert passed(task, gold) is True
        assert task.prompt_errors() == []


@pytest.mark.parametrize(
    "rest",
    [
        "No, 72.",
        "Correction: 72.",
        "That is wrong.",
        "I retract that.",
        "Final answer: unknown",
        "Actually it should be two more than that.",
        "\n<answer>72</answer>",
        '\n{"answer": 72}',
    ],
)
def test_a_preset_reads_no_answer_that_the_reply_takes_back(rest: str, made: Made) -> None:
    task = made({"question": "a", "answer": "#### 70"}, preset="gsm8k")
    with pytest.raises(Unparseable):
        passed(task, f"The answer is 70. {rest}")


def test_a_preset_reads_no_option_of_several(made: Made) -> None:
    moves = made({"input": "…\n(A) x\n(B) y", "target": "(B)"}, preset="shuffled_objects")
    for reply in ("So the answer is (B) or (A).", "The answer is (A). The answer is (B), (A)."):
        with pytest.raises(Unparseable):
            passed(moves, reply)


@pytest.mark.parametrize(
    ("preset", "row", "message"),
    [
        ("gsm8k", {"question": "a", "answer": "42"}, "must end in '#### '"),
        ("gsm8k", {"question": "a", "answer": "#### many"}, "must end in '#### '"),
        ("gsm8k", {"question": "a"}, "must end in '#### '"),
        ("gsm8k", {"answer": "#### 1"}, "needs the field 'question'"),
        ("shuffled_objects", {"input": "a", "target": "AB"}, "a letter in brackets"),
        ("shuffled_objects", {"input": "a"}, "a letter in brackets"),
    ],
)
def test_rows_that_are_not_of_the_preset_are_refused(
    preset: str, row: dict[str, Any], message: str, made: Made
) -> None:
    with pytest.raises(DataInvalid, match=f"item 1: .*{message}"):
        list(made(row, preset=preset).instances())


def test_the_run_file_goes_before_the_preset(made: Made) -> None:
    task = made(
        {"question": "a", "answer": "#### 4"},
        preset="gsm8k",
        prompt="{{ question }}!",
        extract={"number": "last"},
    )
    assert task.messages(next(task.instances()), ())[0].content == "a!"
    assert passed(task, "it is 4") is True
