import re

import pytest

from harness.builders.concodeeval.values import (
    FORMATS,
    INVALID,
    LONG,
    PATTERNS,
    WORDS,
    form,
    measured,
    string,
    violating_strings,
)
from harness.builders.draws import Draws
from harness.scoring.validators import validator
from harness.tasks.concodeeval.python import RESERVED


def test_the_formats_of_draft_2020_12() -> None:
    assert len(FORMATS) == 19
    assert FORMATS.keys() == INVALID.keys()


def is_valid(schema: dict[str, str], text: str) -> bool:
    return not validator(schema).violations(text)


@pytest.mark.parametrize("name", FORMATS)
def test_strings_of_a_format_have_it(name: str) -> None:
    draws, schema = Draws(0, name), {"format": name}
    texts = {form(name, draws) for _ in range(300)}
    assert all(is_valid(schema, text) for text in texts)
    assert len(texts) > 10


@pytest.mark.parametrize("name", FORMATS)
def test_strings_that_nearly_have_it_have_not(name: str) -> None:
    schema = {"format": name}
    assert not any(is_valid(schema, text) for text in INVALID[name])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_strings_of_a_pattern_match_it(pattern: str) -> None:
    draws, schema = Draws(0, pattern), {"pattern": pattern}
    for _ in range(100):
        text = form(pattern, draws)
        assert is_valid(schema, text)
        assert re.search(pattern, text)
    broken = violating_strings({"pattern": pattern}, "pattern", draws)
    assert not all(is_valid(schema, each) for each in broken)


def test_lengths_are_met_to_the_character() -> None:
    draws = Draws(0)
    sizes = {len(string({"minLength": 3, "maxLength": 6}, draws) or "") for _ in range(100)}
    assert sizes == {3, 4, 5, 6}
    assert string({"minLength": 0, "maxLength": 0}, draws) == ""
    assert string({"format": "uuid", "maxLength": 35}, draws) is None


@pytest.mark.parametrize("name", LONG)
def test_strings_made_to_measure(name: str) -> None:
    draws, schema = Draws(0, name), {"format": name}
    shortest = len(LONG[name])
    assert measured(name, shortest - 1, draws) is None
    for size in (*range(shortest, shortest + 30), 60, 101):
        text = measured(name, size, draws)
        assert text is not None
        assert len(text) == size
        assert is_valid(schema, text), text


def test_words_are_plain_names() -> None:
    assert len(set(WORDS)) == len(WORDS) > 400
    assert all(re.fullmatch("[a-z]{3,}", word) for word in WORDS)
    assert not set(WORDS) & {"type", "items", "format", "required", "properties"}
    assert len(set(WORDS) & RESERVED) <= 1
