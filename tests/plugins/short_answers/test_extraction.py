"""Numbers and JSON values as answers: what is none."""

from typing import Any

import pytest

from harness.errors import ConfigError, Unparseable
from harness.records import Instance
from harness.scoring.checkers import ExactMatchChecker
from harness.scoring.extraction import build_extraction, prompt_mismatches
from tests.scoring.test_checks import verdicts
from tests.tasks.test_task import CHECKED, ROW, Made, made

__all__ = ["made"]


@pytest.mark.parametrize(
    ("way", "text", "answer"),
    [
        ({"number": "last"}, "5 + 5 = $1,010.0", "1010.0"),
        ({"number": "first"}, "5, as 5 + 5 = 10", "5"),
        ({"number": "last"}, "\\boxed{12{,}000}", "12000"),
        ({"json": "answer"}, 'So: {"answer": "x"}', "x"),
        ({"json": "answer"}, r'{"answer": "half \ud83d"}', "half \ufffd"),
        ({"json": "a.b"}, '{"a": {"b": [1, "é"]}}', '[1, "é"]'),
        ({"json": "a"}, '{"a": "<city>"} becomes {"a": "x"}', "x"),
        ({"json": "a"}, '{"a": "x"}\nUser: And now?\n{"a": "y"}', "x"),
        ({"json": "a"}, 'Question: What?\n{"a": "x"}', "x"),
        ({"number": "last"}, "#### 5\n\nQuestion: What?\n#### 3", "5"),
        ({"json": "a", "take": "last"}, '{"a": "x"} Correction: {"a": "y"}', "y"),
        ({"json": "a", "take": "first"}, '{"a": "x"} then {"a": "y"}', "x"),
    ],
)
def test_the_answer_is_read(way: dict[str, Any], text: str, answer: str) -> None:
    found = build_extraction(way, "task.extract")
    assert found.read(text) == answer
    written = found.write(answer)
    assert written is None or found.read(written) == answer


@pytest.mark.parametrize("way", [{"number": "last"}, {"json": "a"}])
def test_an_answer_that_is_not_there_is_unparseable(way: dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        build_extraction(way, "task.extract").read("x")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"regex": "a", "json": "b"}, "has both"),
        ({"json": "a", "take": "second"}, "must be first or last"),
        ({"json": "a", "ignore_case": True}, "json has no 'ignore_case'"),
        ({"number": True}, "must be first or last"),
        ({"json": ""}, "name of a key"),
        ({"json": "a..b"}, "name of a key"),
    ],
)
def test_a_way_that_is_none_is_refused(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_extraction(raw, "task.extract")


@pytest.mark.parametrize("key", ["a", "b.c"])
def test_null_is_no_answer(key: str) -> None:
    with pytest.raises(Unparseable, match="null"):
        build_extraction({"json": key}, "task.extract").read('{"a": null, "b": {"c": null}}')


def test_no_json_is_read_from_reasoning_that_the_prompt_asks_for() -> None:
    with pytest.raises(Unparseable):
        build_extraction({"json": "a"}, "task.extract").read('<think>{"a": 1}</think>none')


def test_a_number_without_a_certain_value_is_unparseable() -> None:
    with pytest.raises(Unparseable, match=r"last number of the answer \(7-8\)"):
        build_extraction({"number": "last"}, "task.extract").read("5, or 7-8.")
    assert build_extraction({"number": "last"}, "task.extract").write("7-8") is None


def test_what_a_json_value_lacks_is_said() -> None:
    with pytest.raises(Unparseable, match=r"has no 'a\.b'"):
        build_extraction({"json": "a.b"}, "task.extract").read('{"a": 1}')
    with pytest.raises(Unparseable, match="has no 'a'"):
        build_extraction({"json": "a"}, "task.extract").read('{"a": 1} Correction: {"b": 2}')


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
    way = build_extraction({"json": "result"}, "task.extract")
    with pytest.raises(Unparseable, match=r"after its last JSON object|takes it back"):
        way.read(f'{{"result": "10"}}\n\n{rest}')


CORRECTIONS = """
Oops, 15! | No wait, it's 15. | Apologies, it should be 15. | I need to correct myself: 15.
Or rather 15. | Rather, 15. | I mean 15. | Let me correct that: 15 | Revised: 15
Upon review, the value should be 15. | I apologize for the error above; the total is 15.
Looking back, I miscounted. It's 15. | Let me fix that. 15 it is. | Oh no, wait, 15.
I should have said 15. | Nope, 15. | It ought to be 15. | I misspoke: 15 | Better: 15
Having checked again, 15 is correct. | In fact 15 is right. | The correct value: 15
Please disregard this and take 15. | Ignore the above and take 15. | Please read 15 instead.
I'd change this to 15. | I would change this. | Please replace 12 with 15. | Replace 12 by 15.
That was a slip. | That's not right. It must be something else.
"""


@pytest.mark.parametrize(
    "rest", [text.strip() for line in CORRECTIONS.strip().splitlines() for text in line.split("|")]
)
@pytest.mark.parametrize(
    ("way", "answer"),
    [
        ({"regex": r"Answer: (\w+)", "take": "last"}, "Answer: 12. "),
        ({"regex": r"#### (\d+)", "take": "last"}, "#### 12\n"),
        ({"regex": r"Eggs: (\w+)", "take": "last"}, "Eggs: 12. "),
        ({"regex": r"Eggs: (\w+)"}, "Eggs: 12. "),
        ({"json": "result"}, '{"result": 12}\n\n'),
        ({"number": "last"}, "The answer is 12. "),
    ],
)
def test_every_extraction_reads_corrections(way: dict[str, Any], answer: str, rest: str) -> None:
    assert build_extraction(way, "task.extract").read(answer) == "12"
    with pytest.raises(Unparseable):
        build_extraction(way, "task.extract").read(answer + rest)


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
    way = build_extraction({"json": "result"}, "task.extract")
    assert way.read(f'{{"result": "10"}}\n\n{rest}') == "10"


def test_a_json_key_is_looked_for_and_nothing_more() -> None:
    parser = build_extraction({"json": "result"}, "x")
    assert prompt_mismatches(['Answer with {"result": <number>}'], [], parser) == []
    assert len(prompt_mismatches(["Answer in JSON."], [], parser)) == 1


@pytest.mark.parametrize(
    ("row", "options", "gold"),
    [
        ({"target": 4}, {"checks": ["numeric_match"]}, "4"),
        ({"target": "x"}, {**CHECKED, "extract": {"json": "a.b"}}, '{"a": {"b": "x"}}'),
    ],
)
def test_gold_is_what_passes(
    row: dict[str, Any], options: dict[str, Any], gold: str, made: Made
) -> None:
    task = made({"prompt": "a", **row}, **options)
    assert task.reference(next(task.instances())) == gold


def test_the_number_of_a_reply_is_what_is_scored(made: Made) -> None:
    task = made(ROW, extract={"number": "last"}, **CHECKED)
    instance = next(task.instances())
    assert task.extracted(instance, "2 + 2 = 4") == "4"
    assert task.extracted(instance, "four") is None


def test_options_come_from_the_run_file_and_from_the_row() -> None:
    check = {"numeric_match": {"field": "n", "tolerance": 0.5}}
    (passed,) = verdicts([check], {"n": "1,000"}, "1000.2").values()
    assert passed is True


CORRECTIONS = [
    "~~{first}~~ {second}",
    "<del>{first}</del> {second}",
    "{first}. Ah, but the question asks for the other one, so {second}.",
    "{first}. However, the question asks for half, so {second}.",
    "{first}. But the problem says per week, so {second}.",
    "{first}. Scratch that: {second}",
    "{first}. Whoops, {second}.",
    "{first}. Argh, no: {second}.",
    "{first}. Make that {second}.",
    "{first}. Not quite: {second}.",
    "{first}. Upon rereading, {second}.",
    "{first}. To be precise, it should be {second}.",
    "{first} (edit: {second})",
    "{first}, er, {second}.",
    "{first} — no, {second}.",
]


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize(
    ("way", "announcement", "first", "second"),
    [
        ({"number": "last"}, "The answer is ", "12", "9"),
        ({"number": "last"}, "", "12", "9"),
        ({"regex": r"answer is ([^.\n]+)", "take": "last"}, "The answer is ", "12", "9"),
        ({"json": "a"}, "", '{"a": 12}', "9"),
        ({"json": "a"}, "", '{"a": 12}', '{"a": 9}'),
    ],
)
def test_every_extraction_reads_the_same_corrections(
    way: dict[str, Any], announcement: str, first: str, second: str, correction: str
) -> None:
    text = announcement + correction.format(first=first, second=second)
    try:
        assert build_extraction(way, "task.extract").read(text) == "9"
    except Unparseable:
        assert "{first}" in correction


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 12. The question asks for apples.",
        "The answer is 12. Rather than adding, we multiply.",
        "The answer is 12. I meant well.",
        "The answer is 12. Correctness matters.",
        "The answer is 12 (not counting edits).",
        "The answer is 12. The pictures~~show~~ it.",
    ],
)
def test_what_corrects_nothing_leaves_the_answer(text: str) -> None:
    way = {"regex": r"answer is (\d+)", "take": "last"}
    assert build_extraction(way, "task.extract").read(text) == "12"


def test_a_long_answer_may_have_words_of_corrections() -> None:
    way = {"regex": r"answer is (.+)", "take": "last"}
    answer = "a greenhouse, which is defined not by its walls, but rather by the flow of its air"
    assert build_extraction(way, "task.extract").read(f"The answer is {answer}") == answer


def test_text_inside_a_json_string_is_not_struck_out() -> None:
    way = {"json": "a"}
    assert build_extraction(way, "task.extract").read('{"a": "~~x~~ y"}') == "~~x~~ y"
    assert build_extraction(way, "task.extract").read('~~{"a": "x"}~~ {"a": "y"}') == "y"


@pytest.mark.parametrize(
    ("way", "text", "target", "passed"),
    [
        ({"number": "last"}, "1,200", "1,200", True),
        ({"number": "last"}, "1,200", "1200", True),
        ({"number": "last"}, "$1,200.00", "1200", True),
        ({"number": "last"}, "12", 12.0, True),
        ({"number": "last"}, "12.0", 12, True),
        ({"number": "last"}, "12.50", "12.5", True),
        ({"number": "last"}, "1.5e3", "1500", True),
        ({"number": "last"}, "-5", "\u22125", True),
        ({"number": "last"}, "5", "-5", False),
        ({"number": "last"}, "12", "1.2", False),
        ({"number": "last"}, "12", "12 apples", False),
        ({"number": "last"}, "12", "12 13", False),
        ({"number": "last"}, "12", ["11", "12.0"], True),
        ({"json": "a"}, '{"a": 12.0}', "12", True),
        ({"json": "a"}, '{"a": "12.0"}', "12", False),
        ({"json": "a"}, '{"a": true}', "1", False),
        ({"regex": r"= (\S+)"}, "= 12.0", "12", False),
    ],
)
def test_an_extracted_number_equals_the_same_number_in_another_notation(
    way: dict[str, Any], text: str, target: Any, passed: bool
) -> None:
    answer = build_extraction(way, "task.extract").read(text)
    instance: Instance[Any] = Instance("1", None)
    assert ExactMatchChecker(target).check(answer, instance).passed is passed
