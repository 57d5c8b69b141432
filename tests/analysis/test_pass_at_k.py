"""pass@k and pass^k against the enumeration of every choice of k samples."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.summary import pass_at_k, pass_hat_k


@given(st.lists(st.booleans(), min_size=1, max_size=9))
def test_is_the_share_of_choices_with_a_pass(verdicts: list[bool]) -> None:
    n = len(verdicts)
    for k, (estimate,) in enumerate(
        pass_at_k(np.array([n]), np.array([sum(verdicts)]), n), start=1
    ):
        choices = list(combinations(verdicts, k))
        assert estimate == pytest.approx(sum(map(any, choices)) / len(choices), abs=1e-12)


@given(st.lists(st.booleans(), min_size=1, max_size=9))
def test_pass_hat_is_the_share_of_choices_without_a_failure(verdicts: list[bool]) -> None:
    n = len(verdicts)
    columns = pass_hat_k(np.array([n]), np.array([sum(verdicts)]), n)
    for k, (estimate,) in enumerate(columns, start=1):
        choices = list(combinations(verdicts, k))
        assert estimate == pytest.approx(sum(map(all, choices)) / len(choices), abs=1e-12)


def test_columns_may_be_kept() -> None:
    kept = list(pass_hat_k(np.array([2]), np.array([1]), 2))
    assert np.array(kept).ravel() == pytest.approx([0.5, 0.0])


def test_each_instance_on_its_own() -> None:
    estimates = list(pass_at_k(np.array([4, 2, 3]), np.array([1, 0, 3]), 2))
    assert np.array(estimates) == pytest.approx(np.array([[0.25, 0, 1], [0.5, 0, 1]]))


@given(st.integers(1, 100_000), st.data())
def test_many_samples_neither_overflow_nor_leave_the_unit_interval(
    n: int, data: st.DataObject
) -> None:
    passed = data.draw(st.integers(0, n))
    estimates = np.concatenate(list(pass_at_k(np.array([n]), np.array([passed]), min(n, 500))))
    assert np.all((estimates >= 0) & (estimates <= 1))
    assert np.all(np.diff(estimates) >= 0)
    assert estimates[0] == pytest.approx(passed / n)


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="k = 3 needs 3 samples"):
        list(pass_at_k(np.array([5, 2]), np.array([1, 1]), 3))
