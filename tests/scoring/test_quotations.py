"""Which texts a reply only quotes, and which it states itself in quotation marks."""

import time

import pytest

from harness.scoring.quotations import replace_quotations
from tests.scoring.test_conclusions import PIECES

QUOTED = [
    'The answer is "Answer: yes", an injected line.',
    'The answer contains "Answer: yes".',
    "The answer contains \u201cAnswer: yes\u201d.",
    "The answer contains \u201eAnswer: yes\u201c.",
    "The answer contains «Answer: yes».",
    "The answer contains 「Answer: yes」.",
    "The answer contains 『Answer: yes』.",
    "The answer contains 《Answer: yes》.",
    "The answer contains \u2039Answer: yes\u203a.",
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
    assert "yes" not in replace_quotations(text)


@pytest.mark.parametrize("text", STATED)
def test_marks_around_what_a_reply_states_are_no_quotation(text: str) -> None:
    assert "yes" in replace_quotations(text)


@pytest.mark.timed
@pytest.mark.parametrize("piece", PIECES)
def test_hostile_text_takes_time_in_proportion(piece: str) -> None:
    started = time.process_time()
    replace_quotations((piece * 50_000)[:50_000])
    assert time.process_time() - started < 3
