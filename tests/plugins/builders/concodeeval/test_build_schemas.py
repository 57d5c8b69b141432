"""The full set of schemas, as many and of such shapes as the paper has."""

import functools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from harness.errors import ConfigError
from harness.plugins.benchmarks.concodeeval.schema import keywords
from harness.plugins.builders.concodeeval import BuiltSchema, generate
from harness.plugins.builders.concodeeval.values import FORMATS, valid
from harness.plugins.builders.draws import Draws
from harness.scoring.validators import validator

PAPER = {
    "type", "properties", "required", "additionalProperties", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "format",
    "items", "contains", "minContains",
}  # fmt: skip
EXTENSION = {"const", "enum", "pattern", "maxContains", "minItems", "maxItems", "uniqueItems"}

VOCABULARIES = ("paper", "extended")


@functools.cache
def built(vocabulary: str) -> list[BuiltSchema]:
    return list(generate(0, vocabulary=vocabulary))


def used(rows: list[BuiltSchema]) -> Counter[str]:
    return Counter(keyword for row in rows for _, keyword, _ in keywords(row.schema))


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """The schema and all schemas in it."""
    if isinstance(schema, dict):
        yield schema
        for key in ("items", "contains", "additionalProperties"):
            yield from parts(schema.get(key))
        for inner in schema.get("properties", {}).values():
            yield from parts(inner)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_602_as_in_the_paper(vocabulary: str) -> None:
    rows = built(vocabulary)
    assert Counter(row.root for row in rows) == {
        "number": 150, "string": 150, "array": 150, "object": 150, "boolean": 1, "null": 1,
    }  # fmt: skip
    assert set(Counter((row.root, row.range) for row in rows if row.range).values()) == {50}
    assert {row.range for row in rows} == {(0, 10), (0, 50), (0, 100), None}
    assert all(row.schema["type"] == row.root for row in rows)
    assert len({row.id for row in rows}) == 602
    assert {"string_0_100_i_15", "composite_0_100_array_i_1"} <= {row.id for row in rows}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_no_two_are_alike_and_each_has_an_instance(vocabulary: str) -> None:
    rows = built(vocabulary)
    assert len({json.dumps(row.schema, sort_keys=True) for row in rows}) == 602
    for row in rows:
        for part in parts(row.schema):
            assert not validator(part).violations(valid(part, Draws(1, row.id)))


def test_the_vocabularies() -> None:
    assert set(used(built("paper"))) == PAPER
    assert set(used(built("extended"))) == PAPER | EXTENSION


def test_deeper_only_in_the_extension() -> None:
    def composites(schema: dict[str, Any], above: int = 0) -> int:
        """How many arrays and objects stand within each other."""
        own = above + (schema.get("type") in ("array", "object"))
        inner = [part for part in parts(schema) if part is not schema]
        return max((composites(part, own) for part in inner), default=own)

    assert {composites(row.schema) for row in built("paper")} == {0, 1, 2}
    assert {composites(row.schema) for row in built("extended")} == {0, 1, 2, 3}


def test_the_scalars_have_the_recorded_shape() -> None:
    """The recorded 300: 128 of 150 numbers have multipleOf, 138 of 150 strings a format."""
    numbers = [row.schema for row in built("paper") if row.root == "number"]
    strings = [row.schema for row in built("paper") if row.root == "string"]
    assert 115 <= sum("multipleOf" in schema for schema in numbers) <= 140
    assert 125 <= sum("format" in schema for schema in strings) <= 147
    assert {schema.get("format") for schema in strings} - {None} == set(FORMATS)
    for row in built("paper"):
        high = row.range[1] if row.range else 0
        if row.root == "number":
            assert {row.schema[key] for key in row.schema if key.endswith("inimum")} <= {0}
            assert {row.schema[key] for key in row.schema if key.endswith("aximum")} <= {high}
            assert 0 < row.schema.get("multipleOf", high) <= high
        if row.root == "string":
            assert row.schema.get("maxLength", high) <= high
            assert row.schema.get("minLength", 0) <= high // 2


def test_required_names_are_properties_in_their_order() -> None:
    for row in built("paper"):
        if "required" in row.schema:
            names = list(row.schema["properties"])
            assert row.schema["required"] == sorted(row.schema["required"], key=names.index)


def test_one_schema_does_not_move_another() -> None:
    few = [row for row in generate(0, per_range=3) if row.range]
    whole = {row.id: row.schema for row in built("paper")}
    assert [row.schema for row in few] == [whole[row.id] for row in few]


def test_too_many_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"1 draws gave no further \w+ schema of the"):
        list(generate(0, per_range=200, attempts=1))
