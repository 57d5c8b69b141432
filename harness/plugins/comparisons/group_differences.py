"""Differences between the means of groups: a paired t test, and the homogeneity of effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, inf

import numpy as np

from harness.analysis.clustered import ROUNDING, Estimate, clustered_mean
from harness.analysis.distributions import chi_squared_tail
from harness.analysis.metrics import Interval


@dataclass(frozen=True, slots=True)
class Paired(Estimate):
    """The mean difference of pairs, without a standard error if all differences are equal."""

    n_more: int = 0  # pairs in which the first value is larger
    limit: float = inf  # of a difference: 1 if all values are between 0 and 1

    def difference_ci95(self, comparisons: int = 1) -> Interval | None:
        """Return the t interval of `clipped_ci95`, clipped to the differences that are possible."""
        return self.clipped_ci95(-self.limit, self.limit, comparisons)


def paired(first: Sequence[float], second: Sequence[float]) -> Paired:
    """Return the mean of ``first`` minus ``second`` and its standard error for a paired t test."""
    differences = np.array([x - y for x, y in zip(first, second, strict=True)])
    mean = clustered_mean(differences, np.arange(len(differences)))
    # Rounding errors grow with the values, which may exceed 1.
    rounding = ROUNDING * max(1.0, *map(abs, [*first, *second, 0.0]))
    stderr = mean.stderr if mean.stderr is not None and mean.stderr > rounding else None
    n_more = int((differences > ROUNDING).sum())
    limit = 1.0 if all(0 <= value <= 1 for value in (*first, *second)) else inf
    size = (mean.n, mean.n_clusters, mean.degrees)
    return Paired(mean.mean, stderr, stderr, *size, n_more=n_more, limit=limit)


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
