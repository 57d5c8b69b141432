import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.store.columns import group_rows


@given(st.lists(st.integers(-1, 4), max_size=30), st.integers(0, 5))
def test_rows_are_those_that_have_the_number(codes: list[int], n: int) -> None:
    expected = {
        number: rows
        for number in range(n)
        if (rows := [row for row, code in enumerate(codes) if code == number])
    }
    found = {number: rows.tolist() for number, rows in group_rows(np.array(codes, np.intp), n)}
    assert found == expected
    assert list(found) == sorted(found)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_rows_are_as_narrow_as_columns_are(kind: type[np.integer]) -> None:
    ((number, rows),) = group_rows(np.array([1, 1], kind), 2)
    assert (number, rows.dtype) == (1, np.int32)
