"""Each filter on cases made by hand: some that it leaves out, some that it lets through."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.plugin_loader import kind
from harness.plugins.benchmarks import punkt
from harness.plugins.benchmarks.collie.constraints.check import Splitter
from harness.ports import Filter
from harness.scoring.patterns import PatternTooSlow

PAPER_URL = re.compile(
    r"(http(s)?://)?(www\.)?[a-zA-Z0-9\-]+\.[a-zA-Z]{2,6}(\.[a-zA-Z]{2,6})?"
    r"(/[a-zA-Z0-9\-]*)*(\?[a-zA-Z0-9\-=&]*)?"
)
UNITS = Splitter(punkt.own(), punkt.word_tokens)


def built(name: str, **options: Any) -> Filter:
    found: Filter = kind("filters").build(name, options, units=UNITS)
    return found


CASES: list[tuple[str, dict[str, Any], str, bool]] = [
    ("url", {}, "See https://www.example.org/a-b?c=d&e=1 for more.", True),
    ("url", {}, "Write to example.co.uk soon.", True),
    ("url", {}, "It was the end.Then it rained.", True),
    ("url", {}, "-.ab", True),
    ("url", {}, "It was 3.14 or so. Then it rained, e.g. at noon.", False),
    ("url", {}, "Wait... for Ph.D students.", False),
    ("url", {}, "ä.de", False),
    ("url", {}, ".org alone", False),
    ("url", {}, "", False),
    ("capitals", {}, "CHAPTER XII. THE END", True),
    ("capitals", {}, "* * * 1887 * * *", True),
    ("capitals", {}, "THE END of it", False),
    ("no_sentence", {}, "The contents of this book", True),
    ("no_sentence", {}, "Oh no. Not me. Why?", True),
    ("no_sentence", {}, "Is this a question? It is not!", True),
    ("no_sentence", {}, "It was not me.", False),
    ("no_sentence", {}, "A heading\nand then a sentence with a period.", False),
    ("no_sentence", {}, "", True),
    ("copyright", {}, "All of it © 1990 by us.", True),
    ("copyright", {}, "Copyright 1990 by us.", True),
    ("copyright", {}, "  COPYRIGHT: ours", True),
    ("copyright", {}, "They hold the copyright.", False),
    ("copyright", {}, "Copyrighted works are many.", False),
    ("copyright", {}, "", False),
    ("caption", {}, "Fig 1: The mill.", True),
    ("caption", {}, "Note:", True),
    ("caption", {}, "Oh.", True),
    ("caption", {}, "Figure: the mill.", False),
    ("caption", {}, "It rained all day, and at night: nothing.", False),
    ("caption", {"words": 5}, "A view of the mill: it is old.", True),
    ("caption", {"words": 5}, "Five words and no colon", True),
    ("caption", {"words": 5}, "A view of the old mill: it stands.", False),
    ("caption", {"characters": 3}, "Fig: the mill.", False),
    ("table", {}, "| a | b |", True),
    ("table", {}, "A sentence without a bar.", False),
    ("pattern", {"pattern": r"\bISBN\b"}, "With an ISBN in it.", True),
    ("pattern", {"pattern": r"\bISBN\b"}, "With an isbn in it.", False),
    ("pattern", {"pattern": r"\bISBN\b", "ignore_case": True}, "With an isbn in it.", True),
]


@pytest.mark.parametrize(("name", "options", "text", "left_out"), CASES)
def test_what_is_left_out(name: str, options: dict[str, Any], text: str, left_out: bool) -> None:
    assert built(name, **options)(text) is left_out


@given(st.text(alphabet="ab-./?:=w1 hts\n", max_size=40))
def test_the_url_rule_is_the_papers(text: str) -> None:
    assert built("url")(text) is bool(PAPER_URL.search(text))


@pytest.mark.parametrize(
    "text",
    [
        "a" * 2_000_000,
        "http://" * 300_000,
        "a-" * 1_000_000 + "!",
        "a.b" * 700_000,
        "www." * 500_000 + "1",
        "/a?" * 700_000,
    ],
    ids=lambda text: text[:8],
)
def test_hostile_text_takes_no_time_in_its_square(text: str) -> None:
    # The paper's pattern takes hours on the first of these.
    for name in ("url", "capitals", "copyright", "caption", "table"):
        assert built(name)(text) in (True, False)
    assert built("url")("a" * 2_000_000) is False


def test_no_clock_decides_what_a_pattern_leaves_out() -> None:
    slow = built("pattern", pattern="(a|a)*$")
    with pytest.raises(PatternTooSlow) as told:
        slow("a" * 40 + "!")
    assert "repetitions within repetitions" in told.value.remedy
    assert slow("aaa") is True
    with pytest.raises(ConfigError, match="not a regular expression"):
        built("pattern", pattern="(")


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'words'"):
        built("caption", word=5)
    with pytest.raises(ConfigError, match="Did you mean 'capitals'"):
        built("capital")
