import contextlib
import re
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.scoring.patterns import (
    MAX_PATTERN_CHARS,
    MAX_TIMEOUTS,
    Pattern,
    PatternTooSlow,
    count_pattern_parts,
    literals_around_group,
)

SLOW = "(a|a)*$"
TEXT = "a" * 40 + "!"


def test_a_pattern_finds_what_pythons_own_finds() -> None:
    pattern = Pattern(r"answer is (\w+)", "here")
    assert pattern.search("The answer is blue. The answer is red.")[1] == "blue"
    assert pattern.find("The answer is blue. The answer is red.", "last")[1] == "red"
    assert pattern.find("none", "last") is None
    assert pattern.search("The Answer is blue.") is None
    assert Pattern("ANSWER", "here", ignore_case=True).search("the answer")
    assert pattern.fullmatch("answer is blue")
    assert not pattern.fullmatch("the answer is blue")
    assert pattern.groups == 1


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "*", "a)", "(?P<a>b", r"\L<words>"])
def test_what_is_no_pattern_is_refused_with_its_place(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"task\.extract: .* is not a regular expression"):
        Pattern(pattern, "task.extract")


@pytest.mark.parametrize(
    "pattern",
    [
        *("(" * 100_000, "a" * (MAX_PATTERN_CHARS + 1), "(" * 4_000 + ")" * 4_000, "[[a]--[b]]"),
        *("[[:x:]", "(?x)" + "a+" * 2_000, "(?x)" + "a{9999999}" * 60),
    ],
)
def test_a_pattern_out_of_proportion_ends_at_once(pattern: str) -> None:
    began = time.process_time()
    with contextlib.suppress(ConfigError):
        Pattern(pattern, "here").search("a" * 100)
    assert time.process_time() - began < 5


HUGE = [
    "(?:a{30000}){30000}", r"(\w{3000}){3000}", "a{30000000}", "(?:" * 20 + "ab" + ")+" * 20,
    r"(?:\p{L}{3000}){3000}", "(?x)(?:a{3000})\u00a0{3000}", "(?x)(?:ab{ 3 0 #c\n00}) {3000}",
    "(?:a{3000}[[:alpha:])][[:alpha:](]){3000}", "(?:a{3000}){e<=1}{3000}",
    "(?:a{3000}(?#()){3000}", "(?:[(]a{3000}){3000}", "(?V1)(?:[[a](]a{3000}){3000}",
]  # fmt: skip
"""Compiling each takes from 0.8 to 13 GB."""
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
from harness.errors import HarnessError
from harness.scoring.patterns import Pattern
from harness.scoring.validators import validator
def outcome(build):
    try:
        return build()
    except HarnessError as error:
        assert "MemoryError" not in str(error), error
        return type(error).__name__
for pattern in sys.argv[1:]:
    assert outcome(lambda: Pattern(pattern, "here")) == "ConfigError"
    for mode in ("paper", "strict"):
        outcome(lambda: validator({"pattern": pattern}, mode=mode).violations("a"))
"""


def test_a_short_pattern_cannot_take_all_memory() -> None:
    subprocess.run([sys.executable, "-c", LIMITED, *HUGE], check=True)


def test_repetitions_that_are_nested_count_as_often_as_they_are_written_out() -> None:
    assert count_pattern_parts("(?:ab{2}){3}") == (3 + 1) * (2 + 1 + 3)  # ?: counts as two
    assert count_pattern_parts(r"[^]a-z\]]{9}") == (9 + 1) * 6
    assert count_pattern_parts("[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}") < 200
    assert count_pattern_parts(r"^\p{Lu}\p{L}{1,30}(?: \p{L}+)+$") < 1_000
    assert Pattern(".{50000}", "here").search("a" * 50_000)


def test_a_search_without_end_is_given_up_and_ends_the_run_when_it_goes_on() -> None:
    pattern = Pattern(SLOW, "task.extract", timeout_s=0.02)
    for _ in range(MAX_TIMEOUTS - 1):
        with pytest.raises(
            PatternTooSlow, match=r"task\.extract: the pattern .* more than 0\.02 s"
        ):
            pattern.search(TEXT)
    with pytest.raises(ConfigError, match=f"on {MAX_TIMEOUTS} answers") as ended:
        pattern.search(TEXT)
    assert "repetitions" in ended.value.remedy


@pytest.mark.parametrize("way", ["search", "fullmatch"])
def test_every_way_to_look_is_bounded(way: str) -> None:
    pattern = Pattern(f"{SLOW}(?<=b)" if way == "search" else SLOW, "x", timeout_s=0.02)
    with pytest.raises(PatternTooSlow):
        getattr(pattern, way)(TEXT)
    with pytest.raises(PatternTooSlow):
        Pattern(SLOW, "x", timeout_s=0.02).find(TEXT, "last")


@pytest.mark.parametrize(
    ("pattern", "around"),
    [
        (r"answer is (\w+)", ("answer is ", "")),
        (r"answer is:? \(([A-E])\)", ("answer is (", ")")),
        (r"^Answer:\s*(.+)$", ("Answer:", "")),
        (r"<b>([^<\]()]+)</b>", ("<b>", "</b>")),
        (r"#### (?P<number>-?[0-9,]+)", ("#### ", "")),
        (r"x+(a(b)(c))y", ("x", "y")),
        (r"(\w+)", ("", "")),
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
def test_the_text_around_the_first_group(pattern: str, around: tuple[str, str] | None) -> None:
    assert literals_around_group(pattern) == around


@given(st.text(alphabet="ab\\()[]{}?*+^$|.s-,:P<>=", max_size=12))
def test_no_pattern_is_too_odd(pattern: str) -> None:
    literals_around_group(pattern)


@given(st.text(max_size=20), st.text(max_size=20))
def test_escaped_text_is_told_as_it_is(before: str, after: str) -> None:
    found = literals_around_group(f"{re.escape(before)}(x){re.escape(after)}")
    assert found == (before, after)
