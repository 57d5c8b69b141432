"""How many instances a test or a bound needs, and which difference it detects in 80% of cases."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import ceil, comb, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from harness.analysis.distributions import binomial_cdf, t_quantile
from harness.analysis.p_values import ALPHA, mcnemar

POWER = 0.8

_EXACT = 60  # maximum expected number of discordant pairs for which the power is exact
_LARGEST = 120  # more discordant pairs are then practically impossible (7 standard deviations)
_Z = NormalDist().inv_cdf(1 - ALPHA / 2)
_STEPS = 20  # of bisection of a difference


@lru_cache(maxsize=1024)
def needed_verdicts(rate: float, bound: float, comparisons: int = 1) -> int:
    """Return how many independent verdicts tell a rate from a bound in 80% of cases.

    With so many verdicts, `share_interval` excludes the bound with at least this probability, and
    with one less it does not. The power may fall again as verdicts are added, because the number of
    successes that excludes the bound is a whole number.

    Args:
        rate: The true rate, which differs from the bound.
        bound: The bound.
        comparisons: The number of comparisons for which the interval is widened (Bonferroni).
    """
    if rate > bound:
        return needed_verdicts(1 - rate, 1 - bound, comparisons)

    def power(n: int) -> float:
        tail = ALPHA / 2 / comparisons
        too_many = _first(lambda successes: binomial_cdf(successes, n, bound) > tail, 0)
        return binomial_cdf(too_many - 1, n, rate) if too_many else 0.0

    return _first(lambda n: power(n) >= POWER, 1)


def needed_pairs(better: float, worse: float) -> int:
    """Return how many independent pairs of verdicts are significant in 80% of cases.

    The test is McNemar's exact test.

    Args:
        better: The share of pairs in which only the second verdict is a pass.
        worse: The share of pairs in which only the first one is, which differs from ``better``.
    """
    return _first(lambda pairs: _mcnemar_power(pairs, better, worse) >= POWER, 1)


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
    for _ in range(_STEPS):
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
    if pairs * changed > _EXACT:
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

    return _first(enough, ceil(2 * n / units))


def _first(holds: Callable[[int], bool], start: int) -> int:
    """Return a number for which a condition holds, but not for its predecessor, if any.

    If the condition is monotonic, this is the first number from ``start`` on for which it holds.
    """
    low = start - 1
    high = start
    while not holds(high):
        low = high
        high = 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
