"""Tests for two conditions on the same units, and adjustments for many comparisons at once.

The paired t, McNemar's exact test, Cochran's Q, and the adjustments of Holm and of Benjamini
and Hochberg. Where nothing is known about the error of a difference, there is no p value.

>>> paired([3, 5, 4], [1, 2, 3]).mean
2.0
>>> holm([0.01, None, 0.04, 0.03])
[0.03, None, 0.06, 0.06]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np

from harness.analysis.clustered import ROUNDING, Estimate, clustered_mean

# SciPy is imported inside functions: it takes longer to load than the rest of the harness.


@dataclass(frozen=True, slots=True)
class Paired(Estimate):
    """A mean difference over pairs, and in how many of them the first value is larger.

    The error is None over fewer than two pairs, and where all differences are equal: that says
    nothing about the pairs that were not drawn.
    """

    n_more: int = 0


def paired(first: Sequence[float], second: Sequence[float]) -> Paired:
    """Compare two values pair by pair: the first minus the second.

    Student's t of the differences (Student 1908, "The Probable Error of a Mean", section IX). The
    pairs are taken as a sample of the units one wants to make a statement about.
    """
    differences = np.array([one - other for one, other in zip(first, second, strict=True)])
    found = clustered_mean(differences, np.arange(len(differences)))
    # Rounding errors grow with the values, which may exceed 1.
    rounding = ROUNDING * max(1.0, *map(abs, [*first, *second, 0.0]))
    stderr = found.stderr if found.stderr is not None and found.stderr > rounding else None
    n_more = int((differences > ROUNDING).sum())
    return Paired(found.mean, stderr, stderr, found.n, found.n_clusters, found.degrees, n_more)


def mcnemar(better: int, worse: int) -> float:
    """Two-sided exact p value of as many pairs getting better as worse.

    McNemar 1947, "Note on the Sampling Error of the Difference Between Correlated
    Proportions", with the binomial distribution of the discordant pairs. Valid only for
    independent pairs of single verdicts.
    """
    if not better + worse:
        return 1.0
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(better, worse), better + worse, 0.5)))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p values so that the chance of any false finding is controlled.

    Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure": of m values in
    ascending order, the i-th becomes the largest of (m - j + 1) * p_j for j up to i, at most
    1. Missing p values stay missing and do not count.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[place] = largest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p values so that the expected share of false findings is controlled.

    Benjamini and Hochberg 1995, "Controlling the False Discovery Rate". Missing p values stay
    missing and do not count.
    """
    from scipy.stats import false_discovery_control

    adjusted = iter(false_discovery_control([p for p in p_values if p is not None]).tolist())
    return [None if p is None else next(adjusted) for p in p_values]


def heterogeneity(effects: Sequence[float], stderrs: Sequence[float]) -> float | None:
    """p value of all units having the same effect; None for fewer than two units.

    Cochran's Q (Cochran 1954, "The Combination of Estimates from Different Experiments"):
    sum_i (e_i - m)^2 / s_i^2 around the mean m weighted by 1 / s_i^2, chi-squared with n - 1
    degrees of freedom.
    """
    if len(effects) < 2:
        return None
    from scipy.special import chdtrc

    weights = [1 / error**2 for error in stderrs]
    mean = fsum(w * e for w, e in zip(weights, effects, strict=True)) / fsum(weights)
    q = fsum(w * (e - mean) ** 2 for w, e in zip(weights, effects, strict=True))
    return float(chdtrc(len(effects) - 1, q))
