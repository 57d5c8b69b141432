"""Measures with Kendall's tau-b how similarly two scorings rank runs, with p values.

The method is that of section 4.3 (figure 7b) and appendix D of Lior et al. 2025 (arXiv 2503.06573).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from math import erfc, sqrt

import numpy as np
from msgspec import Struct

from harness.analysis.comparison import Floats
from harness.analysis.run_comparison import counted_pairs, tau_b

MAX_ORDERED = 7  # runs up to which all orders (of 7 runs, 5,040) are compared
MAX_EXACT = 33  # runs up to which the p value without ties is exact; SciPy's limit too


def _p_value(first: Floats, second: Floats) -> float:
    """Return the two-sided p value of tau-b for at least three runs.

    For many runs, it is based on a normal distribution with the variance of Kendall 1970, "Rank
    Correlation Methods", section 4.
    """
    n, pairs = len(first), len(first) * (len(first) - 1) // 2
    if n <= MAX_ORDERED:
        # The normal distribution gives four tied runs half of the smallest possible p value.
        one, other = (np.sign(np.subtract.outer(values, values)) for values in (first, second))
        orders = np.array(list(permutations(range(n))))
        every = (one * other[orders[:, :, None], orders[:, None, :]]).sum(axis=(1, 2))
        return float(np.mean(abs(every) >= abs(every[0])))
    found, *untied = counted_pairs(first, second)
    if n <= MAX_EXACT and untied == [pairs, pairs]:
        share = np.ones(1)  # of all orders of m runs, by their number of discordant pairs
        for m in range(2, n + 1):
            share = np.convolve(share, np.full(m, 1 / m))
        return min(1.0, 2 * float(share[: (pairs - abs(found)) // 2 + 1].sum()))
    ties = [np.unique(values, return_counts=True)[1] for values in (first, second)]
    tied1, tied2 = (float((t * (t - 1)).sum()) for t in ties)
    triples1, triples2 = (float((t * (t - 1) * (t - 2)).sum()) for t in ties)
    less = sum(float((t * (t - 1) * (2 * t + 5)).sum()) for t in ties)
    variance = (
        (n * (n - 1) * (2 * n + 5) - less) / 18
        + tied1 * tied2 / (2 * n * (n - 1))
        + triples1 * triples2 / (9 * n * (n - 1) * (n - 2))
    )
    return erfc(abs(found) / sqrt(2 * variance))


class RankCorrelation(Struct, frozen=True, kw_only=True):
    """Kendall's tau-b of two scorings, over the runs that have a value in both."""

    tau_b: float | None  # None if all runs tie in a scoring
    p_value: float | None  # two-sided; null for fewer than three runs
    n_runs: int


def rank_correlation(values: Iterable[tuple[float | None, float | None]]) -> RankCorrelation:
    """Return Kendall's tau-b and its p value for the pairs in which neither value is None."""
    both = [(one, other) for one, other in values if one is not None and other is not None]
    # Sums in a different order differ in the last bits, which should not decide a rank.
    first, second = np.round(np.reshape(both, (-1, 2)), 12).T
    found = tau_b(first, second)
    p_value = None if found is None or len(both) < 3 else _p_value(first, second)
    return RankCorrelation(tau_b=found, p_value=p_value, n_runs=len(both))


class Tau(RankCorrelation, frozen=True, kw_only=True):
    """The rank correlation of two scorings, which are given by their indices."""

    first: int
    second: int
