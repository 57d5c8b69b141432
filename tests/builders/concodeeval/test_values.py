from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.builders.concodeeval.values import allowed, beyond, hundredths, no_multiples, number
from harness.builders.draws import Draws
from harness.scoring.validators import validator

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
