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
    informative: float = inf  # degrees of freedom of the clusters' totals (`informative_degrees`)
    kish: float = 0.0  # effective size if each cluster is one observation (Kish 1965)
    largest: float = inf  # upper bound on the effective size: n for verdicts

    @property
    def effective_n(self) -> float | None:
        """The number of independent verdicts that are as informative about a share.

        None if the standard error is unknown.
        """
        if self.mean is None or self.stderr is None or self.degrees is None:
            return None
        degrees = min(self.degrees, self.informative)
        return effective_size(self.mean, self.stderr, degrees, self.kish, self.largest)

    @property
    def ci95(self) -> Interval | None:
        """The 95% interval of a share, a mean of values in [0, 1], or None if unknown."""
        size = self.effective_n
        if self.mean is None or size is None:
            return None
        return share_interval(self.mean, size)

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

    def share(self) -> Statistic:
        """Return the estimate of a mean of values in [0, 1], with the interval `ci95`."""
        return self._statistic(self.ci95, self.effective_n)

    def number(self, low: float = -inf, high: float = inf) -> Statistic:
        """Return the estimate of any other mean, with a t interval, clipped to [low, high]."""
        return self._statistic(self.clipped_ci95(low, high), None)

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
    """Return a statistic as one over ``n_samples``, some of which have no value."""
    return SampleStatistic(**structs.asdict(statistic), missing=n_samples - statistic.n)


def effective_size(
    mean: float, stderr: float, degrees: float, kish: float, largest: float = inf
) -> float:
    """Return the number of independent verdicts that are as informative about a share.

    As in Korn and Graubard (1998, Survey Methodology 24), it is

        n* = mean (1 - mean) / stderr^2 (z / t_degrees)^2,

    but at least Kish's number and at most ``largest``. An error of 0 carries no information, so n*
    is then Kish's number. The error of verdicts that few clusters show, because few pass or few
    fail, may be too small by chance: if k of Kish's number pass (or fail), n* is at most 1 + k^2
    times that number. Without this bound, 7 to 9% of the intervals of a rate of 0.85 lie above it
    if there are 5 clusters of 20 samples that share 60 to 80% of their variance (simulated).

    Args:
        mean: The share.
        stderr: Its clustered standard error.
        degrees: The error's degrees of freedom.
        kish: (sum of sizes)^2 / (sum of squared sizes) of the clusters (Kish 1965, "Survey
            Sampling", section 11.7), which is exact if the verdicts of each cluster are equal.
        largest: The upper bound, which for verdicts is their number, and otherwise infinite.
    """
    if stderr < ROUNDING:
        return kish
    ratio = _Z / t_quantile(degrees, 1 - _TAIL)
    if largest < inf:
        rarer = kish * min(mean, 1 - mean)
        largest = min(largest, kish * (1 + rarer**2))
    return max(kish, min(largest, mean * (1 - mean) * (ratio / stderr) ** 2))


def share_interval(mean: float, size: float, comparisons: int = 1) -> Interval:
    """Return the 95% interval of the share of ``size`` independent verdicts that are true.

    This is the exact interval of Clopper and Pearson (1934, Biometrika 26). ``size`` need not be a
    whole number (Korn and Graubard 1998). The interval is widened for several ``comparisons``
    (Bonferroni).

    >>> [round(bound, 4) for bound in share_interval(81 / 263, 263)]  # Newcombe 1998, table I
    [0.2527, 0.3676]
    """
    tail = _TAIL / comparisons
    passed = mean * size
    failed = (1 - mean) * size
    low = beta_quantile(passed, failed + 1, tail) if passed > 0 else 0.0
    high = beta_quantile(passed + 1, failed, 1 - tail) if failed > 0 else 1.0
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
    sizes = counts[present]
    group = group[present]
    starts = changes(group).nonzero()[0]

    mean_of = np.zeros(len(counts))  # the mean of the unit's group

    def totals(power: int) -> NDArray[Any]:
        sums = np.zeros(len(counts))
        for start in range(0, len(values), _BLOCK):
            unit = units[start : start + _BLOCK].astype(np.intp)
            np.add.at(sums, unit, (values[start : start + _BLOCK] - mean_of[unit]) ** power)
        return sums[present]

    n = np.add.reduceat(sizes, starts)
    n_units = np.diff(np.append(starts, len(sizes)))
    means = np.add.reduceat(totals(1), starts) / n
    mean_of[present] = np.repeat(means, n_units)
    squared_totals = np.square(totals(1))
    clustered = _standard_errors(np.add.reduceat(squared_totals, starts), n_units, n)
    squares = np.add.reduceat(totals(2), starts)
    naive = _standard_errors(squares, n, n)
    informative = informative_degrees(squared_totals, starts)
    kish = n**2 / np.add.reduceat(sizes.astype(np.float64) ** 2, starts)
    verdicts = squares >= n * means * (1 - means) * (1 - 1e-9)  # the largest spread in [0, 1]
    largest = np.where(verdicts, n, inf)
    degrees = [n - 1.0 if n > 1 else None for n in n_units.tolist()]
    unequal = np.minimum.reduceat(sizes, starts) < np.maximum.reduceat(sizes, starts)
    for place in unequal.nonzero()[0].tolist():
        unit_sizes = sizes[starts[place] : starts[place] + n_units[place]]
        degrees[place] = _degrees_of_sizes(np.bincount(unit_sizes).tobytes())
    columns = (
        *(means.tolist(), clustered, naive, n.tolist(), n_units.tolist(), degrees),
        *(informative.tolist(), kish.tolist(), largest.tolist()),
    )
    estimates = (Estimate(*row) for row in zip(*columns, strict=True))
    return dict(zip(group[starts].tolist(), estimates, strict=True))


def _standard_errors(
    squares: NDArray[Any], units: NDArray[np.integer], n: NDArray[np.integer]
) -> list[float | None]:
    stderrs = np.sqrt(units / np.maximum(units - 1, 1) * squares) / n
    pairs = zip(stderrs.tolist(), units, strict=True)
    return [stderr if n_units > 1 else None for stderr, n_units in pairs]


def informative_degrees(
    squares: NDArray[np.float64], starts: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the degrees of freedom of each part's sum of squared cluster totals v.

    They are 3 sum(v)^2 / sum(v^2) - 2, which for normal totals of equal variance is their number
    less 2, as in Welch (1947, Biometrika 34). If a few totals are much larger than the others, as
    for rates near 0 or 1, there are fewer. If all are 0, there is 1.
    """
    sums = np.add.reduceat(squares, starts)
    lengths = np.diff(np.append(starts, len(squares)))
    shares = squares / np.repeat(np.where(sums > 0, sums, 1.0), lengths)  # which cannot overflow
    concentration = np.add.reduceat(np.square(shares), starts)
    return 3 / np.where(concentration > 0, concentration, 1.0) - 2


def kish_size(clusters: NDArray[np.integer], weights: NDArray[np.float64]) -> float:
    """Return the effective size of values, each cluster being one observation (Kish 1965)."""
    totals = np.bincount(clusters, weights)
    return float(totals.sum() ** 2 / np.square(totals).sum())


def clustered_rate(values: NDArray[Any], clusters: NDArray[Any]) -> Statistic:
    """Return the mean of values in [0, 1], with its clustered standard error and 95% interval."""
    return clustered_mean(values, clusters).share()


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
    kish = kish_size(np.unique(clusters, return_inverse=True)[1], denominators)
    return replace(estimate, mean=share, naive_stderr=None, kish=kish, largest=inf)


def linearised_statistic(
    value: float, influence: NDArray[np.float64], clusters: NDArray[Any], low: float, high: float
) -> Statistic:
    """Return a value as a statistic, with the standard error and interval from its linearisation.

    ``influence`` holds the influence of each of n observations on the value, and ``clusters`` the
    indices of their clusters. The 95% interval is clipped to [low, high].
    """
    return replace(clustered_mean(influence, clusters), mean=value).number(low, high)


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
    other_counts = count * np.ones((len(w), 1)) - np.eye(len(w))
    others = other_counts @ w
    squares = other_counts @ w**2
    diagonal = w**2 * (others**2 + squares)
    less = squares - w * others  # q - w, for the larger of two clusters
    place = np.searchsorted(w, np.maximum.outer(w, w))
    pairs = np.outer(w, w) * (less[place] - np.minimum.outer(w, w))
    n_pairs = np.outer(count, count) - np.diag(count)
    trace = float((count * diagonal).sum())
    trace_of_square = float((count * diagonal**2).sum() + (n_pairs * pairs**2).sum())
    return float(min(max(trace**2 / trace_of_square, 1.0), count.sum() - 1))


@lru_cache(maxsize=4096)  # small groups have the same few sizes
def _degrees_of_sizes(sizes: bytes) -> float:
    return degrees_of_freedom(np.frombuffer(sizes, np.intp))
