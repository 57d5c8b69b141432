"""Means, rates and other statistics with standard errors that account for clusters.

The k samples of an instance are not independent, nor are the answers to instances that share a
prompt and therefore its replies. Treating them as independent makes error bars too short (by half,
on the recorded gpt-4 COLLIE answers). An unknown standard error is None.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from harness.analysis.distributions import beta_quantile, normal_quantile, t_quantile, t_tail
from harness.analysis.metrics import Interval, SampleStatistic, Statistic
from harness.store.columns import change_mask

ROUNDING = 1e-12  # standard errors below this are rounding errors of 0

_BLOCK_SIZE = 1 << 16  # values per step: all values as floats would take much memory

_TAIL = 0.025  # the probability beyond each end of a 95% interval
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
    informative_degrees: float = inf  # see the function `informative_degrees`
    kish_n: float = 0.0  # effective sample size if each cluster is one observation (Kish 1965)
    max_effective_n: float = inf  # upper bound on the effective sample size: n for verdicts

    @property
    def effective_n(self) -> float | None:
        """The effective sample size of a share, or None if the standard error is unknown."""
        if self.mean is None or self.stderr is None or self.degrees is None:
            return None
        degrees = min(self.degrees, self.informative_degrees)
        return effective_sample_size(
            self.mean, self.stderr, degrees, self.kish_n, self.max_effective_n
        )

    @property
    def ci95(self) -> Interval | None:
        """The 95% interval of a share (a mean of values in [0, 1]), or None if unknown."""
        effective_n = self.effective_n
        if self.mean is None or effective_n is None:
            return None
        return share_interval(self.mean, effective_n)

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

        It is None if the standard error is unknown or 0.

        Args:
            low: The smallest possible mean.
            high: The largest possible mean.
            comparisons: The number of intervals that shall hold together (Bonferroni).
        """
        if self.mean is None or self.stderr is None or self.stderr < ROUNDING:
            return None
        margin = t_quantile(self.degrees, 1 - _TAIL / comparisons) * self.stderr
        return max(low, self.mean - margin), min(high, self.mean + margin)

    def to_share_statistic(self) -> Statistic:
        """Return the statistic of a share, with the interval `ci95`."""
        return self._statistic(self.ci95, self.effective_n)

    def to_mean_statistic(self, low: float = -inf, high: float = inf) -> Statistic:
        """Return the statistic of any other mean, with a t interval, clipped to [low, high]."""
        return self._statistic(self.clipped_ci95(low, high), None)

    def over_samples(self, n_samples: int, *, share: bool) -> SampleStatistic:
        """Return the statistic over ``n_samples`` samples, including those without a value.

        ``share`` selects the interval: that of a share (`ci95`), or the t interval.
        """
        statistic = self.to_share_statistic() if share else self.to_mean_statistic()
        return to_sample_statistic(statistic, n_samples)

    def _statistic(self, ci95: Interval | None, effective_n: float | None) -> Statistic:
        return Statistic(
            mean=self.mean,
            stderr=self.stderr,
            ci95=ci95,
            n=self.n,
            n_clusters=self.n_clusters,
            effective_n=effective_n,
        )


def to_sample_statistic(statistic: Statistic, n_samples: int) -> SampleStatistic:
    """Add the number of missing values to a statistic over ``n_samples`` samples."""
    return SampleStatistic(**structs.asdict(statistic), missing=n_samples - statistic.n)


def effective_sample_size(
    mean: float, stderr: float, degrees: float, kish_n: float, max_n: float = inf
) -> float:
    """Return the number of independent verdicts that would determine a share equally well.

    As in Korn and Graubard (1998, Survey Methodology 24), it is

        n* = mean (1 - mean) / stderr^2 (z / t_degrees)^2,

    but at least ``kish_n`` and at most ``max_n``. A standard error of 0 carries no information, so
    n* is then ``kish_n``. If few clusters contain passes or few contain failures, the standard
    error may be too small by chance. If k of ``kish_n`` verdicts pass (or fail), n* is therefore at
    most (1 + k^2) ``kish_n``. Without this bound, 7 to 9% of the intervals of a rate of 0.85 lie
    above it, for 5 clusters of 20 samples that share 60 to 80% of their variance (simulated).

    Args:
        mean: The share.
        stderr: Its clustered standard error.
        degrees: The standard error's degrees of freedom.
        kish_n: (sum of sizes)^2 / (sum of squared sizes) of the clusters (Kish 1965, "Survey
            Sampling", section 11.7), which is exact if the verdicts of each cluster are equal.
        max_n: The upper bound, which for verdicts is their number, and otherwise infinite.
    """
    if stderr < ROUNDING:
        return kish_n
    ratio = _Z / t_quantile(degrees, 1 - _TAIL)
    if max_n < inf:
        n_rarer_verdicts = kish_n * min(mean, 1 - mean)
        max_n = min(max_n, kish_n * (1 + n_rarer_verdicts**2))
    return max(kish_n, min(max_n, mean * (1 - mean) * (ratio / stderr) ** 2))


def share_interval(mean: float, n: float, comparisons: int = 1) -> Interval:
    """Return the 95% interval of a share of independent verdicts.

    This is the exact interval of Clopper and Pearson (1934, Biometrika 26).

    Args:
        mean: The share.
        n: The number of verdicts, which need not be a whole number (Korn and Graubard 1998).
        comparisons: The number of intervals that shall hold together (Bonferroni).

    >>> [round(bound, 4) for bound in share_interval(81 / 263, 263)]  # Newcombe 1998, table I
    [0.2527, 0.3676]
    """
    tail = _TAIL / comparisons
    n_true = mean * n
    n_false = (1 - mean) * n
    low = beta_quantile(n_true, n_false + 1, tail) if n_true > 0 else 0.0
    high = beta_quantile(n_true + 1, n_false, 1 - tail) if n_false > 0 else 1.0
    return low, high


def clustered_mean(values: NDArray[Any], clusters: NDArray[Any]) -> Estimate:
    """Estimate the mean of (n,) values, given the (n,) indices of their clusters.

    The variance is that of a ratio of cluster totals to cluster sizes, linearised:

        Var = G / (G - 1) * sum_g (sum_{i in g} (x_i - mean))^2 / n^2.

    This is ordinary least squares on a constant with the cluster-robust covariance of Liang and
    Zeger (1986) in its CR1 form: G / (G - 1) times (n - 1) / (n - p) for p = 1 regressor (Cameron
    and Miller 2015). Without G / (G - 1), the error would be too small for few clusters. Miller
    2024, "Adding Error Bars to Evals" (arXiv 2411.00640), has the same sum without G / (G - 1).
    """
    if len(values) and clusters.max() > 8 * len(values):  # indices of a larger table
        clusters = np.unique(clusters, return_inverse=True)[1]
    all_in_group_0 = np.zeros(int(clusters.max(initial=-1)) + 1, np.intp)
    return clustered_means(values, clusters, all_in_group_0).get(0, Estimate())


def clustered_means(
    values: NDArray[Any], unit_of_value: NDArray[Any], group_of_unit: NDArray[np.integer]
) -> dict[int, Estimate]:
    """Estimate the mean of each group that has values, by group index.

    Args:
        values: (n,) The values.
        unit_of_value: (n,) The unit index of each value. A unit is the part of a cluster in one
            group.
        group_of_unit: (u,) The group index of each unit, in ascending order.
    """
    if not len(values):
        return {}
    counts = np.bincount(unit_of_value, minlength=len(group_of_unit))
    (present,) = counts.nonzero()
    sizes = counts[present]
    groups = group_of_unit[present]
    starts = change_mask(groups).nonzero()[0]  # of the groups among the units that are present

    centre = np.zeros(len(counts))  # of each unit: 0, later the mean of its group

    def unit_totals(power: int) -> NDArray[Any]:
        totals = np.zeros(len(counts))
        for start in range(0, len(values), _BLOCK_SIZE):
            unit = unit_of_value[start : start + _BLOCK_SIZE].astype(np.intp)
            np.add.at(totals, unit, (values[start : start + _BLOCK_SIZE] - centre[unit]) ** power)
        return totals[present]

    n = np.add.reduceat(sizes, starts)
    n_units = np.diff(np.append(starts, len(sizes)))
    means = np.add.reduceat(unit_totals(1), starts) / n
    centre[present] = np.repeat(means, n_units)
    squared_totals = np.square(unit_totals(1))
    squares = np.add.reduceat(unit_totals(2), starts)
    are_verdicts = squares >= n * means * (1 - means) * (1 - 1e-9)  # the largest spread in [0, 1]
    columns = (
        means.tolist(),
        _standard_errors(np.add.reduceat(squared_totals, starts), n_units, n),
        _standard_errors(squares, n, n),
        n.tolist(),
        n_units.tolist(),
        _degrees_by_group(sizes, starts),
        informative_degrees(squared_totals, starts).tolist(),
        (n**2 / np.add.reduceat(sizes.astype(np.float64) ** 2, starts)).tolist(),
        np.where(are_verdicts, n, inf).tolist(),
    )
    estimates = (Estimate(*row) for row in zip(*columns, strict=True))
    return dict(zip(groups[starts].tolist(), estimates, strict=True))


def _degrees_by_group(sizes: NDArray[np.integer], starts: NDArray[np.intp]) -> list[float | None]:
    """Return the degrees of freedom of each group's mean, or None for a group of one unit.

    Args:
        sizes: (u,) The number of values in each unit, ordered by group.
        starts: (g,) The index of each group's first unit.
    """
    ends = np.append(starts[1:], len(sizes))
    degrees = [n_units - 1.0 if n_units > 1 else None for n_units in (ends - starts).tolist()]
    unequal = np.minimum.reduceat(sizes, starts) < np.maximum.reduceat(sizes, starts)
    for index in unequal.nonzero()[0].tolist():
        counts = np.bincount(sizes[starts[index] : ends[index]])
        degrees[index] = _degrees_of_sizes(counts.tobytes())
    return degrees


def _standard_errors(
    squares: NDArray[Any], n_units: NDArray[np.integer], n: NDArray[np.integer]
) -> list[float | None]:
    """Return the standard error of each group's mean, or None for a group of one unit.

    Args:
        squares: (g,) Each group's sum over units of the squared deviation.
        n_units: (g,) The number of units in each group.
        n: (g,) The number of values in each group.
    """
    stderrs = np.sqrt(n_units / np.maximum(n_units - 1, 1) * squares) / n
    pairs = zip(stderrs.tolist(), n_units, strict=True)
    return [stderr if count > 1 else None for stderr, count in pairs]


def informative_degrees(
    squares: NDArray[np.float64], starts: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the degrees of freedom of each group's sum of squared cluster totals v.

    They are 3 sum(v)^2 / sum(v^2) - 2, which for normal totals of equal variance is their number
    less 2, as in Welch (1947, Biometrika 34). If a few totals are much larger than the others, as
    for rates near 0 or 1, there are fewer. If all are 0, there is 1.

    Args:
        squares: The squared totals of the clusters, ordered by group.
        starts: (g,) The index of each group's first total.
    """
    sums = np.add.reduceat(squares, starts)
    lengths = np.diff(np.append(starts, len(squares)))
    shares = squares / np.repeat(np.where(sums > 0, sums, 1.0), lengths)  # which cannot overflow
    concentration = np.add.reduceat(np.square(shares), starts)
    return 3 / np.where(concentration > 0, concentration, 1.0) - 2


def kish_size(clusters: NDArray[np.integer], weights: NDArray[np.float64]) -> float:
    """Return the effective sample size if each cluster is one observation (Kish 1965).

    Args:
        clusters: (n,) The cluster index of each value.
        weights: (n,) The weight of each value.
    """
    totals = np.bincount(clusters, weights)
    return float(totals.sum() ** 2 / np.square(totals).sum())


def clustered_rate(values: NDArray[Any], clusters: NDArray[Any]) -> Statistic:
    """Return the mean of values in [0, 1], with its clustered standard error and 95% interval."""
    return clustered_mean(values, clusters).to_share_statistic()


def linearised_share(
    numerators: NDArray[np.float64], denominators: NDArray[np.float64], clusters: NDArray[Any]
) -> Estimate:
    """Estimate a share that is a sum divided by another, such as a weighted mean of verdicts.

    The standard error is that of the ratio's linearisation. `Estimate.effective_n` uses the
    clusters' sums of denominators as their sizes.

    Args:
        numerators: (n,) Values from 0 to their denominators.
        denominators: (n,) Values of at least 0, with a sum above 0.
        clusters: (n,) The indices of the values' clusters.
    """
    share = float(numerators.sum() / denominators.sum())
    influence = (numerators - share * denominators) / denominators.mean()
    estimate = clustered_mean(influence, clusters)
    kish_n = kish_size(np.unique(clusters, return_inverse=True)[1], denominators)
    return replace(estimate, mean=share, naive_stderr=None, kish_n=kish_n, max_effective_n=inf)


def linearised_statistic(
    value: float, influence: NDArray[np.float64], clusters: NDArray[Any], low: float, high: float
) -> Statistic:
    """Return the statistic of a value whose standard error comes from its linearisation.

    Args:
        value: The value.
        influence: (n,) The influence of each observation on the value, scaled so that the value's
            error is approximately the mean (not the sum) of the influences.
        clusters: (n,) The indices of the observations' clusters.
        low: The smallest possible value, to which the interval is clipped.
        high: The largest possible value.
    """
    return replace(clustered_mean(influence, clusters), mean=value).to_mean_statistic(low, high)


def degrees_of_freedom(sizes: NDArray[Any]) -> float:
    """Return the degrees of freedom of a clustered mean's t statistic.

    If a few clusters are much larger than the others, intervals by t with G - 1 degrees (G is the
    number of clusters) are too narrow. Satterthwaite (1946) assigns a sum of squares
    tr(S)^2 / tr(S^2) degrees, where S is the covariance of the squared terms. Bell and McCaffrey
    (2002) apply this to clustered errors, and Imbens and Kolesár (2016, "Robust Standard Errors in
    Small Samples", section 4) add a model of the correlation within clusters, which is 1 here:
    instances of one prompt share its reply. The result is between 1 and G - 1. If w are the
    clusters' shares of the values, the clusters' residual totals have the covariance

        S_ij = w_i w_j (q - w_i - w_j),  S_ii = w_i^2 ((1 - w_i)^2 + q - w_i^2),  q = sum w^2.

    Args:
        sizes: ``sizes[k]`` is the number of clusters with k values. There must be at least two
            clusters.

    >>> degrees_of_freedom(np.array([0, 0, 0, 4]))  # clusters of one size: G - 1
    3.0
    """
    (size,) = sizes.nonzero()
    count = sizes[size].astype(np.float64)
    if len(size) == 1:
        return float(count[0]) - 1  # exact, unlike the sums below
    w = size / float((size * count).sum())
    # Sums over the other clusters are not computed as 1 - w: a cluster may have nearly all values.
    other_counts = count * np.ones((len(w), 1)) - np.eye(len(w))
    other_shares = other_counts @ w
    other_squares = other_counts @ w**2
    diagonal = w**2 * (other_shares**2 + other_squares)
    q_minus_w = other_squares - w * other_shares
    larger = np.searchsorted(w, np.maximum.outer(w, w))  # the index of the larger of two clusters
    pairs = np.outer(w, w) * (q_minus_w[larger] - np.minimum.outer(w, w))
    n_pairs = np.outer(count, count) - np.diag(count)
    trace = float((count * diagonal).sum())
    trace_of_square = float((count * diagonal**2).sum() + (n_pairs * pairs**2).sum())
    return float(min(max(trace**2 / trace_of_square, 1.0), count.sum() - 1))


@lru_cache(maxsize=4096)  # small groups have the same few sizes
def _degrees_of_sizes(sizes: bytes) -> float:
    return degrees_of_freedom(np.frombuffer(sizes, np.intp))
