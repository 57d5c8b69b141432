from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.builders.concodeeval.values import (
    Range,
    decimal,
    no_multiples,
    number,
    numbers_beyond,
)
from harness.builders.draws import Draws
from harness.scoring.validators import validator

CENTS = st.integers(0, 10_000).map(lambda cents: number(Decimal(cents) / 100))
BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
numeric = st.fixed_dictionaries(
    {"type": st.sampled_from(["number", "integer"])},
    optional={"multipleOf": CENTS.filter(bool)} | dict.fromkeys(BOUNDS, CENTS),
)


@pytest.mark.parametrize(
    ("schema", "first", "last"),
    [
        ({"minimum": 0, "maximum": 10}, "0", "10"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 10}, "0.01", "9.99"),
        ({"multipleOf": 5.88, "exclusiveMinimum": 0, "exclusiveMaximum": 17.64}, "5.88", "11.76"),
        ({"multipleOf": 5.88, "minimum": 5.88, "maximum": 17.64}, "5.88", "17.64"),
        ({"type": "integer", "exclusiveMinimum": 1.5, "exclusiveMaximum": 4}, "2", "3"),
        ({"type": "integer", "multipleOf": 6.75, "minimum": 1, "maximum": 54}, "27", "54"),
    ],
)
def test_ends(schema: dict[str, Any], first: str, last: str) -> None:
    assert Range.of(schema).ends() == [Decimal(first), Decimal(last)]


def test_no_number() -> None:
    assert Range.of({"multipleOf": 7, "exclusiveMinimum": 0, "exclusiveMaximum": 7}).empty


def test_an_exclusive_bound_is_broken_by_itself_first() -> None:
    assert numbers_beyond({"exclusiveMaximum": 10}, "exclusiveMaximum", Draws(0))[0] == 10
    assert numbers_beyond({"exclusiveMinimum": 2}, "exclusiveMinimum", Draws(0))[0] == 2
    assert numbers_beyond({"maximum": 10}, "maximum", Draws(0))[0] == Decimal("10.01")


@given(schema=numeric, seed=st.integers(0, 999))
@settings(max_examples=200, deadline=None)
def test_numbers_of_a_range_are_valid(schema: dict[str, Any], seed: int) -> None:
    allowed = Range.of(schema)
    strict = validator(schema)
    if allowed.empty:
        return
    for value in (*allowed.ends(), allowed.draw(Draws(seed))):
        assert decimal(number(value)) == value  # said exactly
        assert not strict.violations(number(value)), value


@given(schema=numeric, seed=st.integers(0, 999))
@settings(max_examples=200, deadline=None)
def test_numbers_beyond_are_not(schema: dict[str, Any], seed: int) -> None:
    for keyword in schema.keys() & set(BOUNDS):
        for value in numbers_beyond(schema, keyword, Draws(seed)):
            broken = {found.keyword for found in validator(schema).violations(number(value))}
            assert keyword in broken
    if "multipleOf" in schema:
        for value in no_multiples(schema, Draws(seed)):
            assert {"multipleOf"} == {
                found.keyword for found in validator(schema).violations(number(value))
            }
