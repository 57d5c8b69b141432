import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scoring.parsers.literal import Around, around_group


@pytest.mark.parametrize(
    ("pattern", "around"),
    [
        (r"answer is (\w+)", Around("answer is ", "")),
        (r"answer is:? \(([A-E])\)", Around("answer is (", ")")),
        (r"^Answer:\s*(.+)$", Around("Answer:", "")),
        (r"<b>([^<\]()]+)</b>", Around("<b>", "</b>")),
        (r"#### (?P<number>-?[0-9,]+)", Around("#### ", "")),
        (r"x+(a(b)(c))y", Around("x", "y")),
        (r"(\w+)", Around("", "")),
        (r"answer is \w+", None),
        (r"(?:final )?answer is (\w+)", None),
        (r"(?:result|answer) (\w+)", None),
        (r"answer (\w+)|(\d+)", None),
        (r"answer (\d)+", None),
        (r"[aA]nswer (\d)", None),
        (r"a{2}(b)", None),
        (r"\d(b)", None),
        ("a(b", None),
        ("a(b\\", None),
        ("\\", None),
        ("", None),
    ],
)
def test_the_text_around_the_first_group(pattern: str, around: Around | None) -> None:
    assert around_group(pattern) == around


@given(st.text(alphabet="ab\\()[]{}?*+^$|.s-,:P<>=", max_size=12))
def test_no_pattern_is_too_odd(pattern: str) -> None:
    around_group(pattern)


@given(st.text(max_size=20), st.text(max_size=20))
def test_escaped_text_is_told_as_it_is(before: str, after: str) -> None:
    found = around_group(f"{re.escape(before)}(x){re.escape(after)}")
    assert found == (before, after)
