import re
from itertools import islice
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.plugins.benchmarks.concodeeval.python import RESERVED
from harness.plugins.benchmarks.concodeeval.schema import keywords
from harness.plugins.builders.concodeeval import drawn, violating
from harness.plugins.builders.concodeeval.values import (
    FORMATS,
    INVALID,
    LONG,
    PATTERNS,
    WORDS,
    NoInstanceError,
    allowed,
    beyond,
    form,
    hundredths,
    measured,
    no_multiples,
    number,
    string,
    valid,
    violating_strings,
)
from harness.plugins.builders.draws import Draws
from harness.scoring.validators import Violation, validator
from tests.plugins.builders.concodeeval.drawn import SEEDS, generated

HUNDREDTHS = st.integers(0, 10_000).map(number)
BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
numeric = st.fixed_dictionaries(
    {"type": st.sampled_from(["number", "integer"])},
    optional={"multipleOf": HUNDREDTHS.filter(bool)} | dict.fromkeys(BOUNDS, HUNDREDTHS),
)


@pytest.mark.parametrize(
    ("schema", "first", "last"),
    [
        ({"minimum": 0, "maximum": 10}, 0, 10),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 10}, 0.01, 9.99),
        ({"multipleOf": 5.88, "exclusiveMinimum": 0, "exclusiveMaximum": 17.64}, 5.88, 11.76),
        ({"multipleOf": 5.88, "minimum": 5.88, "maximum": 17.64}, 5.88, 17.64),
        ({"type": "integer", "exclusiveMinimum": 1.5, "exclusiveMaximum": 4}, 2, 3),
        ({"type": "integer", "multipleOf": 6.75, "minimum": 1, "maximum": 54}, 27, 54),
    ],
)
def test_ends(schema: dict[str, Any], first: float, last: float) -> None:
    found = allowed(schema)
    assert (number(found[0]), number(found[-1])) == (first, last)


def test_no_number() -> None:
    assert not allowed({"multipleOf": 7, "exclusiveMinimum": 0, "exclusiveMaximum": 7})


def test_an_exclusive_bound_is_broken_by_itself_first() -> None:
    assert beyond({"exclusiveMaximum": 10}, "exclusiveMaximum", Draws(0))[0] == 10
    assert beyond({"exclusiveMinimum": 2}, "exclusiveMinimum", Draws(0))[0] == 2
    assert 10.01 in beyond({"maximum": 10}, "maximum", Draws(0))


@given(schema=numeric, seed=st.integers(0, 999))
@settings(max_examples=200, deadline=None)
def test_numbers_of_a_range_are_valid(schema: dict[str, Any], seed: int) -> None:
    found = allowed(schema)
    strict = validator(schema)
    if not found:
        return
    for value in (found[0], found[-1], Draws(seed).choice(found)):
        assert hundredths(number(value)) == value  # said exactly
        assert not strict.violations(number(value)), value


@given(schema=numeric, seed=st.integers(0, 999))
@settings(max_examples=200, deadline=None)
def test_numbers_beyond_are_not(schema: dict[str, Any], seed: int) -> None:
    def broken(value: float) -> set[str]:
        return {found.keyword for found in validator(schema).violations(value)}

    for keyword in schema.keys() & set(BOUNDS):
        for value in beyond(schema, keyword, Draws(seed))[2:]:  # two may still be allowed
            assert keyword in broken(value)
            assert "multipleOf" not in broken(value)
    if "multipleOf" in schema:
        for value in no_multiples(schema, Draws(seed)):
            assert broken(value) <= {"multipleOf", *BOUNDS}


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


def violated(schema: dict[str, Any], path: str, seed: int = 0) -> tuple[Any, Violation] | None:
    """The first instance that violates the keyword at this place of the schema."""
    found = violating(schema, Draws(seed), validator(schema))
    return next((one for one in found if one[1].schema_path == path), None)


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
def test_a_keyword_is_violated_alone(schema: dict[str, Any], place: str) -> None:
    found = violated(schema, place)
    assert found is not None
    value, violation = found
    (error,) = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    ).iter_errors(value)
    assert violation.schema_path == place
    keywords = list(error.absolute_schema_path)
    if place in ("/minContains", "/maxContains"):  # the Python validator names `contains` of both
        assert keywords == ["contains"]
    else:
        tokens = place[1:].split("/")
        assert keywords == [token.replace("~1", "/").replace("~0", "~") for token in tokens]


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "string", "minLength": 0}, "/minLength"),
        ({"type": "array", "contains": {}, "minContains": 0}, "/minContains"),
        ({"type": "array", "contains": {"type": "null"}, "minContains": 2}, "/contains"),
        ({"type": "array", "minContains": 2}, "/minContains"),
        ({"type": "object", "required": []}, "/required"),
        ({"type": "string", "const": "a"}, "/type"),
        ({"type": "string", "format": "uuid", "maxLength": 36}, "/maxLength"),
        ({"type": "string", "format": "uuid", "maxLength": 9}, "/format"),
    ],
)
def test_what_cannot_be_violated_alone(schema: dict[str, Any], place: str) -> None:
    assert violated(schema, place) is None


def test_keywords_that_only_hold_others_are_not_violated() -> None:
    schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": True}
    found = violating(schema, Draws(0), validator(schema))
    assert {one.keyword for _, one in found} == {"type"}


def test_a_bound_violates_itself() -> None:
    for keyword in ("exclusiveMaximum", "exclusiveMinimum"):
        found = violated({"type": "number", keyword: 10}, f"/{keyword}")
        assert found is not None
        assert found[0] == 10


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
@settings(max_examples=60, deadline=None)
def test_instances_of_the_generators_schemas(schema: dict[str, Any], seed: int) -> None:
    draws, strict = Draws(seed, "sample"), validator(schema)
    try:
        values = [valid(schema, draws, strict) for _ in range(3)]
    except NoInstanceError:
        return  # the generator leaves such a schema out
    assert not any(strict.violations(value) for value in values)
    for value, violation in islice(violating(schema, draws, strict), 5):
        assert list(strict.violations(value)) == [violation]


def test_most_keywords_are_violated() -> None:
    tried = found = 0
    for seed in range(30):
        schema = drawn("object", 10, "paper", Draws(seed, "share"))
        broken = {one.schema_path for _, one in violating(schema, Draws(seed), validator(schema))}
        places = {
            place
            for place, keyword, value in keywords(schema)
            if keyword not in ("properties", "items")
            if (keyword, value) not in (("additionalProperties", True), ("minLength", 0))
            if "/contains/" not in place
        }
        tried += len(places)
        found += len(places & broken)
    assert found / tried > 0.9
