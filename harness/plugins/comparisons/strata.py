"""Means over groups of equal weight, their differences, and statistical units that are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.analysis.clustered import (
    ROUNDING,
    Estimate,
    clustered_mean,
    clustered_means,
    informative_degrees,
    kish_size,
)
from harness.analysis.distributions import chi_squared_tail
from harness.analysis.metrics import Interval

# Clusters below which a group's own variance is too uncertain, and below which that of a group
# whose clusters agree is (`mean_of_groups`).
FEWEST = 6
SMALL_GROUP = 20


def mean_of_groups(
    values: NDArray[Any], clusters: NDArray[Any], group: NDArray[np.integer]
) -> Estimate:
    """Estimate the mean over groups, each with equal weight, of the means of their values.

    The groups are fixed, and clusters are sampled within them (strata). The variance is the sum of
    the squares of the clusters' influences on the mean, with the factor m / (m - 1) in a group of m
    clusters. If no cluster is in several of the G groups, this is the sum of the groups' variances
    over G^2. The degrees of freedom are those of a sum of variances v with f degrees each (Welch
    1947, Biometrika 34), sum(v)^2 / sum(v^2 / (f + 2)) - 2. Groups that share clusters form one
    term of the sums, with the degrees of the group that has the fewest.

    A few clusters may agree by chance, and a group of them would then seem free of error. If groups
    with fewer than `SMALL_GROUP` clusters, none of which is in another group, have less variance in
    total than by the variance of a cluster pooled over all such groups, large and small, that is
    used instead, with its degrees. It changes nothing if all groups are small and of equal size.

    The variance of a group with a single cluster is unknown. Such groups are pooled, and centred at
    the mean over all groups (as by "adjust" in R's survey package), which is conservative. If every
    group is one whole cluster, this treats the groups as a random sample, with G - 1 degrees.

    Args:
        values: (n,) The values.
        clusters: (n,) The indices of the values' clusters.
        group: (n,) The indices of the values' groups.
    """
    clusters = np.unique(clusters, return_inverse=True)[1]
    _, first_value, group = np.unique(group, return_index=True, return_inverse=True)
    keys, unit = np.unique(group << 32 | clusters, return_inverse=True)
    strata = list(clustered_means(values, unit, keys >> 32).values())
    means = np.array([estimate.mean for estimate in strata])
    mean = float(means.mean())
    n = len(values)
    n_clusters = int(clusters.max()) + 1
    if n_clusters < 2:
        return Estimate(mean, n=n, n_clusters=n_clusters)
    single = np.array([estimate.n_clusters == 1 for estimate in strata])
    pooled = single[group]
    single_clusters = (keys & 0xFFFFFFFF)[single[keys >> 32]]
    strata.append(clustered_mean(means[single], single_clusters))
    m = np.array([estimate.n_clusters or 1 for estimate in strata])
    degrees = np.array([estimate.degrees or 1 for estimate in strata])
    stratum = np.where(pooled, len(single), group)
    centre = np.where(pooled, mean, means[group])
    sizes = np.bincount(group)[group]
    weights = 1 / sizes
    factor = np.sqrt(m / np.maximum(m - 1, 1))
    influence = (values - centre) / sizes
    influence *= factor[stratum] / len(single)
    term = merged(stratum, clusters)
    of_cluster = np.zeros(n_clusters, np.intp)
    of_cluster[clusters] = term
    squares = np.square(np.bincount(clusters, influence))
    v = np.bincount(of_cluster, squares)
    f = np.full(len(v), inf)
    np.minimum.at(f, term, degrees[stratum])
    separate = np.bincount(term[first_value]) == 1  # neither merged nor the pooled single clusters
    v, f = _with_borrowed(v, f, np.bincount(of_cluster), separate)
    free = f.sum()
    if v.any():
        free = v.sum() ** 2 / (v**2 / (f + 2)).sum() - 2
    largest = inf
    if np.isin(values, (0, 1)).all():
        largest = kish_size(np.arange(n), weights)
    informative = informative_degrees(squares, np.zeros(1, np.intp))
    return Estimate(
        mean,
        stderr=sqrt(v.sum()),
        n=n,
        n_clusters=n_clusters,
        degrees=float(np.clip(free, f.min(), f.sum())),
        informative_degrees=float(informative[0]),
        kish_n=kish_size(clusters, weights),
        max_effective_n=largest,
    )


def _with_borrowed(
    v: NDArray[Any], f: NDArray[Any], size: NDArray[np.integer], separate: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return variances and degrees, those of small groups replaced by the pooled one if greater.

    Args:
        v: (g,) The variances of groups.
        f: (g,) Their degrees of freedom.
        size: (g,) Their numbers of clusters.
        separate: (g,) Whether a group shares no cluster with another one.
    """
    donor_degrees = np.where(separate & (size > 1), f, 0)
    small = separate & (size < np.where(v > 0, FEWEST, SMALL_GROUP))
    if not (donor_degrees.any() and small.any()):
        return v, f
    pooled = (v * size * donor_degrees).sum() / donor_degrees.sum()
    borrowed = (pooled / size[small]).sum()
    if borrowed <= v[small].sum() * (1 + 1e-9):
        return v, f
    return np.append(v[~small], borrowed), np.append(f[~small], donor_degrees.sum())


def merged(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Return n values' units, merged so that values that share a unit in either stay together."""
    if len(first) == 0:
        return first
    unit = first.copy()
    before = second
    while (unit != before).any():
        before = unit
        for units in (second, first):  # all values in a unit get the lowest number among them
            lowest = np.full(int(units.max()) + 1, first.max())
            np.minimum.at(lowest, units, unit)
            unit = lowest[units]
    return np.unique(unit, return_inverse=True)[1].astype(np.int32)


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
    values = np.array([*zip(first, second, strict=True)], np.float64).reshape(-1, 2)
    differences = values[:, 0] - values[:, 1]
    mean = clustered_mean(differences, np.arange(len(differences)))
    # Rounding errors grow with the values, which may exceed 1.
    rounding = ROUNDING * max(1.0, float(np.abs(values).max(initial=0.0)))
    stderr = mean.stderr
    if stderr is not None and stderr <= rounding:
        stderr = None
    limit = inf
    if ((values >= 0) & (values <= 1)).all():
        limit = 1.0
    return Paired(
        mean.mean,
        stderr,
        stderr,
        mean.n,
        mean.n_clusters,
        mean.degrees,
        n_more=int((differences > ROUNDING).sum()),
        limit=limit,
    )


def compare_groups(values: Mapping[str, float], base: Mapping[str, float]) -> Paired:
    """Return a variant's mean difference from its baseline over their common groups."""
    common = [name for name in base if name in values]
    return paired([values[name] for name in common], [base[name] for name in common])


def heterogeneity(effects: Sequence[float], stderrs: Sequence[float]) -> float | None:
    """Return the p value of the hypothesis that all effects are equal, or None for fewer than two.

    The statistic is Cochran's Q (1954, "The Combination of Estimates from Different Experiments").
    """
    if len(effects) < 2:
        return None
    weights = [1 / error**2 for error in stderrs]
    weighted = list(zip(weights, effects, strict=True))
    mean = fsum(weight * effect for weight, effect in weighted) / fsum(weights)
    q = fsum(weight * (effect - mean) ** 2 for weight, effect in weighted)
    return chi_squared_tail(len(effects) - 1, q)
