"""Quantiles of seconds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.summary import latencies


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_quantiles_are_in_order_and_hold_all(seconds: list[float]) -> None:
    found = latencies(iter(seconds))
    assert found is not None
    assert found.n == len(seconds)
    assert (found.quantiles[0], found.quantiles[100]) == (min(seconds), max(seconds))
    assert np.all(np.diff(found.quantiles) >= 0)
    assert found.median == pytest.approx(np.median(seconds))
    assert found.mean == pytest.approx(np.mean(seconds))


def test_no_call_has_none() -> None:
    assert latencies([]) is None
