"""Valid instances are valid; broken ones break what they say, and nothing else."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from harness.builders.concodeeval.schemas import drawn
from harness.builders.concodeeval.targets import targets
from harness.builders.concodeeval.valid import NoInstanceError, valid
from harness.builders.concodeeval.verdict import Verdicts
from harness.builders.concodeeval.violating import Broken, Unbroken, violating
from harness.builders.draws import Draws
from tests.builders.concodeeval.drawn import SEEDS, generated

CASES: list[tuple[dict[str, Any], str]] = [
    ({"type": "number", "maximum": 10}, "/maximum"),
    ({"type": "number", "minimum": 0, "multipleOf": 5.88}, "/minimum"),
    ({"type": "number", "minimum": 0, "maximum": 6, "multipleOf": 5.88}, "/multipleOf"),
    ({"type": "integer", "minimum": 1}, "/type"),
    ({"type": "string", "minLength": 3, "maxLength": 4}, "/minLength"),
    ({"type": "string", "format": "email", "maxLength": 20}, "/maxLength"),
    ({"type": "string", "format": "duration", "minLength": 5}, "/minLength"),
    ({"type": "string", "format": "ipv4", "maxLength": 10}, "/format"),
    ({"type": "string", "pattern": "^[a-z]+$"}, "/pattern"),
    ({"type": "string", "enum": ["east", "west"]}, "/enum"),
    ({"const": 7}, "/const"),
    ({"type": "boolean"}, "/type"),
    ({"type": "null"}, "/type"),
    ({"type": "array", "contains": {"type": "string"}}, "/contains"),
    ({"type": "array", "contains": {"type": "string"}, "minContains": 2}, "/minContains"),
    (
        {"type": "array", "contains": {"const": 1}, "minContains": 1, "maxContains": 2},
        "/maxContains",
    ),
    ({"type": "array", "items": {"type": "null"}, "minItems": 2}, "/minItems"),
    ({"type": "array", "items": {"type": "number"}, "maxItems": 2}, "/maxItems"),
    ({"type": "array", "items": {"type": "number"}, "uniqueItems": True}, "/uniqueItems"),
    ({"type": "array", "items": {"type": "number", "maximum": 3}}, "/items/maximum"),
    ({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]}, "/required"),
    ({"type": "object", "properties": {"a": {}}, "additionalProperties": False},
     "/additionalProperties"),
    ({"type": "object", "additionalProperties": {"type": "null"}}, "/additionalProperties/type"),
    ({"type": "object", "properties": {"a/b": {"type": "array", "items": {"type": "object",
      "properties": {"~": {"maxLength": 2, "type": "string"}}}}}},
     "/properties/a~1b/items/properties/~0/maxLength"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "place"), CASES, ids=[place for _, place in CASES])
def test_a_keyword_is_broken_alone(schema: dict[str, Any], place: str) -> None:
    found = violating(schema, place, Draws(0))
    assert isinstance(found, Broken), found
    (error,) = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    ).iter_errors(found.value)
    assert found.violation.schema_path == place
    keywords = list(error.absolute_schema_path)
    if place in ("/minContains", "/maxContains"):  # the Python validator names `contains` of both
        assert keywords == ["contains"]
    else:
        tokens = place[1:].split("/")
        assert keywords == [token.replace("~1", "/").replace("~0", "~") for token in tokens]


@pytest.mark.parametrize(
    ("schema", "place", "reason"),
    [
        ({"type": "string", "minLength": 0}, "/minLength", "minLength: 0 excludes nothing"),
        ({"contains": {}, "minContains": 0}, "/minContains", "excludes nothing"),
        ({"contains": {"type": "null"}, "minContains": 2}, "/contains", "minContains is broken"),
        ({"minContains": 2}, "/minContains", "without contains"),
        ({"required": []}, "/required", "excludes nothing"),
        ({"type": "string", "const": "a"}, "/type", "in 8 attempts"),
        ({"type": "string", "format": "uuid", "maxLength": 36}, "/maxLength", "in 8 attempts"),
        ({"type": "string", "format": "uuid", "maxLength": 9}, "/format", "in 8 attempts"),
        ({"type": "string"}, "/minLength", "no such keyword"),
        ({"properties": {"a": {}}}, "/properties", "no such keyword"),
    ],
)
def test_what_cannot_be_broken_alone_is_said(
    schema: dict[str, Any], place: str, reason: str
) -> None:
    found = violating(schema, place, Draws(0))
    assert isinstance(found, Unbroken)
    assert reason in found.reason


def test_a_bound_breaks_itself() -> None:
    for keyword in ("exclusiveMaximum", "exclusiveMinimum"):
        found = violating({"type": "number", keyword: 10}, f"/{keyword}", Draws(0))
        assert isinstance(found, Broken)
        assert found.value == 10


def test_where_every_item_counts() -> None:
    schema = {"type": "array", "contains": {}, "minContains": 4, "maxContains": 5}
    sizes = {len(valid(schema, Draws(seed))) for seed in range(20)}
    assert sizes == {4, 5}


def test_no_instance_of_a_schema_that_has_none() -> None:
    for schema in (
        {"type": "string", "format": "uuid", "maxLength": 9},
        {"type": "number", "minimum": 2, "maximum": 1},
        {"type": "array", "items": {"type": "null"}, "uniqueItems": True, "minItems": 2},
        {"type": "object", "required": ["a"], "additionalProperties": False},
    ):
        with pytest.raises(NoInstanceError):
            valid(schema, Draws(0))


@given(schema=generated, seed=SEEDS)
@settings(max_examples=100, deadline=None)
def test_valid_instances_of_the_generators_schemas(schema: dict[str, Any], seed: int) -> None:
    draws, verdicts = Draws(seed, "sample"), Verdicts(schema)
    try:
        values = [valid(schema, draws, verdicts) for _ in range(3)]
    except NoInstanceError:
        return  # the generator leaves such a schema out
    assert not any(verdicts.violations(value) for value in values)


@given(schema=generated, seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_each_keyword_of_the_generators_schemas(schema: dict[str, Any], seed: int) -> None:
    draws, verdicts = Draws(seed, "sample"), Verdicts(schema)
    for target in draws.sample(list(targets(schema)), 5):
        found = violating(schema, target.schema_path, draws, verdicts)
        if isinstance(found, Broken):
            assert verdicts.violations(found.value) == [found.violation]
            assert found.violation.keyword == target.keyword
            assert found.violation.schema_path == target.schema_path


def test_most_keywords_are_broken() -> None:
    tried = broken = 0
    for number in range(60):
        schema = drawn("object", 10, "paper", Draws(number, "share"))
        for target in targets(schema):
            tried += 1
            found = violating(schema, target.schema_path, Draws(number))
            broken += isinstance(found, Broken) or "excludes nothing" in found.reason
    assert broken / tried > 0.95
