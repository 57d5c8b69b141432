"""Computes the mean of a score in each group of instances.

A score of k samples has one value for each instance with at least k verdicts. ``pass@4`` is an
unbiased estimate of the probability that at least one of 4 samples passes. ``pass^4`` is an
unbiased estimate of the probability that all 4 pass. ``any@4`` says whether at least one of the
first 4 samples passed, and needs a verdict on all 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.analysis.clustered import (
    Estimate,
    clustered_means,
    linearised_share,
)
from harness.analysis.metrics import PASS_RATE, SampleStatistic
from harness.config.sections import split_k
from harness.store.columns import (
    NOT_JUDGED,
    AttemptTable,
    Bools,
    InstanceTable,
    Ints,
    change_mask,
    group_rows,
)

Key = tuple[str, ...]  # of a group: the names of its groups by one or more labels


def select_round(attempts: AttemptTable, round_number: int = 1) -> AttemptTable:
    """Return the attempts of one round."""
    return attempts.take(attempts.round == round_number)


def best_of_first_rounds(attempts: AttemptTable, k: int) -> AttemptTable:
    """Return one row per sample, with the sample's best verdict in rounds 1 to k."""
    starts = attempts.sample_starts()
    # Verdicts are numbers, pass > failure > no verdict, so the maximum is the best one.
    passed = np.where(attempts.round <= k, attempts.passed, np.int8(NOT_JUDGED)).astype(np.int8)
    if not starts.all():
        passed = np.maximum.reduceat(passed, starts.nonzero()[0])
    return replace(attempts.take(starts), passed=passed)


def score_values(samples: AttemptTable, score: str) -> tuple[Bools, NDArray[Any]]:
    """Select the values of a score.

    Args:
        samples: The n samples.
        score: The name of the score, or `PASS_RATE` for the verdicts.

    Returns:
        The (n,) mask of samples that have a value, and their values.
    """
    if score == PASS_RATE:
        return samples.has_verdict, samples.passed[samples.has_verdict]
    if score not in samples.scores:
        return np.zeros(len(samples), np.bool_), np.zeros(0)
    measured = samples.has_score(score)
    return measured, samples.scores[score][measured]


def is_verdict(table: AttemptTable, score: str) -> bool:
    """Return whether a score is the pass rate, or its values are true and false."""
    return score == PASS_RATE or (score in table.scores and table.scores[score].dtype == np.int8)


def is_share(table: AttemptTable, score: str) -> bool:
    """Return whether a score's values are verdicts, or numbers that are declared as shares.

    Runs of earlier versions declare nothing. In these, a numeric score counts as a share if all its
    values are between 0 and 1.
    """
    if is_verdict(table, score):
        return True
    if score in table.shares:
        return table.shares[score]
    _, values = score_values(table, score)
    return bool(np.all((values >= 0) & (values <= 1)))


def rows_for_score(samples: AttemptTable, score: str) -> AttemptTable:
    """Return the rows that a score is averaged over: samples or, for ``pass@4``, instances.

    The values of a score such as ``pass@4`` are stored in ``passed``. A recorded score of the same
    name takes precedence.
    """
    kind, k = split_k(score)
    if not k:
        return samples
    if score in samples.scores:
        return replace(samples, passed=np.nan_to_num(samples.scores[score], nan=NOT_JUDGED))
    rows = samples.take(change_mask(samples.instance))
    judged = samples.take(samples.has_verdict & ((samples.sample < k) | (kind != "any@")))
    n_instances = len(samples.instances.digest)
    n_judged = np.bincount(judged.instance, minlength=n_instances)[rows.instance]
    passing_instances = judged.instance[judged.passed == 1]
    n_passed = np.bincount(passing_instances, minlength=n_instances)[rows.instance]
    has_enough = n_judged >= k
    values = np.full(len(rows), np.nan)
    estimate = pass_hat_k if kind == "pass^" else pass_at_k
    *_, values[has_enough] = estimate(n_judged[has_enough], n_passed[has_enough], k)
    return replace(rows, passed=np.nan_to_num(values, nan=NOT_JUDGED), scores={score: values})


def pass_at_k(
    drawn: NDArray[Any], passed: NDArray[Any], k_max: int
) -> Iterator[NDArray[np.float64]]:
    """Yield, for k = 1 … k_max, each instance's probability that at least one of k samples passes.

    This is the unbiased estimate 1 - C(n - c, k) / C(n, k) of Chen et al. 2021, "Evaluating Large
    Language Models Trained on Code" (arXiv 2107.03374), equation 1.

    Args:
        drawn: (m,) Each instance's number of samples, n ≥ k_max.
        passed: (m,) Each instance's number of samples that passed, c.
        k_max: The largest k.

    Yields:
        (m,) The probabilities, for one k.

    Raises:
        ValueError: If an instance has fewer than k_max samples.

    >>> [float(at_k[0].round(3)) for at_k in pass_at_k(np.array([3]), np.array([1]), 3)]
    [0.333, 0.667, 1.0]
    """
    for all_fail in pass_hat_k(drawn, drawn - passed, k_max):
        yield 1 - all_fail


def pass_hat_k(
    drawn: NDArray[Any], passed: NDArray[Any], k_max: int
) -> Iterator[NDArray[np.float64]]:
    """Yield, for k = 1 … k_max, each instance's probability that all k samples pass.

    This is C(c, k) / C(n, k), as in Yao et al. 2024, "τ-bench" (arXiv 2406.12045), section 3. It is
    computed as a product of probabilities, which cannot overflow. Arguments and errors are those of
    `pass_at_k`.
    """
    if len(drawn) and k_max > drawn.min():
        raise ValueError(f"k = {k_max} needs {k_max} samples of each instance")
    probability = np.ones(len(drawn))
    for n_before in range(k_max):
        probability = probability * (np.maximum(passed - n_before, 0) / (drawn - n_before))
        yield probability


@dataclass(frozen=True, slots=True)
class Groups:
    """Instances grouped by labels. A unit (of statistics) is the part of a cluster in one group."""

    names: Sequence[Key]  # sorted; the group with index i is named names[i]
    group_of_instance: Ints  # (m,) index of each instance's group, -1 if it lacks a label
    unit_of_instance: Ints  # (m,) index of each instance's unit, -1 without a group
    group_of_unit: Ints  # (u,) index of each unit's group, ascending

    @classmethod
    def from_labels(cls, instances: InstanceTable, *labels: str) -> Groups:
        """Group instances by labels or, without labels, into one group with the name ``()``."""
        if not labels:
            unit = instances.cluster
            n_units = unit.max(initial=-1) + 1
            return cls([()], np.zeros_like(unit), unit, np.zeros(n_units, np.int32))
        codes, names = group_codes(instances.groupings, labels)
        group = codes[instances.grouping] if len(codes) else codes
        grouped = group >= 0
        unit = np.full(len(group), -1, np.int32)
        unit_keys = group[grouped].astype(np.int64) << 32 | instances.cluster[grouped]
        unit_keys, unit[grouped] = np.unique(unit_keys, return_inverse=True)
        return cls(names, group, unit, (unit_keys >> 32).astype(np.int32))

    def sizes(self, rows: AttemptTable) -> list[int]:
        """Return the number of rows in each group, by group index."""
        group = self.group_of_instance[rows.instance]
        sizes: list[int] = np.bincount(group[group >= 0], minlength=len(self.names)).tolist()
        return sizes

    def estimates(self, samples: AttemptTable, score: str) -> dict[int, Estimate]:
        """Return the mean of a score (or `PASS_RATE`) in each group with values, by group index."""
        values, unit = self._values_and_units(samples, score)
        return clustered_means(values, unit, self.group_of_unit)

    def cluster_rates(self, samples: AttemptTable) -> dict[int, Estimate]:
        """Return the mean of clusters' pass rates in each group with verdicts, by group index."""
        verdicts, unit_of_verdict = self._values_and_units(samples, PASS_RATE)
        n = np.bincount(unit_of_verdict, minlength=len(self.group_of_unit))
        (units,) = n.nonzero()
        rates = np.bincount(unit_of_verdict, verdicts)[units] / n[units]
        return clustered_means(rates, units, self.group_of_unit)

    def _values_and_units(self, samples: AttemptTable, score: str) -> tuple[NDArray[Any], Ints]:
        """Return the values of a score in all groups, and the unit index of each value."""
        has_value, values = score_values(samples, score)
        unit = self.unit_of_instance[samples.instance[has_value]]
        return values[unit >= 0], unit[unit >= 0]

    def means(self, samples: AttemptTable, score: str) -> dict[int, SampleStatistic]:
        """Return the mean of a score (or `PASS_RATE`) in each group with samples, by group index.

        The intervals are those of `Estimate.ci95` for shares (`is_share`), and otherwise t
        intervals.
        """
        estimates = self.estimates(samples, score)
        share = is_share(samples, score)
        statistics = {}
        for group_index, n in enumerate(self.sizes(samples)):
            if n:
                estimate = estimates.get(group_index, Estimate())
                statistics[group_index] = estimate.over_samples(n, share=share)
        return statistics


def mean_by_group(
    samples: AttemptTable, score: str, *labels: str, weight: str = ""
) -> dict[Key, SampleStatistic]:
    """Return the mean of a score in each group.

    Args:
        samples: The samples.
        score: The name of the score, or `PASS_RATE`.
        labels: The labels by which the samples are grouped. Without labels, the result has the
            only key ``()``.
        weight: A score that weights the values, if the samples have it.
    """
    if weight in samples.scores and len(samples):
        return weighted_mean_by_group(samples, score, weight, *labels)
    groups = Groups.from_labels(samples.instances, *labels)
    means = groups.means(samples, score)
    if not (labels or means):
        return {(): SampleStatistic()}
    return {groups.names[index]: mean for index, mean in means.items()}


def mean_score(samples: AttemptTable, score: str, weight: str = "") -> SampleStatistic:
    """Return the mean of a score (or `PASS_RATE`) over all samples.

    It is weighted by the score ``weight`` if the samples have it.
    """
    return mean_by_group(samples, score, weight=weight)[()]


def group_codes(
    groupings: Sequence[Mapping[str, str]], labels: tuple[str, ...]
) -> tuple[Ints, list[Key]]:
    """Number the distinct combinations of groups.

    Args:
        groupings: m mappings of labels to groups.
        labels: The labels whose groups make up a key.

    Returns:
        The (m,) indices of the groupings' keys, or -1 if a label is missing, and the sorted keys.
    """
    keys: list[Key] = []
    for groups in groupings:
        complete = all(label in groups for label in labels)
        keys.append(tuple(groups[label] for label in labels) if complete else ())
    names = sorted({key for key in keys if key})
    index_of_key = {key: index for index, key in enumerate(names)}
    return np.array([index_of_key.get(key, -1) for key in keys], dtype=np.int32), names


def weighted_mean_by_group(
    samples: AttemptTable, score: str, weight: str, *labels: str
) -> dict[Key, SampleStatistic]:
    """Return the mean of a score in each group of ``labels``, weighted by another score."""

    def weighted_mean(rows: AttemptTable) -> SampleStatistic:
        values, weights, clusters = paired_score_values(rows, score, weight)
        share = is_share(rows, score)
        return ratio_of_sums(weights * values, weights, clusters, len(rows), share=share)

    return statistic_by_group(samples, labels, weighted_mean)


def statistic_by_group(
    samples: AttemptTable,
    labels: tuple[str, ...],
    compute: Callable[[AttemptTable], SampleStatistic],
) -> dict[Key, SampleStatistic]:
    """Compute a statistic of the samples in each group of ``labels``."""
    groups = Groups.from_labels(samples.instances, *labels)
    rows_by_group = group_rows(groups.group_of_instance[samples.instance], len(groups.names))
    return {groups.names[index]: compute(samples.take(rows)) for index, rows in rows_by_group}


def paired_score_values(
    rows: AttemptTable, first: str, second: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], Ints]:
    """Return the values of two scores, and the clusters, of the rows that have both scores."""
    has_first, _ = score_values(rows, first)
    has_second, _ = score_values(rows, second)
    paired_rows = rows.take(has_first & has_second)
    _, first_values = score_values(paired_rows, first)
    _, second_values = score_values(paired_rows, second)
    return first_values.astype(np.float64), second_values.astype(np.float64), paired_rows.cluster


def ratio_of_sums(
    numerators: NDArray[np.float64],
    denominators: NDArray[np.float64],
    clusters: Ints,
    n_samples: int,
    *,
    share: bool,
) -> SampleStatistic:
    """Return the ratio of two sums over samples.

    Args:
        numerators: (n,) The terms of the first sum.
        denominators: (n,) The terms of the second sum.
        clusters: (n,) The clusters of the terms.
        n_samples: The number of all samples. Those without a term count as missing.
        share: Whether the ratio is a share by definition.
    """
    if not denominators.sum():
        return SampleStatistic(missing=n_samples)
    estimate = linearised_share(numerators, denominators, clusters)
    return estimate.over_samples(n_samples, share=share)
