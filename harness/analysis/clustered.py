"""Means, rates and other statistics with standard errors that account for clusters.

The k samples of an instance are not independent, nor are the answers to instances that share a
prompt and therefore its replies. Treating them as independent makes error bars too short (by half,
on the recorded gpt-4 COLLIE answers). An unknown standard error is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf, sqrt
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from harness.analysis.distributions import normal_quantile, t_quantile, t_tail
from harness.analysis.metrics import Interval, SampleStatistic, Statistic
from harness.store.columns import changes

ROUNDING = 1e-12  # Standard errors below this are rounding errors of a sum that is exactly zero

_BLOCK = 1 << 16  # values at a time, because floats of all of them would take much memory

# Probability outside a 95% interval, at each end, and the normal quantile of its complement.
_TAIL = 0.025
_Z = normal_quantile(1 - _TAIL)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of n values, with its clustered standard error."""

    mean: float | None = None  # None without values
    stderr: float | None = None
    naive_stderr: float | None = None  # as if all values were independent
    n: int = 0
    n_clusters: int = 0
    degrees: float | None = None  # degrees of freedom of t; None if the error is unknown

    @property
    def ci95(self) -> Interval | None:
        """The 95% interval of a mean of values in [0, 1], or None if unknown.

        This is Wilson's interval for the effective sample size, as Franco, Little, Louis and Slud
        (2019, J. Survey Statistics and Methodology 7) recommend for proportions in clusters. This
        size is n over the design effect, reduced if the error has few degrees of freedom, as in
        Korn and Graubard (1998, Survey Methodology 24):

            n* = mean (1 - mean) / stderr^2 (q / t_degrees)^2.

        For verdicts, q^2 = t_{n-1}^2 n / (n - 1), which makes n* = n if they are independent. For
        other values, whose spread does not follow from their mean, q is the normal quantile. If all
        values are 0, or all are 1, the error of 0 carries no information, and n* is the number of
        clusters. If the error is 0 for any other reason, the interval is None.
        """
        if self.mean is None or self.stderr is None or self.naive_stderr is None:
            return None
        if self.stderr < ROUNDING:
            return wilson(self.mean, self.n_clusters) if self.mean in (0, 1) else None
        variance, rest = self.mean * (1 - self.mean), self.n - 1
        q2 = _Z**2
        if self.naive_stderr**2 * rest > variance * (1 - 1e-9):  # verdicts
            q2 = t_quantile(rest, 1 - _TAIL) ** 2 * self.n / rest
        t = t_quantile(self.degrees, 1 - _TAIL)
        return wilson(self.mean, variance * q2 / (t * self.stderr) ** 2)

    @property
    def p_value(self) -> float | None:
        """The two-sided p value of the hypothesis that the true mean is 0.

        It is None if the standard error is unknown or 0.
        """
        if self.mean is None or self.stderr is None or self.degrees is None:
            return None
        if self.stderr < ROUNDING:
            return None
        return 2 * t_tail(self.degrees, abs(self.mean / self.stderr))

    def clipped_ci95(
        self, low: float = -inf, high: float = inf, comparisons: int = 1
    ) -> Interval | None:
        """Return the 95% t interval, clipped to [low, high].

        It is None if the standard error is unknown or 0. The interval is widened for several
        ``comparisons`` (Bonferroni).
        """
        if self.mean is None or self.stderr is None or self.stderr < ROUNDING:
            return None
        margin = t_quantile(self.degrees, 1 - _TAIL / comparisons) * self.stderr
        return max(low, self.mean - margin), min(high, self.mean + margin)

    def statistic(self, ci95: Interval | None) -> Statistic:
        """Return the estimate as a `Statistic` with the given interval."""
        return Statistic(
            mean=self.mean, stderr=self.stderr, ci95=ci95, n=self.n, n_clusters=self.n_clusters
        )

    def over_samples(self, ci95: Interval | None, n_samples: int) -> SampleStatistic:
        """Return the estimate as a statistic over ``n_samples``."""
        found = structs.asdict(self.statistic(ci95))
        return SampleStatistic(**found, missing=n_samples - self.n)


def clustered_mean(values: NDArray[Any], clusters: NDArray[Any]) -> Estimate:
    """Estimate the mean of (n,) values, given the (n,) indices of their clusters.

    The variance is that of a ratio of cluster totals to cluster sizes, linearised:

        Var = G / (G - 1) * sum_g (sum_{i in g} (x_i - mean))^2 / n^2.

    This is ordinary least squares on a constant with the cluster-robust covariance of Liang and
    Zeger (1986) in its CR1 form: G / (G - 1) times (n - 1) / (n - p) for p = 1 regressor (Cameron
    and Miller 2015). Without G / (G - 1), the error would be too small for few clusters. Miller
    2024, "Adding Error Bars to Evals" (arXiv 2411.00640), has the same sum without G / (G - 1).
    """
    if len(values) and clusters.max() > 8 * len(values):  # numbered for a larger table
        clusters = np.unique(clusters, return_inverse=True)[1]
    group = np.zeros(int(clusters.max(initial=-1)) + 1, np.intp)
    return clustered_means(values, clusters, group).get(0, Estimate())


def clustered_means(
    values: NDArray[Any], units: NDArray[Any], group: NDArray[np.integer]
) -> dict[int, Estimate]:
    """Return the estimated mean of each group that has values, by group index.

    Args:
        values: (n,) The values.
        units: (n,) The index of each value's unit. A unit is the part of a cluster in one group.
        group: (u,) The group index of each unit, in ascending order.
    """
    if not len(values):
        return {}
    counts = np.bincount(units, minlength=len(group))
    (present,) = counts.nonzero()
    sizes, group = counts[present], group[present]
    starts = changes(group).nonzero()[0]

    mean_of = np.zeros(len(counts))  # the mean of the unit's group

    def totals(power: int) -> NDArray[Any]:
        found = np.zeros(len(counts))
        for start in range(0, len(values), _BLOCK):
            unit = units[start : start + _BLOCK].astype(np.intp)
            np.add.at(found, unit, (values[start : start + _BLOCK] - mean_of[unit]) ** power)
        return found[present]

    n, n_units = np.add.reduceat(sizes, starts), np.diff(np.append(starts, len(sizes)))
    means = np.add.reduceat(totals(1), starts) / n
    mean_of[present] = np.repeat(means, n_units)
    clustered = _stderrs(np.add.reduceat(np.square(totals(1)), starts), n_units, n)
    naive = _stderrs(np.add.reduceat(totals(2), starts), n, n)
    degrees = [units - 1.0 if units > 1 else None for units in n_units.tolist()]
    unequal = np.minimum.reduceat(sizes, starts) < np.maximum.reduceat(sizes, starts)
    for place in unequal.nonzero()[0].tolist():
        own = sizes[starts[place] : starts[place] + n_units[place]]
        degrees[place] = _cached_degrees(np.bincount(own).tobytes())
    columns = (means.tolist(), clustered, naive, n.tolist(), n_units.tolist(), degrees)
    estimates = (Estimate(*row) for row in zip(*columns, strict=True))
    return dict(zip(group[starts].tolist(), estimates, strict=True))


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

    The variance of a group with a single cluster is unknown. Such groups are pooled, and centred at
    the mean over all groups (as by "adjust" in R's survey package), which is conservative. If every
    group is one whole cluster, this treats the groups as a random sample, with G - 1 degrees.

    Args:
        values: (n,) The values.
        clusters: (n,) The indices of the values' clusters.
        group: (n,) The indices of the values' groups.
    """
    clusters, group = (np.unique(one, return_inverse=True)[1] for one in (clusters, group))
    keys, unit = np.unique(group << 32 | clusters, return_inverse=True)
    found = list(clustered_means(values, unit, keys >> 32).values())
    means = np.array([one.mean for one in found])
    mean, n, n_clusters = float(means.mean()), len(values), int(clusters.max()) + 1
    if n_clusters < 2:
        return Estimate(mean, n=n, n_clusters=n_clusters)
    single = np.array([one.n_clusters == 1 for one in found])
    pooled = single[group]
    found.append(clustered_mean(means[single], (keys & 0xFFFFFFFF)[single[keys >> 32]]))
    m, degrees = (
        np.array([getattr(one, name) or 1 for one in found]) for name in ("n_clusters", "degrees")
    )
    stratum = np.where(pooled, len(single), group)
    influence = (values - np.where(pooled, mean, means[group])) / np.bincount(group)[group]
    influence *= np.sqrt(m / np.maximum(m - 1, 1))[stratum] / len(single)
    term = merged(stratum, clusters)
    of_cluster = np.zeros(n_clusters, np.intp)
    of_cluster[clusters] = term
    v = np.bincount(of_cluster, np.square(np.bincount(clusters, influence)))
    f = np.full(len(v), inf)
    np.minimum.at(f, term, degrees[stratum])
    free = v.sum() ** 2 / (v**2 / (f + 2)).sum() - 2 if v.any() else f.sum()
    return Estimate(
        mean,
        stderr=sqrt(v.sum()),
        n=n,
        n_clusters=n_clusters,
        degrees=float(np.clip(free, f.min(), f.sum())),
    )


def merged(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Return n values' units, merged so that values that share a unit in either stay together."""
    if len(first) == 0:
        return first
    unit, before = first.copy(), second
    while (unit != before).any():
        before = unit
        for units in (second, first):  # all values in a unit get the lowest number among them
            lowest = np.full(int(units.max()) + 1, first.max())
            np.minimum.at(lowest, units, unit)
            unit = lowest[units]
    return np.unique(unit, return_inverse=True)[1].astype(np.int32)


def _stderrs(
    squares: NDArray[Any], units: NDArray[np.integer], n: NDArray[np.integer]
) -> list[float | None]:
    found = np.sqrt(units / np.maximum(units - 1, 1) * squares) / n
    return [one if some > 1 else None for one, some in zip(found.tolist(), units, strict=True)]


def rate(values: NDArray[Any], clusters: NDArray[Any]) -> Statistic:
    """Return the mean of values in [0, 1], with its clustered standard error and 95% interval."""
    estimate = clustered_mean(values, clusters)
    return estimate.statistic(estimate.ci95)


def linearised(
    value: float, influence: NDArray[np.float64], clusters: NDArray[Any], low: float, high: float
) -> Statistic:
    """Return a value as a statistic, with the standard error and interval from its linearisation.

    ``influence`` holds the influence of each of n observations on the value, and ``clusters`` the
    indices of their clusters. The 95% interval is clipped to [low, high].
    """
    estimate = clustered_mean(influence, clusters)
    interval = estimate.clipped_ci95()
    if interval is not None:
        interval = max(low, value + interval[0]), min(high, value + interval[1])
    return structs.replace(estimate.statistic(interval), mean=value)


def degrees_of_freedom(sizes: NDArray[Any]) -> float:
    """Return the degrees of freedom of a clustered mean's t statistic.

    ``sizes[k]`` is the number of clusters with k values. At least two clusters are required. If a
    few clusters are much larger than the others, intervals by t with G - 1 degrees (G is the number
    of clusters) are too narrow. Satterthwaite (1946) assigns a sum of squares tr(S)^2 / tr(S^2)
    degrees, where S is the covariance of the squared terms. Bell and McCaffrey (2002) apply this to
    clustered errors, and Imbens and Kolesár (2016, "Robust Standard Errors in Small Samples",
    section 4) add a model of the correlation within clusters, which is 1 here: instances of one
    prompt share its reply. The result is between 1 and G - 1. If w are the clusters' shares of the
    values, the clusters' residual totals have the covariance

        S_ij = w_i w_j (q - w_i - w_j),  S_ii = w_i^2 ((1 - w_i)^2 + q - w_i^2),  q = sum w^2.

    >>> degrees_of_freedom(np.array([0, 0, 0, 4]))  # clusters of one size: G - 1
    3.0
    """
    (size,) = sizes.nonzero()
    count = sizes[size].astype(np.float64)
    if len(size) == 1:
        return float(count[0]) - 1  # exact, unlike the sums below
    w = size / float((size * count).sum())
    # The other clusters' shares are summed, not subtracted: one cluster may hold nearly everything.
    other = count * np.ones((len(w), 1)) - np.eye(len(w))
    others, squares = other @ w, other @ w**2
    own = w**2 * (others**2 + squares)
    less = squares - w * others  # q - w, for the larger of two clusters
    large, small = np.maximum.outer(w, w), np.minimum.outer(w, w)
    place = np.searchsorted(w, large)
    pairs = np.outer(w, w) * (less[place] - small)
    n_pairs = np.outer(count, count) - np.diag(count)
    trace = float((count * own).sum())
    trace_of_square = float((count * own**2).sum() + (n_pairs * pairs**2).sum())
    return float(min(max(trace**2 / trace_of_square, 1.0), count.sum() - 1))


@lru_cache(maxsize=4096)  # small groups have the same few sizes
def _cached_degrees(sizes: bytes) -> float:
    return degrees_of_freedom(np.frombuffer(sizes, np.intp))


def wilson(mean: float, n: float) -> Interval:
    """Return the 95% interval of a mean of n independent verdicts.

    This is the score interval of Wilson 1927, "Probable Inference, the Law of Succession, and
    Statistical Inference" (JASA 22), equation 5, without continuity correction. It is reliable near
    0 and 1, and for few verdicts.

    >>> [round(bound, 4) for bound in wilson(81 / 263, 263)]  # Newcombe 1998, table I
    [0.2553, 0.3662]
    """
    z2 = _Z**2
    centre, reach = n * mean + z2 / 2, sqrt(z2 * (n * mean * (1 - mean) + z2 / 4))
    # Exact at the ends, where rounding would leave 1e-17.
    low = 0.0 if mean == 0 else (centre - reach) / (n + z2)
    high = 1.0 if mean == 1 else (centre + reach) / (n + z2)
    return low, high


def wilson_size(mean: float, reach: float) -> float:
    """Return the number of verdicts for which `wilson`'s interval has the half-width ``reach``.

    >>> low, high = wilson(0.9, 50)
    >>> round(wilson_size(0.9, (high - low) / 2), 6)
    50.0
    """
    z2, variance, width2 = _Z**2, mean * (1 - mean), reach**2
    half = z2 * (2 * width2 - variance) / 2  # of a quadratic equation in n
    return (sqrt(half**2 + width2 * z2**2 * (0.25 - width2)) - half) / width2
