"""IFBench's instructions for training models."""

from typing import Any

import pytest

from harness.plugins.benchmarks.ifbench.instructions import TRAINING
from harness.plugins.benchmarks.ifeval.instructions import instruction
from tests.plugins.benchmarks.ifbench.instructions.training import CASES

pytestmark = pytest.mark.usefixtures("punkt_data")


@pytest.mark.parametrize("name", TRAINING)
def test_each_instruction_has_a_text_that_follows_it_and_one_that_does_not(name: str) -> None:
    arguments, right, wrong = CASES[name]
    asked = instruction(name, arguments)
    assert asked.check(right) == ""
    assert asked.check(wrong)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("Mr. Oak met Dr. Elm in the U.S. They spoke.", 2),
        ("It costs 3.5 dollars at oak.com. Really!", 2),
        ("Wait... what?", 2),
        ('He said "no." Then he left.', 2),
        ("Acorn Inc. It grew. J. Oak, Ph.D. agreed.", 3),
        ("a heading\nand no end", 1),
    ],
)
def test_sentences_are_split_by_the_published_rules(text: str, n: int) -> None:
    asked = instruction("keywords:keyword_specific_position", {"keyword": "x", "n": n, "m": 99})
    assert "has" in asked.check(text)
    more = instruction("keywords:keyword_specific_position", {"keyword": "x", "n": n + 1, "m": 1})
    assert f"{n} sentence" in more.check(text)


SPAN = {"prompt_to_repeat": "one two three", "n_start": 4, "n_end": 6}
PHRASE = {"phrase": "the old oak fell", "small_n": 2}


@pytest.mark.parametrize(
    ("name", "arguments", "text", "official", "corrected"),
    [
        ("copy:repeat_phrase", PHRASE, "the old oak fell, the old elm fell", True, False),
        ("copy:repeat_phrase", PHRASE, "the old elm fell, the big oak fell", True, True),
        ("new:copy_span_idx", SPAN, "two", False, True),
        ("keywords:exclude_word_harder", {"keyword": "oak"}, "An oak.", True, False),
        ("keywords:palindrome", {}, "I saw a tree", True, False),
        ("keywords:palindrome", {}, "Level.", False, True),
        (
            "keywords:keyword_specific_position",
            {"keyword": "oak", "n": 1, "m": 3},
            "So, an oak.",
            False,
            True,
        ),
        (
            "count:counting_composition",
            {"n_sent": 1, "n_words": 2},
            "A b.\n***\nA b.\n***\nA b.",
            False,
            True,
        ),
        ("count:count_unique", {}, "An oak, old, grey", False, True),
        ("count:count_unique", {}, "The oak the", True, False),
    ],
)
def test_corrected_verdicts_read_what_official_ones_misread(
    name: str, arguments: dict[str, Any], text: str, official: bool, corrected: bool
) -> None:
    assert (instruction(name, arguments).check(text) == "") is official
    assert (instruction(name, arguments, "corrected").check(text) == "") is corrected


def test_words_of_a_phrase_are_patterns_with_a_time_limit() -> None:
    phrase = {"phrase": "is it an oak?", "small_n": 1}
    assert instruction("copy:repeat_phrase", phrase).check("is it an oa") == ""
