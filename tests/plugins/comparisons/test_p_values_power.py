"""The stated power of McNemar's test, by SciPy's distributions."""

import numpy as np
import pytest
import scipy

from harness.plugins.comparisons.p_values import detectable_change, mcnemar, needed_pairs


def mcnemar_power(pairs: int, better: float, worse: float) -> float:
    """The probability that the test is significant, over all numbers of discordant pairs."""
    power = 0.0
    for discordant in range(1, pairs + 1):
        likely = scipy.stats.binom.pmf(discordant, pairs, better + worse)
        if likely < 1e-9:
            continue
        gains = np.arange(discordant + 1)
        significant = [mcnemar(gain, discordant - gain) < 0.05 for gain in range(discordant + 1)]
        shares = scipy.stats.binom.pmf(gains, discordant, better / (better + worse))
        power += likely * float(shares[significant].sum())
    return power


@pytest.mark.parametrize(
    ("better", "worse"),
    [(0.3, 0.1), (0.05, 0.0), (0.02, 0.01), (0.4, 0.3), (0.1, 0.15), (0.9, 0.1), (1.0, 0.0)],
)
def test_the_needed_pairs_have_the_stated_power(better: float, worse: float) -> None:
    n = needed_pairs(better, worse)
    assert mcnemar_power(n, better, worse) >= 0.79
    assert mcnemar_power(n - 1, better, worse) < 0.81
    assert mcnemar_power(round(0.9 * n - 1), better, worse) < 0.8


@pytest.mark.parametrize(
    ("pairs", "changed", "observed"),
    [(12, 0.5, 0.5), (40, 0.2, 0.0), (100, 0.0, 0.0), (100, 0.3, 0.2), (1_000, 0.02, 0.01)],
)
def test_the_detectable_change_has_the_stated_power(
    pairs: int, changed: float, observed: float
) -> None:
    """The variance of the differences is that of the observed ones."""
    difference = detectable_change(pairs, changed, observed)
    assert difference is not None
    discordant = max(difference, changed - observed**2 + difference**2)
    better = (discordant + difference) / 2
    assert mcnemar_power(pairs, better, discordant - better) == pytest.approx(0.8, abs=0.015)


def test_a_test_that_is_never_significant_detects_nothing() -> None:
    assert detectable_change(5, 0.2) is None
    assert detectable_change(6, 0.2) is not None  # the p value of 6 to 0 is 0.03
