"""Compares two runs on their common instances: the difference and its uncertainty.

A pair is an instance with the mean of its samples in each run, so k samples form one pair and not
k². The test is McNemar's exact test of the clusters if the values are verdicts, the clusters have
equal weights, and each cluster's mean difference is -1, 0 or 1. Repeated answers then add no
evidence. Otherwise, the test is Student's t test of the paired differences with a clustered
standard error. For verdicts, the t test is unreliable if few clusters differ, so p is at least the
exact p value of `sign_flips`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from math import asin, ceil, inf, sqrt
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.analysis.breakdown import group_codes, is_share, is_verdict, score_values
from harness.analysis.clustered import ROUNDING, clustered_mean
from harness.analysis.distributions import normal_quantile, t_quantile, t_tail
from harness.analysis.metrics import PASS_RATE, UNJUDGED_WARNING_SHARE, Interval
from harness.plugins.comparisons.p_values import (
    ALPHA,
    benjamini_hochberg,
    detectable_change,
    holm,
    mcnemar,
    needed_instances,
    needed_pairs,
    reach,
    sign_flips,
)
from harness.plugins.comparisons.strata import mean_of_groups, merged
from harness.store.columns import AttemptTable, Bools, Ints, group_rows

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

Method = Literal["exact McNemar", "clustered paired t", "sign flips", "shared replies", "none"]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The n instances that have a value in both runs, sorted by digest."""

    digest: NDArray[np.int64]  # (n,) digests of the instances' names (`name_digest`)
    first: Floats  # (n,) mean value of the instance's samples in the first run
    second: Floats  # (n,) the same for the second run
    samples: Ints  # (n, 2) number of samples behind the two means
    cluster: Ints  # (n,) index of the statistical unit
    grouping: Ints  # (n,) index into the distinct mappings of label to group
    groupings: tuple[Mapping[str, str], ...]
    verdicts: bool  # whether values are means of verdicts, or chances of a pass
    only_first: int | None  # number of instances that only the first run has; None for a subset
    only_second: int | None  # likewise
    not_judged: int | None  # instances in both runs that lack a value in at least one; likewise
    shared: Bools  # (n,) whether the instance's replies are the same in both runs
    bounds: Interval | None = None  # as in `Comparison`; None for a subset
    shares: bool = False  # whether values are verdicts or shares (`is_share`)
    weights: Floats | None = None  # (n, 2) weights of the two means; None if they are equal

    def __len__(self) -> int:
        return len(self.digest)

    @property
    def rounding(self) -> float:
        """The largest difference between two values that rounding alone may cause."""
        values = np.concatenate([self.first, self.second])
        return ROUNDING * max(1.0, float(np.abs(values).max(initial=0.0)))

    @property
    def difference(self) -> Floats:
        """The differences, second minus first; 0 if they may be due to rounding."""
        difference = self.second - self.first
        return np.where(np.abs(difference) > self.rounding, difference, 0.0)

    def take(self, rows: Bools | NDArray[np.integer]) -> Pairs:
        """Return the pairs selected by a mask or by row numbers."""
        weights = self.weights
        if weights is not None:
            weights = weights[rows]
        return with_fields(
            self,
            digest=self.digest[rows],
            first=self.first[rows],
            second=self.second[rows],
            samples=self.samples[rows],
            cluster=self.cluster[rows],
            grouping=self.grouping[rows],
            shared=self.shared[rows],
            only_first=None,
            only_second=None,
            not_judged=None,
            bounds=None,
            weights=weights,
        )

    def linearised(self, over: str = "") -> Pairs:
        """Return unweighted pairs whose means, by group of ``over``, are the weighted means.

        Each value is its group's weighted mean plus its influence on it, so that the clustered
        error of the means is that of two ratios of sums (as in `linearised_share`).
        """
        if self.weights is None:
            return self
        group: NDArray[np.integer] = np.zeros(len(self), np.intp)
        if over:
            codes, _ = self.codes(over)
            group = codes + 1
        n = np.bincount(group)[group]
        sides = []
        for values, weights in zip((self.first, self.second), self.weights.T, strict=True):
            totals = np.bincount(group, weights)[group]
            means = np.bincount(group, weights * values)[group] / totals
            sides.append(means + (values - means) * weights * n / totals)
        return with_fields(self, first=sides[0], second=sides[1], weights=None)

    def sharing(self, instances: NDArray[np.int64]) -> Pairs:
        """Return the pairs, of which those of the ``instances`` (digests) share their replies."""
        return with_fields(self, shared=np.isin(self.digest, instances))

    @property
    def independent(self) -> bool:
        """Whether no replies are shared, or at least two clusters have pairs that share none."""
        return not self.shared.any() or len(np.unique(self.cluster[~self.shared])) > 1

    def moved(self) -> tuple[list[int], list[int]]:
        """Return the digests of instances whose value rose, and of those whose value fell."""
        difference = self.difference
        rose = self.digest[difference > 0]
        fell = self.digest[difference < 0]
        return rose.tolist(), fell.tolist()

    def group(self, label: str) -> Mapping[str, Ints]:
        """Map each group of a label to its pairs' row numbers, omitting pairs without a group."""
        code, names = self.codes(label)
        groups = {}
        for place, rows in group_rows(code, len(names)):
            groups[names[place]] = rows
        return groups

    def clustered_by(self, label: str) -> Pairs:
        """Return the pairs with a label's groups as clusters, or unchanged if the label is "".

        Groups that share a previous cluster are merged.
        """
        if not label:
            return self
        code, names = self.codes(label)
        coarser = np.where(code < 0, len(names) + self.cluster, code)
        return with_fields(self, cluster=merged(self.cluster, coarser))

    def codes(self, label: str) -> tuple[Ints, list[str]]:
        """Return each pair's group index (-1 without a group), and the sorted group names."""
        codes, keys = group_codes(self.groupings, (label,))
        return codes[self.grouping], [name for (name,) in keys]


def pair(
    first: AttemptTable, second: AttemptTable, *, score: str = PASS_RATE, weight: str = ""
) -> Pairs:
    """Pair two runs by instance. An instance's value is the mean over its samples' last rounds.

    If both runs have the score ``weight``, the score's values are weighted by it.
    """
    weighted = weight in first.scores and weight in second.scores
    weight = weight if weighted else ""
    sums = _by_instance(first, score, weight)
    sums_second = _by_instance(second, score, weight)
    digest, rows, rows_second = np.intersect1d(
        first.instances.digest, second.instances.digest, assume_unique=True, return_indices=True
    )
    common = (sums.n_samples[rows] > 0) & (sums_second.n_samples[rows_second] > 0)
    judged = (sums.weight[rows] > 0) & (sums_second.weight[rows_second] > 0)
    n_common = int(common.sum())
    not_judged = n_common - int(judged.sum())
    # True and false values are verdicts, whichever score they come from.
    verdicts = not weighted and is_verdict(first, score) and is_verdict(second, score)
    bounds: Interval | None = None
    if verdicts and UNJUDGED_WARNING_SHARE * n_common <= not_judged and judged.any() and not_judged:
        low, high = sums.bounds(rows[common])
        low_second, high_second = sums_second.bounds(rows_second[common])
        bounds = float((low_second - high).mean()), float((high_second - low).mean())
    rows = rows[judged]
    rows_second = rows_second[judged]
    samples = np.stack([sums.n[rows], sums_second.n[rows_second]], axis=1).astype(np.int32)
    weights = np.stack([sums.weight[rows], sums_second.weight[rows_second]], axis=1)
    return Pairs(
        digest=digest[judged],
        first=sums.total[rows] / weights[:, 0],
        second=sums_second.total[rows_second] / weights[:, 1],
        samples=samples,
        cluster=merged(first.instances.cluster[rows], second.instances.cluster[rows_second]),
        grouping=first.instances.grouping[rows],
        groupings=first.instances.groupings,
        verdicts=verdicts,
        only_first=int((sums.n_samples > 0).sum()) - n_common,
        only_second=int((sums_second.n_samples > 0).sum()) - n_common,
        not_judged=not_judged,
        shared=np.zeros(len(samples), np.bool_),
        bounds=bounds,
        shares=verdicts or (is_share(first, score) and is_share(second, score)),
        weights=weights / samples if weighted else None,
    )


class _Sums(NamedTuple):
    """The m instances of a run, each with the sum of its samples' values."""

    total: Floats  # weighted
    weight: Floats  # of the samples with a value; their number, if there are no weights
    n: Counts  # samples with a value
    n_samples: Counts

    def bounds(self, rows: NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Return the means if all samples without a verdict had failed, and if all had passed."""
        missing = (self.n_samples - self.n)[rows]
        n_samples = self.n_samples[rows]
        return self.total[rows] / n_samples, (self.total[rows] + missing) / n_samples


def _by_instance(table: AttemptTable, score: str, weight: str) -> _Sums:
    samples = table.last_rounds()
    m = len(table.instances.digest)
    n_samples = np.bincount(samples.instance, minlength=m)
    if weight:
        has_score, _ = score_values(samples, score)
        has_weight, _ = score_values(samples, weight)
        samples = samples.take(has_score & has_weight)
    has_value, values = score_values(samples, score)
    weights = np.ones(len(values))
    if weight:
        _, weights = score_values(samples, weight)
    instance = samples.instance[has_value]
    total = np.bincount(instance, values * weights, m).astype(np.float64)
    of_weights = np.bincount(instance, weights, m).astype(np.float64)
    n = np.bincount(instance, minlength=m)
    return _Sums(total, of_weights, n, n_samples)


class Comparison(Struct, frozen=True, kw_only=True):
    """The comparison of a second run with a first, over the instances that both have."""

    n: int  # instances with a value in both runs
    n_clusters: int
    first: float | None  # mean over the n instances, weighted as described in `compare`
    second: float | None
    difference: float | None  # second minus first
    stderr: float | None  # clustered; null for fewer than two clusters
    ci95: Interval | None  # by t, `_paired_interval` or `_no_change`; excludes 0 only if p < 0.05
    degrees: float | None  # degrees of freedom of t (`degrees_of_freedom`)
    p_value: float | None  # two-sided, for no difference; null if `method` is one of the last two
    p_adjusted: float | None = None  # adjusted for a family of comparisons
    method: Method
    better: int  # pairs in which the second is larger
    worse: int
    effect: float | None  # Cohen's h (1988, chapter 6) for verdicts, else d_z: mean / spread
    detectable: float | None  # least true difference with p < 0.05 in 80% of cases; null if none
    needed: int | None  # instances that would detect the observed difference in 80% of cases
    only_first: int | None  # this and the following are as in `Pairs`
    only_second: int | None
    not_judged: int | None
    # The difference if all unjudged samples counted against the second run, and if all counted for
    # it. Null for scores other than verdicts, and if less than 5% or all of the pairs are unjudged.
    bounds: Interval | None = None
    verdicts: bool = False  # whether the values are those of a true/false score
    shared: int = 0  # pairs whose replies are the same in both runs


def compare(pairs: Pairs, over: str = "") -> Comparison:
    """Compare the second run with the first: means, difference, test and power.

    If a label ``over`` is given, its groups have equal weights, and pairs without a group are left
    out. Where the pairs have weights, the means are weighted. If all replies are shared, or all but
    those of one cluster, there is nothing to test.
    """
    group: NDArray[np.integer] = np.zeros(len(pairs), np.intp)
    if over:
        group, _ = pairs.codes(over)
        pairs = pairs.take(group >= 0)
        group = np.unique(group[group >= 0], return_inverse=True)[1]
    values = pairs.linearised(over)
    differences = values.difference
    n = len(pairs)
    sizes = np.bincount(group)
    weights = 1 / max(len(sizes), 1) / sizes[group]
    if over and n:
        estimate = mean_of_groups(differences, pairs.cluster, group)
    else:
        estimate = clustered_mean(differences, pairs.cluster)
    difference = _without_rounding(estimate.mean, values.rounding)
    stderr = _without_rounding(estimate.stderr, values.rounding)
    units = estimate.n_clusters
    degrees = estimate.degrees
    changes = pairs.difference
    better = int((changes > 0).sum())
    worse = int((changes < 0).sum())
    test = _Test()
    if stderr is not None and difference is not None and degrees is not None:
        shares = np.bincount(pairs.cluster, weights).astype(np.float64)
        totals = np.bincount(pairs.cluster, weights * differences).astype(np.float64)
        totals = totals[shares > 0]
        shares = shares[shares > 0]
        if pairs.verdicts and _all_or_none(totals, shares):
            test = _mcnemar_test(totals, n, varies=stderr > 0)
        elif stderr > 0:
            test = _t_test(pairs, totals, difference, stderr, degrees)
        elif not better + worse:
            interval = _no_change(units) if pairs.verdicts else None
            test = _Test("clustered paired t", 1.0, interval)
    if not pairs.independent:  # if no value differs, a difference of 0 is certain
        interval = test.ci95 if better + worse else None
        test = _Test("shared replies", ci95=interval)
    return Comparison(
        n=n,
        n_clusters=units,
        first=float(weights @ values.first) if n else None,
        second=float(weights @ values.second) if n else None,
        difference=difference,
        stderr=stderr,
        ci95=test.ci95,
        degrees=degrees,
        p_value=test.p_value,
        method=test.method,
        better=better,
        worse=worse,
        effect=_effect(pairs, differences),
        detectable=test.detectable,
        needed=test.needed,
        only_first=pairs.only_first,
        only_second=pairs.only_second,
        not_judged=pairs.not_judged,
        bounds=pairs.bounds,
        verdicts=pairs.verdicts,
        shared=int(pairs.shared.sum()),
    )


def _without_rounding(value: float | None, rounding: float) -> float | None:
    """Return a value, or 0 if it may be due to rounding.

    A sum of thirds that should be 0 may come out as 1e-17, which would then look very certain.
    """
    if value is None or abs(value) > rounding:
        return value
    return 0.0


class _Test(NamedTuple):
    """A test of a difference, with fields as in `Comparison`."""

    method: Method = "none"
    p_value: float | None = None
    ci95: Interval | None = None
    detectable: float | None = None
    needed: int | None = None


def _mcnemar_test(totals: Floats, n: int, *, varies: bool) -> _Test:
    """Test the (G,) total differences of clusters, of which each is a gain, a loss or 0.

    ``n`` is the number of pairs. ``varies`` says whether there is a standard error.
    """
    units = len(totals)
    better = int((totals > 0).sum())
    worse = int((totals < 0).sum())
    p_value = mcnemar(better, worse)
    test = _Test("exact McNemar", p_value, _paired_interval(better, worse, units, p_value))
    if not varies:
        return test
    gains = better / units
    losses = worse / units
    needed = None
    if better != worse:
        needed = ceil(needed_pairs(gains, losses) * n / units)
    detectable = detectable_change(units, gains + losses, gains - losses)
    return test._replace(detectable=detectable, needed=needed)


def _t_test(
    pairs: Pairs, totals: Floats, difference: float, stderr: float, degrees: float
) -> _Test:
    """Test a difference by t or, for few clusters that differ, by `sign_flips` of the totals."""
    method: Method = "clustered paired t"
    p_value = 2 * t_tail(degrees, abs(difference / stderr))
    ci95 = _interval(pairs, difference, t_quantile(degrees, 1 - ALPHA / 2) * stderr)
    exact = sign_flips(totals) if pairs.verdicts else 0.0
    if exact > p_value:
        method = "sign flips"
        p_value = exact
        if p_value >= ALPHA:
            ci95 = min(ci95[0], 0.0), max(ci95[1], 0.0)
    detectable: float | None = reach(degrees) * stderr
    if (pairs.verdicts or pairs.shares) and reach(degrees) * stderr > 1:
        detectable = None
    needed = None
    if difference:
        error = stderr / abs(difference)
        needed = needed_instances(len(pairs), len(totals), degrees, error)
    return _Test(method, p_value, ci95, detectable, needed)


def _all_or_none(totals: Floats, shares: Floats) -> bool:
    """Return whether clusters have equal shares, and the mean difference of each is -1, 0 or 1."""
    if not np.allclose(shares, shares[0], atol=0):
        return False
    means = np.abs(totals / shares)
    distances = np.minimum(means, np.abs(means - 1))
    return bool((distances < 1e-9).all())


def _interval(pairs: Pairs, difference: float, margin: float) -> Interval:
    limit = 1.0 if pairs.verdicts or pairs.shares else inf
    return max(-limit, difference - margin), min(limit, difference + margin)


def _no_change(units: int) -> Interval:
    """Return the 95% interval of a difference of verdicts if none of the units differs.

    The standard error of 0 carries no information. The interval is the exact bound on the share of
    units that may differ (Clopper and Pearson 1934).
    """
    reach = 1 - (ALPHA / 2) ** (1 / units)
    return -reach, reach


def _paired_interval(better: int, worse: int, n: int, p: float) -> Interval:
    """Return the 95% interval of the difference of n independent pairs of verdicts.

    This is Wald's interval with one pair added to each discordant cell (Bonett and Price 2012, J.
    Educational and Behavioral Statistics 37), which Fagerland, Lydersen and Laake (2014, Statistics
    in Medicine 33) recommend. If the exact test does not reject, the interval is extended to
    include 0.
    """
    size = n + 2
    difference = (better - worse) / size
    error = sqrt(((better + worse + 2) / size - difference**2) / size)
    reach = normal_quantile(1 - ALPHA / 2) * error
    low = max(-1.0, difference - reach)
    high = min(1.0, difference + reach)
    if p >= ALPHA:
        low = min(low, 0.0)
        high = max(high, 0.0)
    return low, high


def _effect(pairs: Pairs, differences: Floats) -> float | None:
    """Return Cohen's h for verdicts, and otherwise d_z."""
    if len(pairs) < 2:
        return None
    if pairs.verdicts:
        return _arcsine(pairs.second) - _arcsine(pairs.first)
    spread = float(np.std(differences, ddof=1))
    if spread <= pairs.rounding:
        return None
    return float(differences.mean()) / spread


def _arcsine(verdicts: Floats) -> float:
    """Return the variance-stabilising transformation of the mean of verdicts."""
    rate = float(verdicts.mean())
    return 2 * asin(sqrt(min(1.0, max(0.0, rate))))


def adjusted(comparisons: Sequence[Comparison], *, planned: bool = True) -> list[Comparison]:
    """Return comparisons with p values adjusted by `holm`, or `benjamini_hochberg` if unplanned."""
    adjust = holm if planned else benjamini_hochberg
    p_values = adjust([comparison.p_value for comparison in comparisons])
    with_p_values = []
    for comparison, p_adjusted in zip(comparisons, p_values, strict=True):
        with_p_values.append(replace(comparison, p_adjusted=p_adjusted))
    return with_p_values
