"""The right verdicts: real schemas, the drafts apart, formats, exact numbers, local references."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataInvalid
from harness.scoring.validators import DRAFTS, Draft, Violation, read, validator
from harness.scoring.validators.limits import pointer
from harness.scoring.validators.schemas import misspelt_keywords, value_text
from harness.scoring.validators.strict import Routes


def valid(schema: Any, value: Any, draft: Draft = "2020-12") -> bool:
    return not validator(schema, draft=draft).violations(value)


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_every_expected_verdict_on_real_schemas(data_dir: Path, step: int) -> None:
    lines = (data_dir / "jsonschema" / "sample200.jsonl").read_text().splitlines()[::step]
    checked = 0
    for row in map(json.loads, lines):
        compiled = validator(row["schema"])
        for instance in row["instances"]:
            violations = compiled.violations(read(json.dumps(instance["data"])))
            assert (not violations) == instance["valid"], (row["name"], violations)
            checked += 1
    assert checked == sum(len(json.loads(line)["instances"]) for line in lines) > 900 / step / 2


EXCLUSIVE = {"minimum": 5, "exclusiveMinimum": True}
TUPLE = {"items": [{"type": "string"}], "additionalItems": False}
PREFIX = {"prefixItems": [{"type": "string"}], "items": False}
CONTAINS = {"contains": {"type": "string"}}
TWO = {**CONTAINS, "minContains": 2}
NONE = {**CONTAINS, "minContains": 0}
DEPENDENCIES = {"dependencies": {"a": ["b"]}}
DEPENDENT = {"dependentRequired": {"a": ["b"]}}
CONST = {"const": 1}
IF = {"if": {"type": "string"}, "then": {"minLength": 2}, "else": False}
UNEVALUATED = {"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}
BY_ID = {"$ref": "x:y", "definitions": {"y": {"$id": "x:y", "type": "string"}}}
BY_OLD_ID = {"allOf": [{"$ref": "x:y"}], "definitions": {"y": {"id": "x:y", "type": "string"}}}
SIBLING = {"$ref": "#/definitions/a", "maxLength": 1, "definitions": {"a": {"type": "string"}}}
ANCHOR = {"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "string"}}}
NAMES = {"propertyNames": {"maxLength": 1}}
ALL: tuple[Draft, ...] = DRAFTS


@pytest.mark.parametrize(
    ("schema", "value", "valid_in", "refused_in"),
    [
        (EXCLUSIVE, 5, (), ALL[1:]),  # a boolean in Draft 4, a number since
        (EXCLUSIVE, 6, ("4",), ALL[1:]),
        ({"exclusiveMinimum": 5}, 5, (), ("4",)),
        ({"type": "integer"}, 1.0, ALL[1:], ()),  # no integer in Draft 4
        (TUPLE, ["a", 1], (), ("2020-12",)),  # a list of schemas until 2019-09
        (TUPLE, ["a"], ALL[:4], ("2020-12",)),
        ({"prefixItems": [{"type": "string"}]}, [1], ("4", "6", "7", "2019-09"), ()),
        (PREFIX, ["a", 1], (), ("4",)),
        (PREFIX, ["a"], ("2020-12",), ("4",)),
        (CONTAINS, [1], ("4",), ()),
        (TWO, ["a", 1], ("4", "6", "7"), ()),
        (NONE, [1], ("4", "2019-09", "2020-12"), ()),
        (DEPENDENCIES, {"a": 1}, (), ()),
        (DEPENDENT, {"a": 1}, ("4", "6", "7"), ()),
        (CONST, 2, ("4",), ()),
        (IF, "a", ("4", "6"), ("4",)),
        (IF, 5, ("4", "6"), ("4",)),
        (UNEVALUATED, {"b": 1}, ("4", "6", "7"), ("4",)),
        (BY_ID, 5, (), ("4",)),
        (BY_OLD_ID, 5, (), ALL[1:]),
        (SIBLING, "ab", ("4", "6", "7"), ()),  # what stands beside a $ref is ignored
        (ANCHOR, 5, (), ("4", "6", "7")),
        (NAMES, {"ab": 1}, ("4",), ()),
        ({"contains": True}, [], ("4",), ("4",)),
        ({"properties": {"a": False}}, {"a": 1}, (), ("4",)),
    ],
)
@pytest.mark.parametrize("draft", DRAFTS)
def test_the_drafts_are_told_apart(
    schema: Any, value: Any, valid_in: Any, refused_in: Any, draft: Draft
) -> None:
    names = {"4": "-04", "6": "-06", "7": "-07", "2019-09": "/2019-09", "2020-12": "/2020-12"}
    named = {"$schema": f"http://json-schema.org/draft{names[draft]}/schema#", **schema}
    for given_schema, configured in ((schema, draft), (named, "2020-12")):
        try:
            found = valid(given_schema, value, configured)  # type: ignore[arg-type]
        except DataInvalid:
            assert draft in refused_in
        else:
            assert found is (draft in valid_in)


def test_an_unknown_draft_is_refused() -> None:
    with pytest.raises(DataInvalid, match=r"draft-03.*Supported are drafts 4, 6, 7"):
        validator({"$schema": "http://json-schema.org/draft-03/schema#"})


@pytest.mark.parametrize(
    ("format", "right", "wrong"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("time", "12:30:00Z", "25:00:00Z"),
        ("date-time", "2024-02-29T12:30:00+01:00", "2024-02-29"),
        ("duration", "P1Y2M10DT2H30M", "1 day"),
        ("email", "a@b.org", "a@"),
        ("hostname", "a-b.org", "-a.org"),
        ("ipv4", "1.2.3.4", "1.2.3.256"),
        ("ipv6", "::1", "::g"),
        ("uri", "http://a.b/c", "/c"),
        ("uri-reference", "/c", "\\c"),
        ("iri", "http://é.b/c", "/c"),
        ("iri-reference", "/é", "\\é"),
        ("uri-template", "/a/{b}", "/a/{b"),
        ("json-pointer", "/a/0", "a"),
        ("relative-json-pointer", "1/a", "/a"),
        ("regex", "^a+$", "("),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
    ],
)
def test_formats_are_asserted(format: str, right: str, wrong: str) -> None:
    assert valid({"format": format}, right)
    found = validator({"format": format}).violations(wrong)
    assert [(one.keyword, one.expected) for one in found] == [("format", f'"{format}"')]


@given(
    st.decimals("0.0001", 1000, places=4), st.integers(-(10**6), 10**6), st.decimals(0, 1, places=3)
)
def test_multiple_of_is_exact(step: Decimal, times: int, share: Decimal) -> None:
    schema = read(json.dumps({"multipleOf": "x"}).replace('"x"', str(step)))
    for number in (step * times, step * times + step * share):
        value = read(f"{number:f}")
        assert valid(schema, value) is (number % step == 0)


def test_numbers_beyond_floats_are_compared_exactly() -> None:
    assert valid({"multipleOf": 0.1}, 0.3)
    assert not valid({"maximum": 0.1}, read("0.10000000000000000001"))
    assert valid({"type": "integer"}, read("1e400"))
    assert not valid({"const": 10**500}, 10**500 + 1)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (
            {"properties": {"a/b": {"items": {"type": "string"}}}},
            {"a/b": ["x", 5]},
            [Violation("/a~1b/1", "type", '"string"', "5", "/properties/a~1b/items/type")],
        ),
        (
            {"required": ["a", "b"], "additionalProperties": False, "properties": {"a": {}}},
            {"c": 1},
            [
                Violation("", "required", '"a"', '{"c": 1}', "/required"),
                Violation("", "required", '"b"', '{"c": 1}', "/required"),
                Violation("", "additionalProperties", "false", '["c"]', "/additionalProperties"),
            ],
        ),
        (
            {"contains": {"type": "string"}, "minContains": 2, "maxItems": 1},
            ["a", 1],
            [
                Violation("", "maxItems", "1", '["a", 1]', "/maxItems"),
                Violation("", "minContains", "2", '["a", 1]', "/minContains"),
            ],
        ),
        (
            {"properties": {"a": False}},
            {"a": 1},
            [Violation("/a", "falseSchema", "false", "1", "/properties/a")],
        ),
        (
            {"additionalProperties": False},
            {"a": 1},
            [Violation("", "additionalProperties", "false", '["a"]', "/additionalProperties")],
        ),
        (
            {"properties": {"a": {"propertyNames": {"maxLength": 1}}}},
            {"a": {"bc": 1}},
            [Violation("/a", "maxLength", "1", '"bc"', "/properties/a/propertyNames/maxLength")],
        ),
        (False, 1, [Violation("", "falseSchema", "false", "1")]),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"maximum": 3}}},
            5,
            [Violation("", "maximum", "3", "5", "/$defs/a/maximum")],
        ),
        (
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1},
            [Violation("", "dependentRequired", '"b"', '{"a": 1}', "/dependentRequired")],
        ),
    ],
)
def test_every_violation_has_its_place_keyword_expected_and_found(
    schema: Any, value: Any, expected: list[Violation]
) -> None:
    found = validator(schema).violations(value)
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_what_is_shown_is_short() -> None:
    found = validator({"type": "string"}).violations([["x" * 1000] * 1000])
    assert len(found[0].found) == 120
    assert len(validator({"enum": ["y" * 500]}).violations("x")[0].expected) == 120
    assert value_text({"a": [1.5, Decimal("0.10"), None, True, "é"]}) == (
        '{"a": [1.5, 0.10, null, true, "é"]}'
    )
    assert pointer(["\ud83d"]) == "/\ufffd"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "https://example.com/a.json"}, "References are not fetched"),
        ({"$ref": "file:///etc/passwd"}, "References are not fetched"),
        ({"properties": {"a": {"$ref": "b.json#/c"}}}, "References are not fetched"),
        ({"$ref": "#/$defs/a"}, "References are not fetched"),
        ({"type": "text"}, "breaks the rules of draft 2020-12 at /type"),
        ({"pattern": "("}, "at /pattern"),
        ({"multipleOf": 0}, "at /multipleOf"),
        ([], "a list, not an object or a boolean"),
        (5, "an int|a int"),
        (None, "NoneType"),
        ({1: 2}, "a key that is not a string"),
        ({"const": {1, 2}}, "set is not a type of JSON"),
        ({"const": float("nan")}, "not a number of JSON"),
        ({"const": "\ud83d"}, "half of a surrogate pair"),
        ({"$schema": 5}, "not a supported draft"),
    ],
)
def test_what_is_no_schema_is_said(schema: Any, reason: str) -> None:
    with pytest.raises(DataInvalid, match=reason):
        validator(schema)


def test_local_references_work() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "n": {"type": "integer"}}}
    assert valid(tree, {"left": {"left": {"n": 1}}})
    assert [one.path for one in validator(tree).violations({"left": {"left": {"n": "1"}}})] == [
        "/left/left/n"
    ]
    assert not valid({"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "null"}}}, 5)
    dynamic = {"$dynamicRef": "#a", "$defs": {"x": {"$dynamicAnchor": "a", "type": "null"}}}
    assert not valid(dynamic, 5)
    with_base = {
        "$id": "https://example.com/a",
        "$ref": "b",
        "$defs": {"x": {"$id": "b", "type": "null"}},
    }
    assert not valid(with_base, 5)


def test_a_violation_in_an_embedded_schema_shows_its_own_bound() -> None:
    schema = {
        "$id": "https://example.com/a",
        "$ref": "b",
        "properties": {"n": {"maximum": 9}},
        "$defs": {"x": {"$id": "b", "properties": {"n": {"maximum": 3}}}},
    }
    [found] = validator(schema).violations({"n": 5})
    assert (found.expected, found.schema_path) == ("3", "/$defs/x/properties/n/maximum")


def test_a_schema_is_compiled_once() -> None:
    assert validator({"type": "null"}) is validator({"type": "null"})
    assert validator({"type": "null"}) is not validator({"type": "null"}, draft="7")
    assert validator({"const": Decimal("0.1")}) is validator({"const": Decimal("0.1")})


@pytest.mark.parametrize(
    ("value", "keyword"), [([], "contains"), ([1, 2], "contains"), (["a", "b"], "maxContains")]
)
def test_too_few_and_too_many_of_contains_are_told_apart(value: list[Any], keyword: str) -> None:
    schema = {"contains": {"type": "string"}, "maxContains": 1}
    [found] = validator(schema).violations(value)
    assert (found.keyword, found.schema_path) == (keyword, f"/{keyword}")


@pytest.mark.parametrize(
    "schema",
    [
        {"x-requird": 1, "$minimun": 1, "_format": "date", "note": "", "typeof": "", "nullable": 1},
        {"properties": {"requird": {}}, "example": {"requird": 1}, "enum": [{"minimun": 1}]},
        {"descripton": "", "definitions": {"minimun": {"type": "object"}}},
    ],
)
def test_keywords_of_others_and_names_are_not_misspelt(schema: dict[str, Any]) -> None:
    assert misspelt_keywords(schema) == {}


def test_a_member_breaks_its_own_schema_and_those_that_apply_to_all() -> None:
    """The root has two keywords; of a member, one of two schemas and the pattern's apply."""
    text = {"type": "string", "minLength": 1, "maxLength": 9}
    schema = {
        "properties": {"a": {"type": "null"}, "b": text},
        "patternProperties": {"": {"not": {"const": ""}, "enum": ["x"]}},
    }
    assert Routes(schema).count(0) == 2
    assert Routes(schema).count(1) == 2 + 3 + (2 + 1)


@pytest.mark.parametrize(
    ("reference", "routes"),
    [
        ("https://example.com/b#/$defs/x", 3),
        ("b#/$defs/x", 3),
        ("https://example.com/a#/$defs/x", 2),  # the root, whose name an embedded schema has, too
    ],
)
def test_the_routes_of_a_reference_are_those_of_its_base(reference: str, routes: int) -> None:
    base = "https://example.com"
    three = {"minimum": 1, "maximum": 9, "multipleOf": 2}
    schema = {
        "$id": f"{base}/a",
        "$ref": reference,
        "$defs": {
            "x": {"minimum": 1, "maximum": 9},
            "y": {"$id": f"{base}/b", "$defs": {"x": three}},
            "z": {"$id": f"{base}/c/a", "$defs": {"x": {}}},
        },
    }
    assert Routes(schema).count(0) == 3 + routes
