"""The stated power of bounds, by SciPy's distributions."""

import numpy as np
import pytest
import scipy

from harness.plugins.gate.decision import needed_verdicts


@pytest.mark.parametrize(
    ("rate", "bound", "comparisons"),
    [(0.45, 0.5, 1), (0.6, 0.5, 1), (0.97, 0.99, 1), (1.0, 0.95, 1), (0.85, 0.9, 4)],
)
def test_the_needed_verdicts_have_the_stated_power(
    rate: float, bound: float, comparisons: int
) -> None:
    def power(n: int) -> float:
        passed = np.arange(n + 1)
        tail = 0.025 / comparisons
        if rate < bound:
            excluded = scipy.stats.beta.ppf(1 - tail, passed + 1, n - passed) < bound
        else:
            excluded = scipy.stats.beta.ppf(tail, passed, n - passed + 1) > bound
        return float(scipy.stats.binom.pmf(passed, n, rate)[excluded].sum())

    n = needed_verdicts(rate, bound, comparisons)
    assert power(n) >= 0.8
    assert power(n - 1) < 0.8
    assert all(power(more) > 0.79 for more in range(n, n + 40))
