"""Each post-processor on cases made by hand, and on text that is meant to take long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plugin_loader import kind
from harness.ports import PostProcessor

MARKS = st.text(alphabet="*_~[]ab \n", max_size=30)


def built(name: str) -> PostProcessor:
    found: PostProcessor = kind("post_processors").build(name, {})
    return found


@pytest.mark.parametrize(
    ("name", "text", "cleaned"),
    [
        ("markdown", "A **bold** and _slanted_ ~~old~~ word", "A bold and slanted old word"),
        ("markdown", "__a__ *b* 2 * 3", "a b 2 * 3"),
        ("markdown", "snake_case_name", "snakecasename"),
        ("markdown", "a _mark\nthat ends_ in another line", "a _mark\nthat ends_ in another line"),
        ("markdown", "nothing", "nothing"),
        ("brackets", "A word [12] and [see note] more", "A word  and  more"),
        ("brackets", "[a [b] c]", " c]"),
        ("brackets", "no ] end [ here", "no ] end [ here"),
        ("brackets", "[]", ""),
        ("single_newlines", "one\ntwo\n\nthree\n\n\nfour\n", "one two\n\nthree\n\n\nfour "),
        ("single_newlines", "one two", "one two"),
        ("white_space", "a  b\n\nc \t d e", "a b c d e"),
        ("white_space", "a\nb", "a\nb"),
        ("drop_first_line", "Title\nText of it.\nMore.", "Text of it.\nMore."),
        ("drop_first_line", "One line.", "One line."),
        ("drop_first_line", "\nText.", "Text."),
    ],
)
def test_what_becomes_of_a_text(name: str, text: str, cleaned: str) -> None:
    assert built(name)(text) == cleaned


@given(MARKS)
def test_brackets_are_those_of_the_papers_pattern(text: str) -> None:
    assert built("brackets")(text) == re.sub(r"\[[^\]]*\]", "", text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "*" * 999_999,
        "_ ~~ * ** __ " + "a" * 1_000_000,
        " " * 1_000_000,
        "\n" * 999,
    ],
    ids=lambda text: repr(text[:6]),
)
@pytest.mark.parametrize("name", sorted(kind("post_processors").names()))
def test_hostile_text_takes_no_time_in_its_square(name: str, text: str) -> None:
    assert len(built(name)(text)) <= len(text)
