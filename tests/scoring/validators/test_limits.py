"""Bounds on values: one value beyond them among others is enough."""

from decimal import Decimal
from typing import Any

import pytest

from harness.scoring.validators.limits import (
    MAX_DEPTH,
    UnparseableDocument,
    check_size,
    parse_decimal,
    read,
    resolve_fragment,
)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value, "beside"]
    return value


@pytest.mark.parametrize("value", [[1, 10**5000], {"a": "b", "c": 10**5000}, nested(MAX_DEPTH + 2)])
def test_one_value_beyond_the_bounds_is_refused(value: Any) -> None:
    with pytest.raises(UnparseableDocument):
        check_size(value)


def test_the_size_is_the_number_of_values() -> None:
    assert check_size([1, {"a": 10**100}, "b"]) == 5


@pytest.mark.parametrize(
    "text", ['["a", "\\ud83d"]', '{"a": "\\ud83d", "b": "c"}', '{"\\udc00": "a"}']
)
def test_half_of_a_character_among_other_texts_is_refused(text: str) -> None:
    with pytest.raises(UnparseableDocument, match="half of a surrogate pair"):
        read(text)


@pytest.mark.parametrize("sign", ["", "-"])
def test_an_exponent_may_be_a_thousand_and_no_more(sign: str) -> None:
    assert parse_decimal(f"1e{sign}1000") == Decimal(10) ** int(f"{sign}1000")
    with pytest.raises(UnparseableDocument, match="exponent beyond 1,000"):
        parse_decimal(f"1e{sign}1001")


def test_zeros_before_an_exponent_do_not_make_it_larger() -> None:
    assert parse_decimal("1e0000001") == 10


@pytest.mark.parametrize(
    ("fragment", "path"),
    [
        ("/prefixItems/0", ("prefixItems", 0)),
        ("/prefixItems/1", ("prefixItems", 1)),
        ("/prefixItems/2", None),
        ("/prefixItems/-1", None),
        ("/prefixItems/x", None),
        ("/items", None),
    ],
)
def test_a_fragment_beyond_a_list_points_to_nothing(
    fragment: str, path: tuple[str | int, ...] | None
) -> None:
    found = resolve_fragment(fragment, {"prefixItems": [{"const": 1}, {"const": 2}]})
    assert (found and found[0]) == path
