"""P values of Kendall's tau-b against SciPy's."""

import pytest
import scipy
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.plugins.comparisons.pair_matrix import MAX_ORDERED, rank_correlation
from tests.plugins.comparisons.test_run_comparison_ranking import RANKED

ORDERS = st.integers(MAX_ORDERED + 1, 40).flatmap(lambda n: st.permutations(range(n)))


@given(RANKED | ORDERS.map(lambda order: list(enumerate(order))))
def test_p_value_is_scipys_except_for_few(rows: list[tuple[int, int]]) -> None:
    assume(len(rows) > MAX_ORDERED)
    found, expected = rank_correlation(rows), scipy.stats.kendalltau(*zip(*rows, strict=True))
    wanted = None if found.tau_b is None else pytest.approx(expected.pvalue, rel=1e-9)
    assert found.p_value == wanted


def test_the_rounding_error_of_a_sum_does_not_break_a_tie() -> None:
    sums = [0.1 + 0.2, 0.3, 0.5, 0.1, 0.7]
    assert sums[0] > sums[1]
    others = [1.0, 2.0, 3.0, 0.0, 4.0]
    correlation = rank_correlation(zip(sums, others, strict=True))
    expected = scipy.stats.kendalltau([0.3, 0.3, 0.5, 0.1, 0.7], others)
    assert correlation.tau_b == pytest.approx(expected.statistic)
    assert correlation.tau_b != pytest.approx(scipy.stats.kendalltau(sums, others).statistic)
