"""Paired t and Cochran's Q against SciPy and sums by hand."""

import numpy as np
import pytest
import scipy
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.plugins.comparisons.strata import heterogeneity, paired

NUMBER = st.floats(-1, 1).map(lambda value: round(value, 6))
PAIRS = st.lists(st.tuples(NUMBER, NUMBER), min_size=2, max_size=20)


@given(PAIRS)
def test_is_scipys_paired_t(pairs: list[tuple[float, float]]) -> None:
    first, second = map(list, zip(*pairs, strict=True))
    assume(np.std(np.subtract(first, second)) > 1e-7)
    found, expected = paired(first, second), scipy.stats.ttest_rel(first, second)
    assert found.mean == pytest.approx(np.mean(np.subtract(first, second)), abs=1e-12)
    assert found.p_value == pytest.approx(expected.pvalue, abs=1e-9)
    assert found.clipped_ci95() == pytest.approx(
        tuple(expected.confidence_interval(0.95)), abs=1e-9
    )
    assert found.n_more == sum(one > other for one, other in pairs)


@given(PAIRS, st.integers(2, 50))
def test_several_intervals_are_bonferronis(pairs: list[tuple[float, float]], m: int) -> None:
    first, second = map(list, zip(*pairs, strict=True))
    assume(np.std(np.subtract(first, second)) > 1e-7)
    expected = scipy.stats.ttest_rel(first, second).confidence_interval(1 - 0.05 / m)
    assert paired(first, second).clipped_ci95(comparisons=m) == pytest.approx(
        tuple(expected), rel=1e-6, abs=1e-9
    )


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [([], [], None), ([0.75], [0.25], 0.5), ([0.5, 0.7, 0.3], [0.3, 0.5, 0.1], 0.2)],
)
def test_nothing_is_sure_where_nothing_varies(
    first: list[float], second: list[float], difference: float | None
) -> None:
    found = paired(first, second)
    assert found.mean == pytest.approx(difference)
    assert (found.clipped_ci95(), found.p_value) == (None, None)


def test_pairs_are_pairs() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired([1, 2], [1])


def test_heterogeneity_is_cochrans() -> None:
    effects, stderrs = np.array([0.1, 0.3, -0.2]), np.array([0.1, 0.05, 0.2])
    weights = 1 / stderrs**2
    q = float(np.sum(weights * (effects - np.average(effects, weights=weights)) ** 2))
    found = heterogeneity(list(effects), list(stderrs))
    assert found == pytest.approx(scipy.stats.chi2.sf(q, 2))
    assert found is not None
    assert found < 0.05
    assert heterogeneity([0.1, 0.1], [0.1, 0.2]) == pytest.approx(1.0)
    assert heterogeneity([0.1], [0.1]) is None
