import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Unparseable
from harness.scoring.parsers.json_object import json_object


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        'Sure:\n```json\n{"a": 1}\n```\nDone {"b": 2}.',
        '```\n{"a": 1}\n```',
        'It is {"a": 1}, or {"a": 2}.',
        'For {x} in {y}: {"a": 1}',
        '```json\nnothing\n```\n{"a": 1}',
        '```json\n{"a": 1}',
    ],
)
def test_the_object_is_found(text: str) -> None:
    assert json_object(text) == {"a": 1}


@pytest.mark.parametrize("text", ["", "none", "[1]", "{a: 1}", '{"a": 1', '{"a": NaN}', "{" * 99])
def test_where_there_is_none_the_answer_is_unparseable(text: str) -> None:
    with pytest.raises(Unparseable, match="holds no JSON object"):
        json_object(text)


def test_a_key_that_comes_twice_is_no_answer() -> None:
    with pytest.raises(Unparseable, match="'a' is twice"):
        json_object('{"a": 1, "a": 2}')


@pytest.mark.parametrize(
    "text",
    ['{"a":' * 100_000, "{" * 1_000_000, '{"a":[' + "[" * 100_000, '{"a": ' + "9" * 100_000 + "}"],
)
def test_hostile_text_ends_soon(text: str) -> None:
    began = time.monotonic()
    with pytest.raises(Unparseable):
        json_object(text)
    assert time.monotonic() - began < 5


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none() | st.booleans()))
def test_what_is_written_is_read(found: dict[str, Any]) -> None:
    assert json_object(f"Here: {json.dumps(found)} there.") == found
