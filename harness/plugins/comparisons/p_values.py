"""P values of discordant pairs and of several effects, and the sample sizes that tests need."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ceil, comb, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from harness.analysis.distributions import binomial_cdf, t_quantile

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
    ascending = _ascending(p_values)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(ascending):
        largest = max(largest, min(1.0, (len(ascending) - rank) * p))
        adjusted[place] = largest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p values adjusted to control the false discovery rate (Benjamini and Hochberg 1995).

    None remains None and is not counted.
    """
    ascending = _ascending(p_values)
    adjusted: list[float | None] = [None] * len(p_values)
    smallest = 1.0
    for rank in range(len(ascending), 0, -1):
        p, place = ascending[rank - 1]
        smallest = min(smallest, p * len(ascending) / rank)
        adjusted[place] = smallest
    return adjusted


def _ascending(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    """Return the p values that are not None in ascending order, each with its place."""
    return sorted((p, place) for place, p in enumerate(p_values) if p is not None)


POWER = 0.8

_EXACT_PAIRS = 60  # maximum expected number of discordant pairs for which the power is exact
_LARGEST = 120  # more discordant pairs are then practically impossible (7 standard deviations)
_Z = NormalDist().inv_cdf(1 - ALPHA / 2)
_BISECTIONS = 20  # of bisection of a difference


def needed_pairs(better: float, worse: float) -> int:
    """Return how many independent pairs of verdicts are significant in 80% of cases.

    The test is McNemar's exact test.

    Args:
        better: The share of pairs in which only the second verdict is a pass.
        worse: The share of pairs in which only the first one is, which differs from ``better``.
    """
    return first_integer(lambda pairs: _mcnemar_power(pairs, better, worse) >= POWER, 1)


def detectable_change(pairs: int, changed: float, observed: float = 0.0) -> float | None:
    """Return the least difference of rates for which McNemar's test is significant in 80% of cases.

    It is None if not even a difference of 1 is. As by a t test, the variance of the pairs'
    differences is assumed not to depend on their mean d. It is the share of discordant pairs minus
    d^2.

    Args:
        pairs: The number of independent pairs of verdicts.
        changed: The share of pairs whose verdicts differ.
        observed: The difference of the rates of these pairs.
    """

    def enough(difference: float) -> bool:
        share = min(1.0, max(difference, changed + difference**2 - observed**2))
        better = (share + difference) / 2
        return _mcnemar_power(pairs, better, share - better) >= POWER

    if not enough(1.0):
        return None
    low = 0.0
    high = 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


def _mcnemar_power(pairs: int, better: float, worse: float) -> float:
    """Return the probability that McNemar's exact test detects a difference in its true direction.

    If many discordant pairs are expected, this is the normal approximation with the continuity
    correction of Fleiss, Levin and Paik (2003, "Statistical Methods for Rates and Proportions",
    section 13.2), whose error is less than 0.015.
    """
    changed = better + worse
    difference = abs(better - worse)
    if pairs * changed > _EXACT_PAIRS:
        excess = pairs * difference - 1 - _Z * sqrt(pairs * changed)
        return NormalDist().cdf(excess / sqrt(pairs * max(changed - difference**2, 1e-12)))
    against = min(better, worse) / changed
    discordant = np.arange(_LARGEST + 1)
    odds = against / (1 - against)
    significant = _significant_ways() @ odds**discordant * (1 - against) ** discordant
    # The chance of so many discordant pairs is that of one less, times the ratio of the two.
    unchanged = max(1 - changed, 1e-12)
    ratios = np.maximum(pairs + 1 - discordant[1:], 1e-300) / discordant[1:] * changed / unchanged
    chances = np.exp(pairs * log(unchanged) + np.append(0.0, np.cumsum(np.log(ratios))))
    return float(chances @ significant)


@lru_cache(maxsize=1)
def _significant_ways() -> NDArray[np.float64]:
    """Return in how many ways w of d discordant pairs can be against a significant difference.

    Entry [d, w] is the binomial coefficient if McNemar's test is then significant, and otherwise 0.
    """
    ways = np.zeros((_LARGEST + 1, _LARGEST + 1))
    for discordant in range(_LARGEST + 1):
        against = 0
        while mcnemar(discordant - against, against) < ALPHA:
            ways[discordant, against] = comb(discordant, against)
            against += 1
    return ways


def reach(degrees: float, comparisons: int = 1) -> float:
    """Return the true difference, in standard errors, that is detected in 80% of cases.

    This is t(0.975) + t(0.8), the multiplier of Bloom (1995, "Minimum Detectable Effects",
    Evaluation Review 19) for a two-sided test at the 5% level.
    """
    return t_quantile(degrees, 1 - ALPHA / 2 / comparisons) + t_quantile(degrees, POWER)


def needed_instances(n: int, units: int, degrees: float, error: float, comparisons: int = 1) -> int:
    """Return how many instances would detect the observed difference in 80% of cases.

    This is the smallest number, with at least two clusters, for which `reach` standard errors are
    no more than the difference. The error is assumed to fall with the square root of the number of
    instances, and the number of clusters to grow in proportion to the number of instances. The
    degrees of freedom grow with the number of clusters only if all clusters have the same size.
    Otherwise, ``degrees`` remains the limit, because relative sizes stay the same.

    Args:
        n: The number of instances.
        units: Their number of clusters.
        degrees: The degrees of freedom of t.
        error: The standard error, divided by the difference.
        comparisons: The number of comparisons for which the test is corrected (Bonferroni).
    """
    equal = degrees >= units - 1

    def enough(size: int) -> bool:
        free = size * units / n - 1
        detected = reach(free if equal else min(free, degrees), comparisons)
        return detected * error * sqrt(n / size) <= 1

    return first_integer(enough, ceil(2 * n / units))


def first_integer(holds: Callable[[int], bool], start: int) -> int:
    """Return a number for which a condition holds, but not for its predecessor, if any.

    If the condition is monotonic, this is the first number from ``start`` on for which it holds.
    """
    low = start
    high = start
    while not holds(high):
        low = high + 1
        high = 2 * high + 1
    return low + bisect_left(range(low, high), True, key=holds)
