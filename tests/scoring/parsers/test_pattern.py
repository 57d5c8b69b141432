import contextlib
import time

import pytest

from harness.errors import ConfigError
from harness.scoring.parsers.pattern import (
    LONGEST_PATTERN,
    MOST_TIMEOUTS,
    Pattern,
    PatternTooSlow,
    answer_in,
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
    assert pattern.match("the answer is blue", 4)
    assert pattern.groups == 1


def test_the_answer_is_the_first_group_that_took_part_or_the_whole_match() -> None:
    assert answer_in(Pattern("a(b)?|c(d)", "").search("cd")) == "d"
    assert answer_in(Pattern("a(b)?", "").search("a")) == ""
    assert answer_in(Pattern("ab", "").search("xab")) == "ab"


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "*", "(?P<a>b", r"\L<words>"])
def test_what_is_no_pattern_is_refused_with_its_place(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"task\.extract: .* is no regular expression"):
        Pattern(pattern, "task.extract")


@pytest.mark.parametrize(
    "pattern",
    ["(" * 100_000, "a" * (LONGEST_PATTERN + 1), "(" * 4_000 + ")" * 4_000, "[[a]--[b]]", "[[:x:]"],
)
def test_a_pattern_out_of_proportion_ends_at_once(pattern: str) -> None:
    began = time.monotonic()
    with contextlib.suppress(ConfigError):
        Pattern(pattern, "here").search("a" * 100)
    assert time.monotonic() - began < 5


def test_a_search_without_end_is_given_up_and_ends_the_run_when_it_goes_on() -> None:
    pattern = Pattern(SLOW, "task.extract", timeout_s=0.02)
    for _ in range(MOST_TIMEOUTS - 1):
        with pytest.raises(
            PatternTooSlow, match=r"task\.extract: the pattern .* more than 0\.02 s"
        ):
            pattern.search(TEXT)
    with pytest.raises(ConfigError, match=f"on {MOST_TIMEOUTS} answers") as ended:
        pattern.search(TEXT)
    assert "repetitions" in ended.value.remedy


@pytest.mark.parametrize("way", ["search", "match", "fullmatch"])
def test_every_way_to_look_is_bounded(way: str) -> None:
    pattern = Pattern(f"{SLOW}(?<=b)" if way == "search" else SLOW, "x", timeout_s=0.02)
    with pytest.raises(PatternTooSlow):
        getattr(pattern, way)(TEXT)
    with pytest.raises(PatternTooSlow):
        Pattern(SLOW, "x", timeout_s=0.02).find(TEXT, "last")
