"""Paper mode gives the verdicts of `jsonschema.Draft7Validator`, error for error."""

import datetime
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataInvalid
from harness.plugins.benchmarks.concodeeval.documents import read
from harness.plugins.benchmarks.concodeeval.documents.json_text import root_type_violated
from harness.scoring.validators import BlockExtraction, score_document, validator
from scripts.bench_validators import compared, original

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def found(schema: Any, value: Any) -> list[tuple[str, str]]:
    violations = validator(schema, mode="paper").violations(value)
    return [(one.path, one.keyword) for one in violations]


def test_it_agrees_on_generated_pairs() -> None:
    valid, differing = compared(2_000, seed=5)
    assert not differing
    assert 0.3 < valid / 2_000 < 0.7


@given(
    st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    st.floats(1e-300, 1e300) | st.integers(1, 10**9) | st.sampled_from([0.1, 0.01, 47.82]),
)
def test_it_divides_floats_as_the_original_does(number: Any, step: Any) -> None:
    assert found({"multipleOf": step}, number) == original({"multipleOf": step}, number)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"multipleOf": 0.1}, 0.3),
        ({"multipleOf": 1e-300}, 1e300),
        ({"format": "date"}, "never"),
        ({"contains": {"type": "string"}, "minContains": 2}, ["a"]),
        ({"prefixItems": [{"type": "string"}]}, [5]),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "const": 1}, 2),
        ({"minimum": 5, "exclusiveMinimum": True}, 5),
        ({"type": "integer"}, 1.0),
        ({"enum": [1, [0], {"a": True}]}, True),
        ({"enum": [[False]]}, [0]),
        ({"uniqueItems": True}, [1, True, 1]),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}, "x"]),
        ({"required": ["a", "b"]}, {}),
        ({"additionalProperties": False, "patternProperties": {"^x": {}, "y$": {}}}, {"xa": 1}),
        ({"additionalProperties": {"type": "null"}, "properties": {"a": {}}}, {"a": 1, "b": 1}),
        ({"patternProperties": {"a": {"type": "null"}, "b": False}}, {"ab": 1, "c": 2}),
        ({"properties": {"a": False}}, {"a": 1}),
        (False, 1),
        ({"items": [{"type": "null"}], "additionalItems": False}, [1, 2]),
        ({"anyOf": [{"type": "null"}, {"minimum": 5}]}, 3),
        ({"if": {"type": "string"}, "then": {"minLength": 2}}, "a"),
        ({"not": {}}, 1),
        ({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, {"a": 1, "c": 1}),
        ({"$ref": "#/definitions/a", "type": "null", "definitions": {"a": {"maximum": 1}}}, 5),
        ({"type": "string"}, datetime.date(2020, 1, 1)),
        ({"type": "object", "properties": {"a": {}}}, {1: 2, None: 3}),
        ({"type": "array"}, {1, 2}),
        ({"minimum": 5}, math.nan),
        ({"maximum": 5}, math.inf),
        ({"minLength": 2}, "\ud83d"),
        ({"$schema": DRAFT_7, "properties": {"a": {"$ref": "#"}}, "required": ["b"]}, {"a": {}}),
        ({"properties": {"a": {"$schema": DRAFT_7, "type": "null"}}}, {"a": 1}),
        (
            {"properties": {"a": {"$schema": DRAFT_4, "minimum": 5, "exclusiveMinimum": True}}},
            {"a": 5},
        ),
        (
            {
                "items": {
                    "$schema": DRAFT_4,
                    "const": 1,
                    "patternProperties": {"a": {"type": "null"}},
                }
            },
            [{"a": 1}],
        ),
        ({"$ref": DRAFT_7}, {"type": 5}),
        ({"$ref": DRAFT_4}, {"required": []}),
    ],
)
def test_it_agrees_where_the_engines_differ(schema: Any, value: Any) -> None:
    assert Counter(found(schema, value)) == Counter(original(schema, value))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^\d+$", "٣\n"),
        (r"\w\b", "é"),
        (r"[[:alpha:]]", "a]"),
        (r"[[:alpha:]]", "x"),
        (r"(?:foo){e<=1}", "fo"),
        (r"(?:foo){e<=1}", "foo{e<=1}"),
        (r"a{,2}b", "aab"),
        (r"a{2", "a{2"),
        (r"^.$", "\n"),
        (r"\N{DIGIT ONE}", "1"),
        (r"(?<=a)b(?!c)", "abd"),
        (r"(a)\1", "aa"),
        (r"(?i)straße", "STRASSE"),
        (r"a++b", "aab"),
        (r"\Z", "a\n"),
        (r"[a&&b]", "&"),
    ],
)
@pytest.mark.filterwarnings("ignore:Possible")
def test_patterns_mean_what_they_mean_to_re(pattern: str, text: str) -> None:
    schema = {"pattern": pattern, "patternProperties": {pattern: False}}
    assert found(schema, text) == original(schema, text)
    assert found(schema, {text: 1}) == original(schema, {text: 1})


def test_where_the_original_breaks_off() -> None:
    """With an exception, which is no verdict."""
    assert found({"multipleOf": 0.5}, 10**400) == []
    assert found({"multipleOf": 0.1}, 10**400) == [("", "multipleOf")]  # 0.1 as the float is
    assert found({"multipleOf": 0.1}, math.inf) == [("", "multipleOf")]
    assert found({"multipleOf": 2}, math.nan) == [("", "multipleOf")]


def test_a_recursive_schema_is_followed_as_often_as_it_is_met() -> None:
    schema = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]}
    assert found(schema, [[None]] * 500) == []
    assert found(schema, [[5]] * 500) == original(schema, [[5]] * 500) != []


@pytest.mark.parametrize("reference", ["https://example.com/a", "file:///etc/passwd", "#/nothing"])
def test_references_are_not_fetched(reference: str) -> None:
    with pytest.raises(DataInvalid, match="not fetched"):
        found({"$ref": reference}, 5)


def test_a_broken_pattern_is_the_schemas_fault() -> None:
    with pytest.raises(DataInvalid, match="not a regular expression"):
        found({"pattern": r"\p{L}"}, "a")


def test_the_recorded_answers_of_codellama(data_dir: Path) -> None:
    lines = (data_dir / "concodeeval" / "codellama7b_outputs.jsonl").read_text().splitlines()
    assert len(lines) == 149
    for row in map(json.loads, lines):
        assert row["parsed"]
        value = read(row["output_text"], mode="paper")
        recorded = [error.partition(":")[0] for error in row["draft7_errors"]]
        assert [keyword for _, keyword in found(row["schema"], value)] == recorded
        violated = root_type_violated(value, row["schema"])
        assert violated is row["recomputed_root_type_violation"]


@pytest.mark.parametrize(
    ("value", "named", "violated"),
    [
        (5, "integer", False),
        (5.5, "integer", False),
        (5, "number", False),
        (True, "number", True),
        (True, "boolean", False),
        (None, "null", False),
        ([], "array", False),
        ({}, "array", True),
        ("5", ["null", "string"], False),
        ("5", None, False),
    ],
)
def test_the_type_of_the_root(value: Any, named: Any, violated: bool) -> None:
    schema = {"type": named} if named else {"minimum": 3}
    assert root_type_violated(value, schema) is violated


def test_the_modes_differ() -> None:
    for mode, passed in (("strict", True), ("paper", False)):
        score = score_document("0.3", {"multipleOf": 0.1}, mode=mode)["valid"]
        assert score.passed is passed
    for mode, passed in (("strict", False), ("paper", True)):
        score = score_document('"x"', {"format": "date"}, mode=mode)["valid"]
        assert score.passed is passed
    number = {"type": "number"}
    assert score_document("<all>5</all>", number, format="xml")["valid"].passed
    assert not score_document("<all>5</all>", number, format="xml", mode="paper")["valid"].passed


def test_a_schema_is_compiled_once_in_each_mode() -> None:
    paper = validator({"type": "null"}, mode="paper")
    assert paper is validator({"type": "null"}, mode="paper")
    assert paper is not validator({"type": "null"})


@pytest.mark.parametrize("way", ["fence", "open_fence"])
def test_first_fences_are_those_that_were_recorded(way: str, data_dir: Path) -> None:
    lines = (data_dir / "concodeeval" / "llama3_70b_fences.jsonl").read_text().splitlines()
    fresh = [row for row in map(json.loads, lines) if not row["recorded_parsed_is_stale"]]
    assert len(fresh) == 294
    for row in fresh:
        answer = BlockExtraction(way).read(row["output_text"])
        assert answer.strip() == row["first_fence"].strip()
        assert read(answer, mode="paper") == row["recorded_parsed"]
