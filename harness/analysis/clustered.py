"""Means with standard errors that respect clusters.

Owns the one formula for how sure a rate is. Answers to one prompt are not
independent: neither the k samples of an instance nor the instances that share
a prompt, and so share its replies. Counting each of them as news makes error
bars too short (on the recorded gpt-4 COLLIE answers by half). It refuses to
call a rate certain because nothing can be said about its error.

>>> clustered_mean(np.array([1, 1, 0, 0]), np.array([7, 7, 8, 8])).stderr
0.5
>>> clustered_mean(np.array([1, 1, 0, 0]), np.array([7, 7, 7, 7])).stderr is None
True
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What a 95% interval leaves out at each end.
_TAIL = 0.025
# The normal quantile of 1 - _TAIL.
_Z = 1.959963984540054
# Standard errors below this are rounding of a sum that is exactly zero.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and how sure it is.

    mean: None over no values.
    stderr: clustered standard error, None over fewer than two clusters.
    naive_stderr: the one that takes every value for independent, to show the
        difference; None over fewer than two values.
    n: how many values.
    n_clusters: in how many clusters.
    how_many: (s,) how many clusters have 0, 1, 2, … values.
    """

    mean: float | None
    stderr: float | None
    naive_stderr: float | None
    n: int
    n_clusters: int
    how_many: NDArray[Any]

    @property
    def degrees(self) -> float | None:
        """Of freedom of the clustered error; None where that is."""
        return degrees_of_freedom(self.how_many) if self.n_clusters > 1 else None

    @property
    def ci95(self) -> tuple[float, float] | None:
        """95% interval of a mean of values between 0 and 1.

        mean ± t * stderr, t with the degrees of freedom that clusters of their
        sizes leave (`degrees_of_freedom`), clipped to [0, 1].

        Where all values are 0, or all are 1, the standard error is 0 and says
        nothing. There the interval is the exact one of Clopper and Pearson
        (1934) for G draws: at worst, a cluster is worth no more than one
        independent value (Korn and Graubard 1998, Survey Methodology 24,
        reduce n to an effective one for the same reason).

        None where the error cannot be estimated: one cluster, or clusters that
        all have one and the same mean strictly between 0 and 1.
        """
        if self.mean is None or self.stderr is None:
            return None
        if self.stderr < _ROUNDING:
            reach = 1 - _TAIL ** (1 / self.n_clusters)
            return {0.0: (0.0, reach), 1.0: (1 - reach, 1.0)}.get(self.mean)
        low, high = self.mean - self._margin(self.stderr), self.mean + self._margin(self.stderr)
        return max(0.0, low), min(1.0, high)

    @property
    def ci95_unbounded(self) -> tuple[float, float] | None:
        """95% interval of a mean of values of any size: as `ci95`, not clipped.

        None where the error cannot be estimated: one cluster, or clusters that
        all have one and the same mean.
        """
        if self.mean is None or self.stderr is None or self.stderr < _ROUNDING:
            return None
        return self.mean - self._margin(self.stderr), self.mean + self._margin(self.stderr)

    def _margin(self, stderr: float) -> float:
        # Imported here: SciPy takes longer to load than the rest of the harness.
        from scipy.special import stdtrit

        return float(stdtrit(self.degrees, 1 - _TAIL)) * stderr


def clustered_mean(values: NDArray[Any], clusters: NDArray[Any]) -> Estimate:
    """The mean of values that come in clusters.

    The linearised variance of a ratio of cluster totals to cluster sizes,

        Var = G / (G - 1) * sum_g (sum_{i in g} (x_i - mean))^2 / n^2,

    which is ordinary least squares on a constant with the cluster-robust
    covariance of Liang and Zeger (1986) in its CR1 form: G / (G - 1) times
    (n - 1) / (n - p) for p = 1 regressor (Cameron and Miller 2015). Without the
    factor few clusters look surer than they are. Where every value is its own
    cluster this is the usual s^2 / n. Miller 2024, "Adding Error Bars to Evals"
    (arXiv 2411.00640), has the same sum without the factor.

    values: (n,) numbers or truth values.
    clusters: (n,) number, from 0, of the statistical unit of each.
    """
    n = len(values)
    if n == 0:
        return Estimate(None, None, None, 0, 0, np.zeros(1, np.intp))
    if clusters.max() > 8 * n:  # of a small group's units the numbers may be any of a million
        clusters = np.unique(clusters, return_inverse=True)[1]
    mean = float(np.mean(values))
    residuals = np.array(values, dtype=np.float64)
    residuals -= mean
    sizes = np.bincount(clusters)
    totals = np.bincount(clusters, weights=residuals)[sizes > 0]
    how_many = np.bincount(sizes)
    how_many[0] = 0
    return Estimate(mean, _stderr(totals, n), _stderr(residuals, n), n, len(totals), how_many)


def degrees_of_freedom(how_many: NDArray[Any]) -> float:
    """What t distribution a clustered error has, for clusters of such sizes.

    With few large clusters among small ones the error is less sure than G - 1 says, and
    t with G - 1 gives intervals that are too short. Satterthwaite (1946) gives a sum of
    squares the degrees tr(S)^2 / tr(S^2), S the covariance of what is squared; Bell and
    McCaffrey (2002) do so for clustered errors, Imbens and Kolesár (2016, "Robust Standard
    Errors in Small Samples", section 4) with a model of what a cluster shares. Here all of
    it is shared, as a reply is by the instances of its prompt. With w the clusters' shares
    of the values, the totals less the mean, (I - w 1') diag(w), then have the covariance

        S_ij = w_i w_j (q - w_i - w_j),  S_ii = w_i^2 ((1 - w_i)^2 + q - w_i^2),  q = sum w^2.

    Clusters of one size give G - 1.

    how_many: (s,) clusters of 0, 1, 2, … values; of two or more in all.

    >>> degrees_of_freedom(np.array([0, 0, 0, 4]))  # four clusters of three
    3.0
    """
    (size,) = how_many.nonzero()
    count = how_many[size].astype(np.float64)
    if len(size) == 1:
        return float(count[0]) - 1  # to the last bit
    w = size / float((size * count).sum())
    # What other clusters add up to, summed and not subtracted: one may hold nearly all.
    other = count * np.ones((len(w), 1)) - np.eye(len(w))
    others, squares = other @ w, other @ w**2
    own = w**2 * (others**2 + squares)
    less = squares - w * others  # q - w, of the larger of two
    large, small = np.maximum.outer(w, w), np.minimum.outer(w, w)
    place = np.searchsorted(w, large)
    pairs = np.outer(w, w) * (less[place] - small)
    n_pairs = np.outer(count, count) - np.diag(count)
    trace = float((count * own).sum())
    trace_of_square = float((count * own**2).sum() + (n_pairs * pairs**2).sum())
    return float(min(max(trace**2 / trace_of_square, 1.0), count.sum() - 1))


def _stderr(residuals: NDArray[Any], n: int) -> float | None:
    """Standard error of a mean of n values from the residual totals of its independent units."""
    units = len(residuals)
    if units < 2:
        return None
    # Not a dot product, whose last bits depend on BLAS and its threads.
    return sqrt(units / (units - 1) * float(np.square(residuals).sum())) / n


def rate_interval(estimate: Estimate, passed: int) -> tuple[float, float] | None:
    """95% interval of a pass rate: Wilson's where each cluster has one verdict, else `ci95`.

    passed: of the ``estimate.n`` verdicts.
    """
    if estimate.n == estimate.n_clusters > 1:
        return wilson(passed, estimate.n)
    return estimate.ci95


def wilson(passed: int, n: int) -> tuple[float, float]:
    """95% interval of a simple rate: n independent verdicts, of which some passed.

    The score interval of Wilson 1927, "Probable Inference, the Law of Succession, and
    Statistical Inference" (JASA 22), equation 5, without correction for continuity. It
    holds near 0 and 1 and with few verdicts, where rate ± t * stderr does not.

    >>> [round(bound, 4) for bound in wilson(81, 263)]  # Newcombe 1998, table I
    [0.2553, 0.3662]
    """
    z2 = (
        _Z**2
    )  # SciPy has all of this, and takes a run more time and memory to load than it is worth
    centre, reach = passed + z2 / 2, sqrt(z2 * (passed * (n - passed) / n + z2 / 4))
    # Rounding shall not leave 1e-17 of nothing.
    low = 0.0 if passed == 0 else (centre - reach) / (n + z2)
    high = 1.0 if passed == n else (centre + reach) / (n + z2)
    return low, high
