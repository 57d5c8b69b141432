import re

import pytest

from harness.builders.concodeeval.formats import FORMATS, INVALID, VALID
from harness.builders.concodeeval.strings import MEASURES, PATTERNS, breaking, measured, string
from harness.builders.concodeeval.verdict import Verdicts
from harness.builders.concodeeval.words import WORDS
from harness.builders.draws import Draws
from harness.tasks.concodeeval.representations.python import RESERVED


def test_the_formats_of_draft_2020_12() -> None:
    assert len(FORMATS) == 19
    assert VALID.keys() == INVALID.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_strings_of_a_format_have_it(name: str) -> None:
    draws, verdicts = Draws(0, name), Verdicts({"format": name})
    texts = {VALID[name](draws) for _ in range(300)}
    assert all(map(verdicts.accepts, texts))
    assert len(texts) > 10


@pytest.mark.parametrize("name", FORMATS)
def test_strings_that_nearly_have_it_have_not(name: str) -> None:
    verdicts = Verdicts({"format": name})
    assert not any(map(verdicts.accepts, INVALID[name]))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_strings_of_a_pattern_match_it(pattern: str) -> None:
    draws, verdicts = Draws(0, pattern), Verdicts({"pattern": pattern})
    for _ in range(100):
        text = PATTERNS[pattern](draws)
        assert verdicts.accepts(text)
        assert re.search(pattern, text)
    broken = breaking({"pattern": pattern}, "pattern", draws)
    assert not all(map(verdicts.accepts, broken))


def test_lengths_are_met_to_the_character() -> None:
    draws = Draws(0)
    sizes = {len(string({"minLength": 3, "maxLength": 6}, draws) or "") for _ in range(100)}
    assert sizes == {3, 4, 5, 6}
    assert string({"minLength": 0, "maxLength": 0}, draws) == ""
    assert string({"format": "uuid", "maxLength": 35}, draws) is None


@pytest.mark.parametrize("name", MEASURES)
def test_strings_made_to_measure(name: str) -> None:
    draws, verdicts = Draws(0, name), Verdicts({"format": name})
    start, _, end = MEASURES[name]
    shortest = len(start) + len(end) + 1
    assert measured(name, shortest - 1, draws) is None
    for size in (*range(shortest, shortest + 30), 60, 101):
        text = measured(name, size, draws)
        assert text is not None
        assert len(text) == size
        assert verdicts.accepts(text), text


def test_words_are_plain_names() -> None:
    assert len(set(WORDS)) == len(WORDS) > 400
    assert all(re.fullmatch("[a-z]{3,}", word) for word in WORDS)
    assert not set(WORDS) & {"type", "items", "format", "required", "properties"}
    assert len(set(WORDS) & RESERVED) <= 1
