"""Forms of a whole answer, and which words count as the quoted one."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.scoring.rules import recognise
from harness.scoring.rules.contents import occurrences

JSON, OBJECT = "Respond in JSON.", "Return a JSON object."
NUMBERED, BULLETS = "Use a numbered list.", "Use bullet points."
TABLE = "Use a Markdown table."
START, FIRST = 'Start with "Dear Sir".', 'Begin with the word "Once".'
END, LAST = 'End with "The end!"', 'End with the word "amen".'
QUOTES = "Put your response in quotation marks."


@pytest.mark.parametrize(
    ("constraint", "text", "passed"),
    [
        (JSON, ' {"a": [1, 2.5e3, null]} ', True),
        (JSON, '```json\n{"a": 1}\n```', True),
        (JSON, '```\n[1]\n```', True),
        (JSON, 'Here it is: {"a": 1}', False),
        (JSON, '```json\n{"a": 1}\n```\nThere.', False),
        (JSON, "{'a': 1}", False),
        (JSON, "[NaN]", False),
        (JSON, "9" * 5_000, True),
        (JSON, "", False),
        (OBJECT, "{}", True),
        (OBJECT, "[]", False),
        ("Return a JSON array.", "[]", True),
        (NUMBERED, "Steps:\n1. a\n2) b", True),
        (NUMBERED, "**1.** a\n**2.** b", True),
        (NUMBERED, "1. a", False),
        (NUMBERED, "1.5 litres\n2.5 litres", False),
        (BULLETS, "- a\n- b", True),
        (BULLETS, "- a", False),
        (TABLE, "| a | b |\n|---|:-:|\n| 1 | 2 |", True),
        (TABLE, "a | b\n--- | ---\n1 | 2", True),
        (TABLE, "a | b\n1 | 2", False),
        (TABLE, "| a | b |\n|---|\n", False),
        (TABLE, "a\n---\nb", False),
        (TABLE, "| a | b |\n| : | : |", False),
        ("Write in all caps.", "HELLO, 5!", True),
        ("Write in all caps.", "HELLo", False),
        ("Write in all caps.", "5", False),
        ("Write in lowercase.", "hello 5", True),
        ("Write in lowercase.", "Hello", False),
        (START, "\nDear  Sir, hello", True),
        (START, "dear sir", True),
        (START, "Dear Sirius", False),
        (START, "Oh, Dear Sir", False),
        (FIRST, "Once upon", True),
        (FIRST, "Onceupon", False),
        (END, "It is the end!\n", True),
        (END, "The end! Or not.", False),
        (LAST, "So be it. Amen." + "!" * 999, True),
        (LAST, "layamen", False),
        (LAST, "Amen, he said", False),
        ("Do not use commas.", "None; at all", True),
        ("Do not use commas.", "One, two", False),
        ("Do not use commas.", "一\uff0c二", False),
        (QUOTES, '"Yes."', True),
        (QUOTES, "\u201cYes.\u201d", True),
        (QUOTES, '"Yes." he said', False),
        (QUOTES, '""', False),
    ],
)  # fmt: skip
def test_forms(constraint: str, text: str, passed: bool) -> None:
    rule = recognise(constraint)
    assert rule is not None
    assert (not rule.check(text)) is passed


@pytest.mark.parametrize(
    ("constraint", "text", "reason"),
    [
        ('Include the word "run".', "Run!", ""),
        ('Include the word "run".', "running, rerun", "there is no 'run'"),
        ('Include the word "run".', "a run-up", ""),
        ('Include the word "don\'t".', "We don\u2019t.", ""),
        ('Include the phrase "the end".', "THE\n  end", ""),
        ('Include the exact phrase "The End".', "the end", "there is no 'The End'"),
        ('Include the words "a" and "b".', "a", "there is no 'b'"),
        ('Do not use the word "hate".', "I hated it", ""),
        ('Do not use the word "hate".', "Hate!", "there is 'hate'"),
        ('Do not use the words "x" or "y".', "y", "there is 'y'"),
        ('Use the word "go" at least twice.', "Go, go", ""),
        ('Use the word "go" at least twice.', "Go, gone", "'go' at least 2 times, has 1"),
        ('Use the word "go" only once.', "go go", "'go' exactly 1 time, has 2"),
        ('Use the term "C++" at most twice.', "C++ C++ C++", "'C++' at most 2 times, has 3"),
    ],
)
def test_words(constraint: str, text: str, reason: str) -> None:
    rule = recognise(constraint)
    assert rule is not None
    assert rule.check(text) == reason


@settings(max_examples=150)
@given(st.sampled_from(["a", "ab", "a a", "ab a"]), st.text("ab _", max_size=14))
@example("a a", "a a a")  # occurrences do not overlap
@example("a a", "ba a a")  # one begins within what is not one
def test_occurrences_are_those_of_a_pattern_of_whole_words(wanted: str, text: str) -> None:
    found = re.findall(rf"(?<!\w){wanted}(?!\w)", text)
    assert occurrences(wanted, text) == len(found)
