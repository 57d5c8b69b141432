"""Bounds on values: one value beyond them among others is enough."""

from typing import Any

import pytest

from harness.scoring.validators.limits import DEEPEST, UnparseableDocument, check_size


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value, "beside"]
    return value


@pytest.mark.parametrize("value", [[1, 10**5000], {"a": "b", "c": 10**5000}, nested(DEEPEST + 2)])
def test_one_value_beyond_the_bounds_is_refused(value: Any) -> None:
    with pytest.raises(UnparseableDocument):
        check_size(value)


def test_the_size_is_the_number_of_values() -> None:
    assert check_size([1, {"a": 10**100}, "b"]) == 5
