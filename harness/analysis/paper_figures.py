"""Figures of papers' tables that are no plain means: ratios, runs of levels, averages of groups.

FollowBench (Jiang et al. 2024, arXiv 2310.20410) has the soft satisfaction rate (`partial`), the
consistent satisfaction levels (`consecutive`) and averages over categories (`averaged`). InFoBench
(Qin et al. 2024, arXiv 2401.03601) divides sums over all instances (`ratio`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from harness.analysis.breakdown import Groups, Key, are_fractions, group_codes, values_of
from harness.analysis.clustered import SampleStatistic, Statistic, linearised
from harness.store.columns import NOT_JUDGED, AttemptTable, changes, rows_by

CONSECUTIVE = "consecutive"
"""The score that `consecutive` adds."""


def partial(samples: AttemptTable, score: str) -> AttemptTable:
    """Return the samples with a verdict (1 or 0) as the score, if they lack the score itself."""
    own = np.full(len(samples), np.nan)
    if score in samples.scores:
        known = samples.measured(score)
        own[known] = samples.scores[score][known]
    verdicts = np.where(samples.judged, samples.passed, np.nan)
    filled = np.where(np.isnan(own), verdicts, own)
    return replace(samples, scores={**samples.scores, score: filled})


def consecutive(samples: AttemptTable, label: str) -> AttemptTable:
    """Return a row per cluster and sample, with the number of levels that pass from the first on.

    The levels are the groups of `label`, in numerical order, and a cluster has an instance of each.
    The score `CONSECUTIVE` is missing if a level before the first failure has no verdict.
    """
    codes, names = group_codes(samples.instances.groupings, (label,))
    order = sorted(range(len(names)), key=lambda n: (len(names[n][0]), names[n]))
    rank = np.empty(len(names) + 1, np.intp)
    rank[order], rank[-1] = np.arange(len(names)), -1
    level = rank[codes[samples.instances.grouping[samples.instance]]]
    rows = np.lexsort((level, samples.sample, samples.cluster))
    rows = rows[level[rows] >= 0]
    starts = changes(samples.cluster[rows]) | changes(samples.sample[rows])
    firsts, values = [], []
    for part in np.split(rows, np.flatnonzero(starts)[1:]) if len(rows) else []:
        firsts.append(part.min())
        values.append(_levels_passed(level[part], samples.passed[part], len(names)))
    at = np.argsort(firsts).astype(np.intp)
    found = samples.take(np.array(firsts, np.int32)[at])
    return replace(found, scores={**found.scores, CONSECUTIVE: np.array(values, float)[at]})


def _levels_passed(level: NDArray[np.intp], passed: NDArray[np.generic], n: int) -> float:
    for number, (own, verdict) in enumerate(zip(level, passed, strict=True)):
        if own != number or verdict == NOT_JUDGED:
            return np.nan
        if verdict != 1:
            return float(number)
    return float(n) if len(level) == n else np.nan


def averaged(
    samples: AttemptTable, score: str, label: str, *labels: str
) -> dict[Key, SampleStatistic]:
    """Return the mean of a score's means in the groups of `label`, equally weighted.

    Groups without a value are left out. The standard error is computed by linearisation (each
    value's influence on the result), and clustered.
    """
    groups, bounds = Groups.by(samples.instances, *labels), (0.0, 1.0)
    if not are_fractions(samples, score):
        bounds = (-np.inf, np.inf)
    known, _ = values_of(samples, score)
    codes, names = group_codes(samples.instances.groupings, (label,))
    part = codes[samples.instances.grouping[samples.instance]]
    statistics = {}
    for number, rows in rows_by(groups.of_instance[samples.instance], len(groups.names)):
        own = rows[known[rows] & (part[rows] >= 0)]
        values = values_of(samples.take(own), score)[1].astype(np.float64)
        n = np.bincount(part[own], minlength=len(names))
        means = np.bincount(part[own], values, minlength=len(names)) / np.maximum(n, 1)
        if not len(own):
            statistics[groups.names[number]] = SampleStatistic(missing=len(rows))
            continue
        weights = len(own) / (np.count_nonzero(n) * n[part[own]])
        found = linearised(
            float(means[n > 0].mean()),
            weights * (values - means[part[own]]),
            samples.cluster[own],
            *bounds,
        )
        statistics[groups.names[number]] = _over_samples(found, len(rows))
    return statistics


def ratio(samples: AttemptTable, score: str, per: str, *labels: str) -> dict[Key, SampleStatistic]:
    """Return the sum of a score over the sum of another, `per`, in each group of ``labels``.

    Samples that lack one of them are left out. The standard error is that of a ratio of means, by
    linearisation, and clustered.
    """
    groups = Groups.by(samples.instances, *labels)
    known = values_of(samples, score)[0] & values_of(samples, per)[0]
    statistics = {}
    for number, rows in rows_by(groups.of_instance[samples.instance], len(groups.names)):
        own = rows[known[rows]]
        taken = samples.take(own)
        upper, lower = (values_of(taken, one)[1].astype(np.float64) for one in (score, per))
        if not lower.sum():
            statistics[groups.names[number]] = SampleStatistic(missing=len(rows))
            continue
        value = float(upper.sum() / lower.sum())
        influence = (upper - value * lower) / lower.mean()
        found = linearised(value, influence, taken.cluster, 0.0, 1.0)
        statistics[groups.names[number]] = _over_samples(found, len(rows))
    return statistics


def _over_samples(found: Statistic, n: int) -> SampleStatistic:
    return SampleStatistic(**structs.asdict(found), missing=n - found.n)
