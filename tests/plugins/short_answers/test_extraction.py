"""Numbers and JSON values as answers: what is none."""

import pytest

from harness.errors import Unparseable
from harness.scoring.extraction import extraction


@pytest.mark.parametrize("key", ["a", "b.c"])
def test_null_is_no_answer(key: str) -> None:
    with pytest.raises(Unparseable, match="null"):
        extraction({"json": key}, "task.extract").read('{"a": null, "b": {"c": null}}')


def test_no_json_is_read_from_reasoning_that_the_prompt_asks_for() -> None:
    with pytest.raises(Unparseable):
        extraction({"json": "a"}, "task.extract").read('<think>{"a": 1}</think>none')


def test_a_number_without_a_certain_value_is_unparseable() -> None:
    with pytest.raises(Unparseable, match=r"last number of the answer \(7-8\)"):
        extraction({"number": "last"}, "task.extract").read("5, or 7-8.")
    assert extraction({"number": "last"}, "task.extract").write("7-8") is None


def test_what_a_json_value_lacks_is_said() -> None:
    with pytest.raises(Unparseable, match=r"has no 'a\.b'"):
        extraction({"json": "a.b"}, "task.extract").read('{"a": 1}')
    with pytest.raises(Unparseable, match="has no 'a'"):
        extraction({"json": "a"}, "task.extract").read('{"a": 1} Correction: {"b": 2}')


@pytest.mark.parametrize(
    "rest",
    [
        'Corrected:\nresult: "20"',
        'The corrected result is "20".',
        "Final answer: 20",
        "```yaml\nresult: 20\n```",
        "Final: result = 20",
        "<result>20</result>",
        "Erratum: 20.",
        "**result**: 20",
    ],
)
def test_another_answer_after_the_last_json_object_makes_a_reply_unparseable(rest: str) -> None:
    way = extraction({"json": "result"}, "task.extract")
    with pytest.raises(Unparseable, match="after its last JSON object"):
        way.read(f'{{"result": "10"}}\n\n{rest}')


@pytest.mark.parametrize(
    "rest",
    [
        "The answer is 10.",
        "result: 10",
        "The answer is based on the table.",
        "Explanation: the result follows from two sums.",
        'The key "result": a number, as asked.',
    ],
)
def test_remarks_after_a_json_object_leave_its_answer(rest: str) -> None:
    way = extraction({"json": "result"}, "task.extract")
    assert way.read(f'{{"result": "10"}}\n\n{rest}') == "10"
