"""Which constraints are broken, and where they and what breaks them stand."""

import pytest

from harness.plugins.benchmarks.concodeeval.documents import Format, Mode, read, render
from harness.plugins.benchmarks.concodeeval.representations import (
    REPRESENTATIONS,
    Representation,
    rendered,
)
from harness.plugins.benchmarks.concodeeval.schema import (
    Constraints,
    applicable_keywords,
    sample_third,
)
from harness.scoring.validators import validator

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "number", "minimum": 3},
        "b": {"type": "array", "contains": {"type": "string"}, "minContains": 2},
        "c": {"type": "string", "maxLength": 4},
    },
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_each_constraint_has_a_third_that_its_text_bears_out(
    representation: Representation,
) -> None:
    found = Constraints(SCHEMA, *rendered(SCHEMA, representation)).found
    assert set(found) == {
        *("/type", "/required", "/additionalProperties", "/properties/a/type"),
        *("/properties/a/minimum", "/properties/b/type", "/properties/b/contains"),
        *("/properties/b/contains/type", "/properties/b/minContains", "/properties/c/type"),
        "/properties/c/maxLength",
    }
    assert all("schema_third" in one["groups"] for one in found.values())
    text, _ = rendered(SCHEMA, representation)
    words = {"python": "max_length", "natural_language": "Maximum length"}
    offset = text.index(words.get(representation, "maxLength"))
    expected = ("first", "middle", "last")[3 * offset // len(text)]
    assert found["/properties/c/maxLength"]["groups"] == {"schema_third": expected}


@pytest.mark.parametrize("mode", ["strict", "paper"])
@pytest.mark.parametrize("output", ["json", "yaml"])
def test_what_is_broken_is_told_once_and_the_rest_is_kept(output: Format, mode: Mode) -> None:
    value = {"a": 1, "b": ["x", "y"], "c": "abcdef", "d": None}
    text = render(value, output)
    constraints = Constraints(SCHEMA, *rendered(SCHEMA, "json"))
    violations = validator(SCHEMA, mode=mode).violations(read(text, output, mode=mode))
    told = constraints.met(violations, value, text, output, mode)
    assert len(told) == len(constraints.found) - 1  # of contains, what is inside
    broken = {one["kind"]: one["groups"]["output_third"] for one in told if not one["passed"]}
    assert broken == {"minimum": "first", "maxLength": "last", "additionalProperties": "whole"}


def test_a_place_that_is_not_in_the_sample_is_unknown() -> None:
    assert sample_third("[1, 2]", "json", "/7", "strict") == "unknown"
    assert sample_third("[1, 2]", "json", "", "strict") == "whole"
    assert sample_third("<a><b>1</b><b2>1</b2><c>2</c></a>", "xml", "/c", "strict") == "last"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, {"/type"}),
        ({}, {"/type", "/required", "/additionalProperties"}),
        (
            {"a": "text", "c": 5},
            {"/type", "/required", "/additionalProperties", "/properties/a/type"}
            | {"/properties/c/type"},
        ),
        (
            {"b": [5]},
            {"/type", "/required", "/additionalProperties", "/properties/b/type"}
            | {"/properties/b/contains", "/properties/b/minContains"},
        ),
    ],
)
def test_constraints_that_bear_on_nothing_are_not_kept(value: object, expected: set[str]) -> None:
    assert set(applicable_keywords(SCHEMA, value)) == expected


def test_the_items_of_a_list_and_further_members() -> None:
    schema = {"items": {"minimum": 3}, "additionalProperties": {"maxLength": 2}}
    assert set(applicable_keywords(schema, [1, "x"])) == {"/items/minimum"}
    assert set(applicable_keywords(schema, {"a": "x"})) == {
        "/additionalProperties",
        "/additionalProperties/maxLength",
    }
