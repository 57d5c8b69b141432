"""Figures that are no plain means: ratios of sums, and weighted means."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from harness.analysis.breakdown import Groups, Key, is_share, values_of
from harness.analysis.clustered import (
    linearised_share,
    over_samples,
)
from harness.analysis.metrics import SampleStatistic
from harness.store.columns import AttemptTable, Ints, rows_by


def weighted_means(
    samples: AttemptTable, score: str, weight: str, *labels: str
) -> dict[Key, SampleStatistic]:
    """Return the mean of ``score``, weighted by the score ``weight``, by group of ``labels``."""

    def figure(rows: AttemptTable) -> SampleStatistic:
        values, weights, clusters = values_of_both(rows, score, weight)
        share = is_share(rows, score)
        return ratio_of_sums(weights * values, weights, clusters, len(rows), share=share)

    return by_group(samples, labels, figure)


def by_group(
    samples: AttemptTable,
    labels: tuple[str, ...],
    figure: Callable[[AttemptTable], SampleStatistic],
) -> dict[Key, SampleStatistic]:
    """Return a figure of the samples in each group of ``labels``."""
    groups = Groups.by(samples.instances, *labels)
    by_number = rows_by(groups.of_instance[samples.instance], len(groups.names))
    return {groups.names[number]: figure(samples.take(rows)) for number, rows in by_number}


def values_of_both(
    rows: AttemptTable, first: str, second: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], Ints]:
    """Return the values of two scores and the clusters of the rows that have both."""
    both = rows.take(values_of(rows, first)[0] & values_of(rows, second)[0])
    _, values = values_of(both, first)
    _, second_values = values_of(both, second)
    return values.astype(np.float64), second_values.astype(np.float64), both.cluster


def ratio_of_sums(
    numerators: NDArray[np.float64],
    denominators: NDArray[np.float64],
    clusters: Ints,
    n_samples: int,
    *,
    share: bool,
) -> SampleStatistic:
    """Return one sum divided by another, with ``n_samples`` less the summed ones as missing."""
    if not denominators.sum():
        return SampleStatistic(missing=n_samples)
    estimate = linearised_share(numerators, denominators, clusters)
    return over_samples(estimate.share() if share else estimate.number(), n_samples)
