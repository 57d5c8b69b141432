"""lm-eval's verdicts: what it strips, its formats, and a bounded time for every schema."""

import socket
import time
from typing import Any

import pytest

from harness.plugins.benchmarks.concodeeval.paper import LONGEST_FORMATTED
from harness.plugins.benchmarks.jsonschemabench.official import (
    OfficialValidator,
    is_json,
    read,
    versions,
)
from harness.scoring.validators import Undecided, UnparseableDocument, cached_validator

CATASTROPHE = "^(?:a|a)+$"
DOUBLED = {
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    | {"d40": {"type": "integer"}},
    "$ref": "#/$defs/d0",
}


def keywords(schema: Any, value: Any) -> list[str]:
    return [one.keyword for one in OfficialValidator(schema).violations(value)]


@pytest.mark.parametrize(
    ("text", "json", "value"),
    [
        ('```json\n{"a": 1}\n```', True, {"a": 1}),
        ("j{}n", True, {}),
        ("null", False, None),  # ull
        ("NaN", True, ...),
        ("\xa0json\xa0[1]", True, None),  # only one of the two removes this space
        ("Here: {}", False, None),
    ],
)
def test_characters_are_stripped_not_words(text: str, json: bool, value: Any) -> None:
    assert is_json(text) is json
    if value is None:
        with pytest.raises(UnparseableDocument):
            read(text)
    elif value is not ...:
        assert read(text) == value


@pytest.mark.parametrize("name", ["ipv4", "ipv6", "uuid"])
@pytest.mark.parametrize("value", ["192.0.2.1", "::1", 5, "123e4567-e89b-12d3-a456-426614174000"])
def test_some_formats_refuse_every_value(name: str, value: Any) -> None:
    assert keywords({"format": name}, value) == ["format"]


def test_a_wrong_address_is_an_exception_that_no_alternative_catches() -> None:
    schema = {"anyOf": [{"format": "ipv4"}, True]}
    assert keywords(schema, "192.0.2.1") == []
    assert keywords(schema, "x") == ["format"]


def test_the_draft_is_2020_12_unless_a_part_names_another() -> None:
    draft_4 = {"$schema": "http://json-schema.org/draft-04/schema#", "dependencies": {"a": ["b"]}}
    assert keywords(draft_4, {"a": 1}) == []
    assert keywords({"properties": {"c": draft_4}}, {"c": {"a": 1}}) == ["dependencies"]
    assert keywords({"exclusiveMinimum": True}, 5) == ["$schema"]
    assert keywords({"items": {"$ref": "#/nowhere"}}, [5]) == ["$ref"]
    assert keywords({"items": {"$ref": "#/nowhere"}}, []) == []


def test_all_violations_are_listed_with_their_places() -> None:
    found = OfficialValidator({"properties": {"a": {"minimum": 3}}, "required": ["b"]}).violations(
        {"a": 1}
    )
    assert {(one.path, one.keyword, one.schema_path) for one in found} == {
        ("/a", "minimum", "/properties/a/minimum"),
        ("", "required", "/required"),
    }


@pytest.mark.parametrize(
    ("schema", "value", "end"),
    [
        ({"$ref": "#"}, 5, "$ref"),
        ({"$dynamicRef": "#"}, 5, "$ref"),
        ({"$ref": "https://example.com/a.json"}, 5, "$ref"),
        ({"$ref": "file:///etc/passwd"}, 5, "$ref"),
        ({"pattern": CATASTROPHE}, "a" * 60 + "!", Undecided),
        ({"patternProperties": {CATASTROPHE: True}}, {"a" * 60 + "!": 1}, Undecided),
        (
            {"unevaluatedProperties": False, "patternProperties": {CATASTROPHE: True}},
            {"a" * 60 + "!": 1},
            Undecided,
        ),
        ({"pattern": "("}, "a", "$schema"),
        ({"contains": {"enum": [*range(20_000)]}}, [-1] * 20_000, Undecided),
        ({"format": "uri-template"}, "{" * (LONGEST_FORMATTED + 1), Undecided),
        ({"type": "string", "format": "unknown"}, "{" * (LONGEST_FORMATTED + 1), None),
        ({"uniqueItems": True}, [{"a": n} for n in range(3_000)], Undecided),
        (DOUBLED, 5, Undecided),
        (DOUBLED, "x", "type"),  # one violation decides, whatever else takes too long
        ({"multipleOf": 0.1}, 10**400, "exception"),
        (False, 5, "falseSchema"),
        (True, 5, None),
    ],
)
def test_every_schema_ends_in_time_and_nothing_is_fetched(
    schema: Any, value: Any, end: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: Any) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", connect)
    begun = time.thread_time()
    compiled = OfficialValidator(schema, seconds=0.5)
    if end is Undecided:
        with pytest.raises(Undecided):
            compiled.violations(value)
    else:
        found = compiled.violations(value)
        assert (found[0].keyword if found else None) == end
    assert time.thread_time() - begun < 5


def test_it_is_compiled_once() -> None:
    first = cached_validator({"type": "integer"}, OfficialValidator)
    assert isinstance(first, OfficialValidator)
    assert cached_validator({"type": "integer"}, OfficialValidator) is first
    assert cached_validator({"type": "integer"}, "7") is not first
    assert versions()["jsonschema"]
