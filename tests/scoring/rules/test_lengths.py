"""What is counted, and that bounds are kept to the number."""

from __future__ import annotations

import pytest

from harness.scoring.rules import recognise
from harness.scoring.rules.lengths import _MEASURES, LONGEST_FOR_SENTENCES


@pytest.mark.parametrize(
    ("unit", "text", "n"),
    [
        ("word", "One - two, well-known don't!", 4),
        ("word", "", 0),
        ("character", "  a b\n", 3),
        ("sentence", "Dr. Smith came. He left! Why?", 3),
        ("sentence", "A heading\n\nOne sentence.", 1),
        ("sentence", "No end", 1),
        ("sentence", " … ", 0),
        ("paragraph", "One.\n\nTwo,\nstill two.\n \n\nThree.\n", 3),
        ("paragraph", "One.\r\n\r\nTwo.", 2),
        ("sentence", "你好。再见！", 2),
        ("sentence", "标题\r\n正文。", 2),
        ("paragraph", "\n\n", 0),
        ("line", "Title\n\none\n  \ntwo\n", 3),
        ("bullet point", "- a\n* b\n  + c\n• d\n◦e\n", 5),
        ("bullet point", "---\n* * *\n**Bold**\n-5 degrees\n1. one\n- \n", 0),
    ],
)
def test_what_is_counted(unit: str, text: str, n: int) -> None:
    assert _MEASURES[unit](text) == n


@pytest.mark.parametrize(
    ("constraint", "n", "passed"),
    [
        ("Under 5 words.", 4, True),
        ("Under 5 words.", 5, False),
        ("Use 5 words or fewer.", 5, True),
        ("Use 5 words or fewer.", 6, False),
        ("More than 5 words.", 5, False),
        ("More than 5 words.", 6, True),
        ("At least 5 words.", 5, True),
        ("Within 5 words.", 5, True),
        ("Exactly 5 words.", 4, False),
        ("Between 5 and 7 words.", 7, True),
        ("Between 5 and 7 words.", 8, False),
    ],
)
def test_bounds_are_sharp(constraint: str, n: int, passed: bool) -> None:
    rule = recognise(constraint)
    assert rule is not None
    assert (not rule.check("word " * n)) is passed


def test_the_reason_has_the_number() -> None:
    rule = recognise("The poem should be 16 lines long.")
    assert rule is not None
    assert rule.name == "line_count"
    assert rule.check("Title\n" * 17) == "exactly 16 lines, has 17"
    assert rule.check("Verse\n" * 16) == ""


def test_sentences_beyond_what_is_looked_at_are_not_counted() -> None:
    sentence = "This is a sentence. "
    assert _MEASURES["sentence"](sentence * 50) == 50
    most = LONGEST_FOR_SENTENCES // len(sentence)
    assert _MEASURES["sentence"](sentence * 2 * most) == most
