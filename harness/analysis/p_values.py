"""P values of discordant pairs and of several effects, and the adjustment of p values."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

import numpy as np
from numpy.typing import NDArray

from harness.analysis.distributions import binomial_cdf, chi_squared_tail

ALPHA = 0.05  # significance level

_MOST_FLIPPED = 16  # clusters; 65,536 sums


def mcnemar(better: int, worse: int) -> float:
    """Return the exact two-sided p value of McNemar's test for the counts of discordant pairs.

    The test (McNemar 1947, "Note on the Sampling Error of the Difference Between Correlated
    Proportions") is valid only for independent pairs.
    """
    if not better + worse:
        return 1.0
    return min(1.0, 2 * binomial_cdf(min(better, worse), better + worse))


def sign_flips(totals: NDArray[np.float64]) -> float:
    """Return the exact two-sided p value of the hypothesis that the signs of totals are random.

    If two runs answer equally well, they can be swapped in each cluster, which changes the sign of
    its total difference (Fisher 1935, "The Design of Experiments", section 21). Totals of 0 are
    ignored. For more than `_MOST_FLIPPED` others of different sizes, p is 0.0, because the t test
    is then reliable.
    """
    totals = totals[totals != 0]
    sizes = np.abs(totals)
    if not len(sizes) or sizes.max() - sizes.min() <= 1e-9 * sizes.max():
        positive = int((totals > 0).sum())
        return mcnemar(positive, len(totals) - positive)
    if len(sizes) > _MOST_FLIPPED:
        return 0.0
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums + size, sums - size])
    return float((np.abs(sums) >= abs(totals.sum()) - 1e-9 * sizes.max()).mean())


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p values adjusted to control the probability of any false finding.

    Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure": of m values in ascending
    order, the i-th becomes the maximum of (m - j + 1) * p_j for j up to i, at most 1. None remains
    None and is not counted.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[place] = largest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p values adjusted to control the false discovery rate (Benjamini and Hochberg 1995).

    None remains None and is not counted.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    smallest = 1.0
    for rank, (p, place) in reversed(list(enumerate(known, 1))):
        smallest = min(smallest, p * len(known) / rank)
        adjusted[place] = smallest
    return adjusted


def heterogeneity(effects: Sequence[float], stderrs: Sequence[float]) -> float | None:
    """Return the p value of the hypothesis that all effects are equal, or None for fewer than two.

    The statistic is Cochran's Q (1954, "The Combination of Estimates from Different Experiments").
    """
    if len(effects) < 2:
        return None
    weights = [1 / error**2 for error in stderrs]
    mean = fsum(w * e for w, e in zip(weights, effects, strict=True)) / fsum(weights)
    q = fsum(w * (e - mean) ** 2 for w, e in zip(weights, effects, strict=True))
    return chi_squared_tail(len(effects) - 1, q)
