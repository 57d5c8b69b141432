"""A violation's `schema_path` leads to its keyword, whichever engine found it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.plugins.benchmarks.concodeeval.documents import Mode
from harness.plugins.benchmarks.concodeeval.representations import (
    REPRESENTATIONS,
    keywords,
    rendered,
)
from harness.plugins.builders.concodeeval import RANGES, ROOTS, drawn
from harness.plugins.builders.draws import Draws
from harness.scoring.validators import Violation, validator

BUILTIN = Path(__file__).parents[4] / "harness/plugins/benchmarks/concodeeval/builtin"
MODES: tuple[Mode, ...] = ("strict", "paper")


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (BUILTIN / name).read_text("utf-8").splitlines()]


SCHEMAS: dict[str, Any] = {row["id"]: row["schema"] for row in rows("schemas.jsonl")}


def at(schema: Any, pointer: str) -> Any:
    """What a JSON pointer leads to, read as RFC 6901 says; a KeyError where that is nothing."""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        schema = schema[int(key)] if isinstance(schema, list) else schema[key]
    return schema


def assert_leads_to_its_keyword(violation: Violation, schema: Any) -> None:
    led = at(schema, violation.schema_path)
    if violation.keyword == "falseSchema":
        assert led is False
        return
    above, _, last = violation.schema_path.rpartition("/")
    assert last == violation.keyword
    assert isinstance(at(schema, above), dict)
    listed = violation.keyword in ("required", "dependentRequired", "dependencies")
    if not listed and len(json.dumps(led)) < 100:
        assert json.loads(violation.expected) == led


def test_the_builtin_rows_that_break_a_keyword() -> None:
    broken = [row for row in rows("validation.jsonl") if row["label"] == "no"]
    assert len(broken) == 56
    for row in broken:
        found = validator(SCHEMAS[row["schema_id"]]).violations(row["value"])
        assert [(one.path, one.keyword, one.schema_path) for one in found] == [
            (row["path"], row["keyword"], row["schema_path"])
        ]


@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_each_is_a_span_of_every_representation(representation: Any) -> None:
    spanned = {id: rendered(schema, representation)[1] for id, schema in SCHEMAS.items()}
    for row in rows("validation.jsonl"):
        for one in validator(SCHEMAS[row["schema_id"]]).violations(row["value"]):
            assert one.schema_path in spanned[row["schema_id"]]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-100, 100) | st.floats(-100, 100) | st.text(max_size=9),
    lambda inside: (
        st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=5), inside, max_size=4)
    ),
    max_leaves=10,
)


def shaped(schema: Any, draw: Any, depth: int = 0) -> Any:
    """A value that has a schema's members and items, so that deep keywords are met."""
    if isinstance(schema, dict) and depth < 5 and draw(st.integers(0, 5)):
        if "properties" in schema:
            return {
                name: shaped(inner, draw, depth + 1)
                for name, inner in schema["properties"].items()
                if draw(st.integers(0, 4))
            }
        for word in ("items", "contains"):
            if word in schema:
                return [shaped(schema[word], draw, depth + 1) for _ in range(2)]
    return draw(VALUES)


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(sorted(SCHEMAS)), st.sampled_from(MODES))
def test_the_builtin_schemas_broken_anyhow(data: st.DataObject, id: str, mode: Mode) -> None:
    schema = SCHEMAS[id]
    places = {place for place, _, _ in keywords(schema)}
    for one in validator(schema, mode=mode).violations(shaped(schema, data.draw)):
        assert_leads_to_its_keyword(one, schema)
        assert one.schema_path in places


@settings(deadline=None, max_examples=50)
@given(
    st.data(), st.sampled_from(ROOTS), st.sampled_from(RANGES), st.integers(0, 2**32),
    st.sampled_from(MODES),
)  # fmt: skip
def test_generated_schemas_broken_anyhow(
    data: st.DataObject, root: Any, high: Any, seed: int, mode: Mode
) -> None:
    schema = drawn(root, high, "extended", Draws(seed, "paths"))
    for one in validator(schema, mode=mode).violations(shaped(schema, data.draw)):
        assert_leads_to_its_keyword(one, schema)


@pytest.mark.parametrize(
    ("schema", "value", "places"),
    [
        ({"properties": {"a/b~": {"items": {"type": "null"}}}}, {"a/b~": [1]},
         ["/properties/a~1b~0/items/type"]),
        ({"anyOf": [{"type": "null"}, {"minimum": 5}]}, 3, ["/anyOf"]),
        ({"allOf": [{"minimum": 9}, False]}, 5, ["/allOf/0/minimum", "/allOf/1"]),
        ({"if": True, "then": False}, 1, ["/then"]),
        ({"if": {"type": "integer"}, "then": {"minimum": 5}}, 1, ["/then/minimum"]),
        ({"items": [{"type": "null"}, False]}, [1, 1], ["/items/0/type", "/items/1"]),
        ({"items": [{}], "additionalItems": False}, [1, 1], ["/additionalItems"]),
        ({"items": False}, [1], ["/items"]),
        ({"patternProperties": {"^a/": {"type": "null"}, "b": False}}, {"a/": 1, "b": 1},
         ["/patternProperties/^a~1/type", "/patternProperties/b"]),
        ({"additionalProperties": {"type": "null"}}, {"a": 1}, ["/additionalProperties/type"]),
        ({"additionalProperties": False}, {"a": 1}, ["/additionalProperties"]),
        ({"properties": {"additionalProperties": False}}, {"additionalProperties": {"a": 1}},
         ["/properties/additionalProperties"]),
        ({"additionalProperties": False, "properties": {"a": {"$ref": "#/additionalProperties"}}},
         {"a": {"b": 1}}, ["/additionalProperties"]),
        ({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, {"a": 1, "c": 1},
         ["/dependencies", "/dependencies/c/required"]),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, ["/propertyNames/maxLength"]),
        ({"required": ["a", "b"]}, {}, ["/required", "/required"]),
        ({"definitions": {"a": {"maximum": 1}}, "items": {"$ref": "#/definitions/a"}}, [5],
         ["/definitions/a/maximum"]),
        ({"definitions": {"a": False}, "items": {"$ref": "#/definitions/a"}}, [5],
         ["/definitions/a"]),
        ({"properties": {"n": {"type": "null"}, "m": {"$ref": "#"}}}, {"m": {"m": {"n": 1}}},
         ["/properties/n/type"]),
        ({"definitions": {"a/b": {"allOf": [{"$ref": "#/definitions/c"}]}, "c": {"minimum": 5}},
          "properties": {"x": {"$ref": "#/definitions/a~1b"}}}, {"x": 1},
         ["/definitions/c/minimum"]),
        ({"$id": "https://example.com/a", "type": "object", "properties": {"r": {"$ref": "b"}},
          "definitions": {"x": {"$id": "b", "type": "null"}}}, {"r": 5}, ["/definitions/x/type"]),
        ({"properties": {"r": {"$ref": "#foo"}},
          "definitions": {"x": {"$id": "#foo", "type": "null"}}}, {"r": 5},
         ["/definitions/x/type"]),
        (False, 1, [""]),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("mode", MODES)
def test_whatever_leads_to_it(mode: Mode, schema: Any, value: Any, places: list[str]) -> None:
    found = validator(schema, mode=mode, draft="7").violations(value)
    assert sorted(one.schema_path for one in found) == places
    for one in found:
        assert_leads_to_its_keyword(one, schema)


def test_a_count_of_matches_is_a_keyword_of_its_own_in_strict_mode() -> None:
    schema = {"contains": {"type": "null"}, "minContains": 2}
    [strict], [paper] = (validator(schema, mode=mode).violations([1]) for mode in MODES)
    assert (strict.keyword, strict.schema_path) == ("minContains", "/minContains")
    assert (paper.keyword, paper.schema_path) == ("contains", "/contains")


def test_what_is_in_a_meta_schema_is_not_in_the_schema() -> None:
    schema = {"properties": {"a": {"$ref": "http://json-schema.org/draft-07/schema#"}}}
    [found] = validator(schema, mode="paper").violations({"a": {"type": 5}})
    assert (found.path, found.keyword, found.schema_path) == ("/a/type", "anyOf", "")
