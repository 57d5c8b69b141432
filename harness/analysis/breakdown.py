"""Rates and means by the groups of one label, or of two together.

Owns which of a sample's rounds is looked at, one row for each sample: a given
round, its last one (`AttemptTable.last_rounds`), or all of the first k. What
has no verdict is counted and left out, as in `harness.analysis.summary`, whose
figures these are wherever both have them.

>>> first = of_round(attempts)  # doctest: +SKIP
>>> rates(first, "structure", "source")["word01", "wiki"].mean  # doctest: +SKIP
1.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.analysis.clustered import Estimate, clustered_mean, rate_interval
from harness.store.columns import NOT_JUDGED, AttemptTable, Ints, rows_by

Key = tuple[str, ...]
"""A group of each label that was asked for."""


@dataclass(frozen=True, slots=True)
class Part:
    """A rate or a mean over the samples of a group, as `harness.analysis.metrics.Rate` has it.

    mean: None where no sample has a value.
    stderr: clustered; None over fewer than two clusters.
    ci95: Wilson's (1927) for verdicts of which each is its own cluster, else
        `Estimate.ci95`; of a score that leaves 0 to 1, `Estimate.ci95_unbounded`.
    n: samples with a value.
    n_clusters: statistical units they come from.
    without: samples without one.
    """

    mean: float | None
    stderr: float | None
    ci95: tuple[float, float] | None
    n: int
    n_clusters: int
    without: int


def of_round(attempts: AttemptTable, number: int = 1) -> AttemptTable:
    """The samples as they were in a round; those that had none are left out."""
    return attempts.take(attempts.round == number)


def any_of_first(attempts: AttemptTable, k: int) -> AttemptTable:
    """The samples, each passed if it passed in any of its first k rounds.

    One that stopped on its pass stays passed. One that has not passed is failed even
    where later rounds are missing or not judged; without a verdict in any of them it
    is not judged (`harness.analysis.metrics.Rounds.any_of_first_k`).
    """
    starts = attempts.sample_starts().nonzero()[0].astype(np.int32)
    if not len(starts):
        return attempts
    # A pass is more than a failure, which is more than no verdict.
    reached = np.where(attempts.round <= k, attempts.passed, np.int8(NOT_JUDGED))
    passed = np.maximum.reduceat(reached, starts).astype(np.int8)
    return replace(attempts.take(starts), passed=passed)


def rates(samples: AttemptTable, *labels: str) -> dict[Key, Part]:
    """The pass rate of each group, sorted; of all samples under ``()`` where no label is given.

    samples: one row for each.
    labels: a sample belongs where its instance has a group of each.
    """

    def part(rows: AttemptTable) -> Part:
        judged = rows.take(rows.judged)
        estimate = _mean(judged.passed, judged.cluster)
        return _part(estimate, rate_interval(estimate, int(judged.passed.sum())), len(rows))

    return _by(samples, labels, part)


def means(samples: AttemptTable, score: str, *labels: str) -> dict[Key, Part]:
    """The mean of a score in each group, as `rates`; empty where the samples have no such score."""
    if score not in samples.scores:
        return {}
    known = samples.scores[score][samples.measured(score)]
    # Of all samples, not of a group's: the intervals of a picture shall be of one kind.
    fractions = bool(np.all((known >= 0) & (known <= 1)))

    def part(rows: AttemptTable) -> Part:
        measured = rows.measured(score)
        estimate = _mean(rows.scores[score][measured], rows.cluster[measured])
        return _part(estimate, estimate.ci95 if fractions else estimate.ci95_unbounded, len(rows))

    return _by(samples, labels, part)


def parts(samples: AttemptTable, *labels: str) -> Iterator[tuple[Key, AttemptTable]]:
    """The rows of each group, sorted, for what is neither a rate nor a mean; as `rates`."""
    yield from _groups(samples, labels)


def _part(estimate: Estimate, ci95: tuple[float, float] | None, samples: int) -> Part:
    return Part(
        estimate.mean, estimate.stderr, ci95, estimate.n, estimate.n_clusters, samples - estimate.n
    )


def _mean(values: NDArray[np.generic], clusters: Ints) -> Estimate:
    # Numbered anew: a small group's units may be any of a million.
    return clustered_mean(values, np.unique(clusters, return_inverse=True)[1])


def _by(
    samples: AttemptTable, labels: tuple[str, ...], part: Callable[[AttemptTable], Part]
) -> dict[Key, Part]:
    return {key: part(rows) for key, rows in _groups(samples, labels)}


def _groups(samples: AttemptTable, labels: tuple[str, ...]) -> Iterator[tuple[Key, AttemptTable]]:
    keys = [
        tuple(groups[label] for label in labels) if all(label in groups for label in labels) else ()
        for groups in samples.instances.groupings
    ]
    if not labels:
        yield (), samples
        return
    names = sorted({key for key in keys if key})
    number = {key: place for place, key in enumerate(names)}
    of_grouping = np.array([number.get(key, -1) for key in keys], dtype=np.intp)
    codes = of_grouping[samples.instances.grouping[samples.instance]]
    for place, rows in rows_by(codes, len(names)):
        yield names[place], samples.take(rows)
