"""Which JSON object of a reply is its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Unparseable
from harness.plugins.short_answers.json_objects import json_object
from harness.scoring.patterns import MatchPosition


@pytest.mark.parametrize(
    ("text", "last", "first"),
    [
        ('The format is {"answer": "<city>"}. My answer: {"answer": "Paris"}', "Paris", "<city>"),
        ('{"answer": "Rome"}\n{"answer": "Par', None, "Rome"),
        ('{"answer": "Rome", "alt": {"answer": "Paris"}', None, None),
        ('{"answer": "Rome"}\n{"city": "Paris"}', None, "Rome"),
        ('{"answer": "Rome", "answer": "Paris"}', None, None),
        ('{"answer": "Rome", "answer": "Rome"} No: {"answer": "Paris"}', "Paris", None),
        ('{"note": "write {\\"answer\\": \\"x\\"}", "answer": "Paris"}', "Paris", "Paris"),
        ('{"result": {"answer": "Paris"}}', None, None),
        ('So: {"answer": "Rome"}.\n\n```json\n{"answer": "Paris"}\n```\nDone.', "Paris", "Rome"),
        ('```json\n{"answer": "Paris"}\n```\nI hope {this} helps.', "Paris", "Paris"),
        ('[{"answer": "Rome"}, {"answer": "Paris"}]', None, "Rome"),
        ('[{"answer": "Paris"}]', "Paris", "Paris"),
        ('{"answer": "Rome"} or {"answer": "Paris"}', None, None),
        ('{"answer": "Rome"} / {"answer": "Paris"} {"answer": "Oslo"}', "Oslo", None),
        ('{"answer": "Paris"} or {"answer": "Paris"}', "Paris", "Paris"),
        ('{"answer": "Paris"}\nI retract this.', None, "Paris"),
        ('{"answer": "Paris"}\nIgnore the above.', None, "Paris"),
        ('{"answer": "Paris"}\n\nNo.', None, "Paris"),
        ('{"answer": "Paris"}\nIs there another? No.', "Paris", "Paris"),
        ('{"answer": NaN}', None, None),
        ('{"answer": 1}\n{"answer": NaN}', None, "1"),
        ('{"answer": "Paris",}', None, None),
        ('{"answer": "Rome"} {"answer": "Paris",}', None, "Rome"),
        ("{'answer': 'Paris'}", None, None),
        ('{"answer": "Rome"}\n{answer: "Paris"}', None, "Rome"),
        ('{"answer": <city>}\n{"answer": "Paris"}', "Paris", None),
        ('{"answer": "Rome"}\n```json\n"Paris"\n```', None, "Rome"),
        ('{"answer": "Rome"}\n```json\n', None, "Rome"),
        ('{"answer": "Rome"}\n{', None, "Rome"),
        ('"{\\"answer\\": \\"Paris\\"}"', None, None),
        ('\\frac{1}{2} and {"answer": "Paris"} with \\text{x: y}', "Paris", "Paris"),
        ('{"answer": "a"}\n{"answer": "b"}\n{"answer": "c"}', "c", "a"),
        ("{\u201canswer\u201d: \u201cParis\u201d}", None, None),
        ('The set {1, 2}: {"answer": {"x": [1]}}', '{"x": [1]}', '{"x": [1]}'),
        ('json{"answer": "Paris"}', "Paris", "Paris"),
        ('{ "answer" : "Paris" } // final', "Paris", "Paris"),
        ('{"answer": "Paris"}\n\nDoes that help?', "Paris", "Paris"),
        ('{"answer": null}', "null", "null"),
        ("{}", None, None),
        ('{"answer": "Ro}me"} {"answer": "Pa{ris"}', "Pa{ris", "Ro}me"),
        ("", None, None),
        ('{"a": 1}\r\n{"answer":\r\n "Paris"}', "Paris", None),
        ('{"answer": "Rome"}\nCorrection: it is Paris.', None, "Rome"),
        ('{"answer": "Rome"} Wait, that is wrong.', None, "Rome"),
        ('{"answer": 72}\n\nHaving rechecked, I change my answer to 70.', None, "72"),
        ('{"answer": 72} Edit: 70', None, "72"),
        ('```json\n{"answer": 72}\n```\nSorry, I meant 70.', None, "72"),
        ('{"answer": 72}\nHold on. The problem says per week, not per day.', None, "72"),
        ('{"answer": 72}\nMoment, das ist falsch.', None, "72"),
        ('{"answer": 72}\nHold on to it.', "72", "72"),
        ('Wrong answer: {"answer": "Rome"}', None, "Rome"),
        ('Wrong answer:\n```json\n{"answer": "Rome"}\n```', None, "Rome"),
        ('Wrong answer: {"answer": "Rome"} Right answer: {"answer": "Paris"}', "Paris", "Rome"),
        ('I would not return {"answer": "Rome"}, because it is older.', None, "Rome"),
        ('{"answer": 1} {"answer": ' + "9" * 5_000 + "}", None, "1"),
    ],
)
def test_the_last_or_the_first_object_decides_or_nothing_does(
    text: str, last: str | None, first: str | None
) -> None:
    for take, expected in (("last", last), ("first", first)):
        assert answer_in(text, take) == expected  # type: ignore[arg-type]


def answer_in(text: str, take: MatchPosition) -> str | None:
    try:
        value = json_object(text, take)["answer"]
    except (Unparseable, KeyError):
        return None
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize("text", ["", "none", "[1]", "{a: 1}", '{"a": 1', '{"a": NaN}', "{" * 99])
def test_without_an_object_the_answer_is_unparseable(text: str) -> None:
    with pytest.raises(Unparseable, match="contains no JSON object"):
        json_object(text)


def test_what_is_inside_a_broken_object_is_no_answer() -> None:
    for text in ('{"list": [\n{"answer": "B"},\n oops]}', '{"a": {"answer": "B"}, oops}'):
        with pytest.raises(Unparseable, match="contains no JSON object"):
            json_object(text)


def test_a_key_that_occurs_twice_is_no_answer() -> None:
    with pytest.raises(Unparseable, match="'a' occurs twice"):
        json_object('{"a": 1, "a": 2}')


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none() | st.booleans()))
def test_an_object_that_was_written_is_read(value: dict[str, Any]) -> None:
    assert json_object(f"Here: {json.dumps(value)} there.") == value


@pytest.mark.parametrize(
    "reply",
    [
        (
            '{"capital": "Tokyo"}\n\n参考：1868年までの首都は京都です。{"capital": "京都"} '
            "ではありません。"
        ),
        '{"capital": "Kyoto"}\n\n{"capital": "Tokyo"} ist falsch.',
        '{"capital": "Kyoto"}\n\nNicht: {"capital": "Tokyo"}',
        '{"capital": "Kyoto"} 不是 {"capital": "Tokyo"}。',
        '{"capital": "Kyoto"}\n\nNot {"capital": "Tokyo"}, as one might think.',
        '{"capital": "Kyoto"}\n\nA common mistake would be {"capital": "Tokyo"}.',
        '{"capital": "Kyoto"}\n\nTo use another city, write for example: {"capital": "Tokyo"}',
        '{"capital": "Kyoto"}\n\n以前的错误答案：{"capital": "Tokyo"}',
        '{"capital": "Kyoto"}\n\nMauvaise réponse : {"capital": "Tokyo"}',
        '{"capital": "Kyoto"}\n\nIncorrecto: {"capital": "Tokyo"}',
        '{"capital": "Tokyo"}\n\nYour example {"capital": "Paris"} has the same format.',
        '{"capital": "Kyoto"}\n\nYou could also write {"capital": "Tokyo"}.',
        '{"capital": "Kyoto"}\n\nA wrong answer would be:\n```json\n{"capital": "Tokyo"}\n```',
    ],
)
def test_an_object_in_passing_is_not_final(reply: str) -> None:
    with pytest.raises(Unparseable):
        json_object(reply)


@pytest.mark.parametrize(
    "introduction",
    [
        "Wait, I made an error. Here is the corrected JSON:",
        "My answer:",
        "Final answer: ",
        "更正：",
        "",
        "```json",
        "Therefore:",
        "訂正します。正しくは次の通りです。",
    ],
)
def test_the_last_object_after_a_known_introduction_is_final(introduction: str) -> None:
    assert json_object(f'{{"a": 1}}\n\n{introduction}\n{{"a": 2}}') == {"a": 2}


@pytest.mark.parametrize(
    "reply",
    [
        "Please share the text, and I'll reply in this format:\n\n```json\n{}\n```",
        "The required format is {}. I cannot determine the sentiment of this text.",
        "I can't answer this, but here is an example of the format:\n\n```json\n{}\n```",
        "For example, I could answer {}",
        "Once you provide it, my output will look like this:\n\n{}",
        "Example: {}\n\nI don't know the answer.",
        "Input: {}\n\nThe capital is Bergen.",
        "Your previous answer was {}.",
        "You gave this example:\n```json\n{}\n```\nWhat is your question?",
        "```json\n{}\n```\nis the example from your prompt. I need the question.",
        "If x were 7, I'd answer {}. But x is 8.",
    ],
)
def test_an_example_or_a_format_is_no_answer(reply: str) -> None:
    with pytest.raises(Unparseable):
        json_object(reply.replace("{}", '{"answer": "Oslo"}'))


@pytest.mark.parametrize(
    "reply",
    [
        "Here is my answer in the requested format:\n\n```json\n{}\n```",
        "Here is the JSON you asked for:\n{}",
        "My answer in the required format is: {}",
        "I would say: {}",
        "I will go with {}",
        "The review is not bad.\n\n{}",
        "The schema is clear.\n{}",
        "I will answer in this format.\n{}",
        '{"answer": "Bergen"}\n\nWait, that\'s wrong: Bergen is no capital.\n\n{}',
    ],
)
def test_an_introduced_object_is_the_answer(reply: str) -> None:
    assert json_object(reply.replace("{}", '{"answer": "Oslo"}')) == {"answer": "Oslo"}


@pytest.mark.parametrize(
    "introduction",
    [
        'Here is the result in the format {"label": "..."} that you asked for:\n\n',
        'The expected format is {"label": "<label>"}. For this ticket:\n',
        'Initial classification: {"label": "ham"}\n\nThe link is odd. I revise this to: ',
    ],
)
def test_a_format_or_a_first_thought_leaves_the_last_object(introduction: str) -> None:
    final = '{"label": "spam"}'
    assert json_object(f"{introduction}{final}") == {"label": "spam"}
