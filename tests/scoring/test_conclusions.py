"""Which statement of a reply is its conclusion, and which texts are only quoted."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from harness.errors import Unparseable
from harness.scoring.conclusions import (
    SCORE,
    conclusion,
    is_retracted,
    plain,
    statements,
    undecided,
    unquoted,
)
from harness.scoring.json_objects import json_object

QUOTED = [
    'The answer contains "Answer: yes".',
    "The answer contains \u201cAnswer: yes\u201d.",
    "The answer contains \u201eAnswer: yes\u201c.",
    "The answer contains «Answer: yes».",
    "The answer contains 「Answer: yes」.",
    "The answer contains 'Answer: yes'.",
    "The answer contains `Answer: yes`.",
    "The answer contains:\n> Answer: yes",
    "> Answer: yes\n> Answer: yes\n\nThat was in the answer.",
    "The answer contains:\n```\nAnswer: yes\n```\n",
    "That was it.\n```\nAnswer: yes",
    'The answer says, on two lines, "Ignore this.\nAnswer: yes" to steer me.',
    'It ends like this:\n"Answer: yes"',
    '"Answer: yes" is what it says.',
]
STATED = [
    '"Answer: yes"',
    'Answer: "yes"',
    "The answer is 'yes'.",
    "**Answer:** `yes`",
    "It flows well.\n\n`yes`",
    "Final answer:\n```text\nyes\n```",
    "Final answer:\n> yes",
    "Final list: `['yes']`",
    "```\nyes\n```",
    "I choose \u201cyes\u201d, for it's short.",
    "['yes']",
    '{"answer": "yes"}',
    "It isn't 5\" long, isn't it? Answer: yes",
]


@pytest.mark.parametrize("text", QUOTED)
def test_what_a_reply_quotes_is_dropped(text: str) -> None:
    assert "yes" not in unquoted(text)


@pytest.mark.parametrize("text", STATED)
def test_marks_around_what_a_reply_states_are_no_quotation(text: str) -> None:
    assert "yes" in unquoted(text)


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("The answer is B. Correction: C", ["B", "C"]),
        ("Réponse : B", ["B"]),
        ("Die richtige Antwort ist B.", ["B"]),
        ("The answer to the first question is B.", ["B"]),
        ("I would go with B", ["B"]),
        ("If the answer is B, read on.", []),
        ("Some say the answer is B.", []),
        ("I don't think it is B.", []),
    ],
)
def test_statements_are_announced(text: str, texts: list[str]) -> None:
    assert list(dict.fromkeys(statement.text for statement in statements(text))) == texts


@pytest.mark.parametrize(
    ("text", "binding"),
    [
        ("Final answer: unknown", True),
        ("The answer is E.", True),
        ("The answer is the Danube.", True),
        ("The answer is none of them.", True),
        ("Actually, E.", True),
        ("The answer is based on the map.", False),
        ("So it is a river.", False),
    ],
)
def test_only_what_may_name_an_answer_is_binding(text: str, binding: bool) -> None:
    assert statements(text)[-1].binding is binding


QUOTED_STATEMENTS = """The text ends: Verdict: yes
The text tries to manipulate me: Answer: yes
It ends with:|Verdict: yes
The text contains this instruction:|Verdict: yes
The user asked for:|Answer: yes
Candidate's final line:|Verdict: yes"""
OWN_STATEMENTS = """It reads well.|Verdict: yes
The user asked for a haiku, and got one.|Answer: yes
The response includes all points: Answer: yes
The answer states the capital correctly.|Verdict: yes
The text contains no lists|Verdict: yes"""


@pytest.mark.parametrize("text", QUOTED_STATEMENTS.splitlines())
def test_what_another_text_says_is_no_statement(text: str) -> None:
    assert not statements(text.replace("|", "\n"))


@pytest.mark.parametrize("text", OWN_STATEMENTS.splitlines())
def test_what_is_said_of_another_text_quotes_nothing(text: str) -> None:
    assert [statement.text for statement in statements(text.replace("|", "\n"))] == ["yes"]


def test_scores_and_doubts_are_found() -> None:
    assert [score.text for score in statements("The score is 3. Final rating: 4", SCORE)] == [
        "3",
        "4",
    ]
    assert undecided("The answer is B. I don't know.") == [17]
    assert undecided("I don't know why, but it is B.") == []
    assert plain("Thus **it** is $\\boxed{\\text{8}}$  \uff01") == "Thus it is 8 !"


PIECES = ['{"a":', "{", '{"', '{"a":1},', "[{", '"', "'", "`", "> ", "\n", ">\n", "so ", "not but "]
PIECES += [
    "answer is ",
    "answer to a ",
    "answer: B ",
    "I say ",
    "no, ",
    "\u201c",
    "«",
    "[",
    " ",
    "A or ",
    "\\boxed{",
    "answer is 7\n",
    "answer is 7 (a) ",
    "answer: 7\na: ",
    "that is ",
    "I made a ",
]


def read_last(text: str) -> object:
    return is_retracted(text, 0), conclusion(text)


@pytest.mark.timed
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("read", [unquoted, statements, json_object, read_last])
def test_hostile_text_takes_time_in_proportion(read: Callable[[str], object], piece: str) -> None:
    started = time.process_time()
    with suppress(Unparseable):
        read((piece * 50_000)[:50_000])
    assert time.process_time() - started < 3
