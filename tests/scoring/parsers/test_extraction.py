import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ConfigError, Unparseable
from harness.scoring.parsers.extraction import RegexExtraction, extraction


@pytest.mark.parametrize(
    ("way", "text", "answer"),
    [
        ({"regex": r"answer is (\w+)"}, "The answer is a. The answer is b.", "a"),
        ({"regex": r"answer is (\w+)", "take": "last"}, "The answer is a. The answer is b.", "b"),
        ({"regex": r"ANSWER is (\w+)", "ignore_case": True}, "The answer is a.", "a"),
        ({"regex": [r"^(\d+)$", r"is (\d+)"]}, "It is 4", "4"),
        ({"regex": r"\d+"}, "It is 42.", "42"),
        ({"number": "last"}, "5 + 5 = $1,010.0", "1010.0"),
        ({"number": "first"}, "5 + 5 = 10", "5"),
        ({"json": "answer"}, 'So: {"answer": "x"}', "x"),
        ({"json": "a.b"}, '{"a": {"b": [1, "é"]}}', '[1, "é"]'),
    ],
)
def test_the_answer_is_read(way: dict[str, Any], text: str, answer: str) -> None:
    found = extraction(way, "task.extract")
    assert found.read(text) == answer
    written = found.write(answer)
    assert written is None or found.read(written) == answer


@pytest.mark.parametrize(
    "way",
    [{"regex": r"answer is (\w+)"}, {"regex": "x()"}, {"number": "last"}, {"json": "a"}],
)
def test_an_answer_that_is_not_there_is_unparseable(way: dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        extraction(way, "task.extract").read("x")


def test_what_a_json_value_lacks_is_said() -> None:
    with pytest.raises(Unparseable, match=r"has no 'a\.b'"):
        extraction({"json": "a.b"}, "task.extract").read('{"a": 1}')


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("answer is", r"task\.extract must be a mapping.*regex"),
        ({}, "has no way to read"),
        ({"regx": "a"}, "has no way to read.*Did you mean 'regex'"),
        ({"regex": "a", "json": "b"}, "has both"),
        ({"regex": "a", "tke": "last"}, "Did you mean 'take'"),
        ({"json": "a", "take": "last"}, "json has no 'take'"),
        ({"regex": "("}, r"task\.extract\.regex: .* no regular expression"),
        ({"regex": []}, "must be a pattern"),
        ({"regex": [1]}, "must be a pattern"),
        ({"regex": "a", "take": "second"}, "must be first or last"),
        ({"regex": "a", "ignore_case": "no"}, "must be true or false"),
        ({"number": True}, "must be first or last"),
        ({"json": ""}, "name of a key"),
        ({"json": "a..b"}, "name of a key"),
    ],
)
def test_a_way_that_is_none_is_refused(raw: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        extraction(raw, "task.extract")


PATTERNS = [r"a(b)?", r"(b+)", r"c(a)", r"(a|c)c", r"b"]


@given(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4), st.text("abc", max_size=12))
def test_several_patterns_read_as_their_alternation(patterns: list[str], text: str) -> None:
    found = RegexExtraction(patterns, "here").find(text)
    match = re.search("|".join(patterns), text)
    assert (found is None) == (match is None)
    if found and match:
        assert found.start == match.start()
        first = re.match(patterns[found.pattern], text[match.start() :])
        assert first is not None
        assert first[0] == match[0]
