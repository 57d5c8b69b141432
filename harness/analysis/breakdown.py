"""Rates, means and macro-F1 by the groups of one label, or of two together.

Each function takes one row per sample: a given round, the last round or all of the first k.
Samples without a verdict or value are counted and excluded. The figures are those of
`harness.analysis.summary`.

>>> first = of_round(attempts)  # doctest: +SKIP
>>> rates(first, "structure", "source")["word01", "wiki"].mean  # doctest: +SKIP
1.0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.analysis.clustered import SampleStatistic, clustered_mean
from harness.analysis.metrics import PASS_RATE
from harness.errors import ConfigError
from harness.store.columns import NOT_JUDGED, AttemptTable, Bools, Ints, rows_by

Key = tuple[str, ...]
"""A group of each label that was asked for."""


def last_rounds(attempts: AttemptTable, round_: int | None = None) -> AttemptTable:
    """Return each sample's last round, or its last one up to a given round."""
    reached = attempts if round_ is None else attempts.take(attempts.round <= round_)
    return reached.last_rounds()


def of_round(attempts: AttemptTable, number: int = 1) -> AttemptTable:
    """Return the samples as of a round; samples without that round are excluded."""
    return attempts.take(attempts.round == number)


def any_of_first(attempts: AttemptTable, k: int) -> AttemptTable:
    """Return the samples, each passed if it passed in any of its first k rounds.

    A sample that stopped when it passed stays passed. A sample that has not passed is failed
    even if later rounds are missing or not judged; without a verdict in any of them it is not
    judged (`harness.analysis.metrics.Rounds.any_of_first_k`).
    """
    starts = attempts.sample_starts().nonzero()[0].astype(np.int32)
    if not len(starts):
        return attempts
    # As numbers, a pass is larger than a failure, which is larger than no verdict.
    reached = np.where(attempts.round <= k, attempts.passed, np.int8(NOT_JUDGED))
    passed = np.maximum.reduceat(reached, starts).astype(np.int8)
    return replace(attempts.take(starts), passed=passed)


def values_of(samples: AttemptTable, score: str) -> tuple[Bools, NDArray[Any]]:
    """Return a mask of the samples that have a score (or `PASS_RATE`), and their values."""
    if score == PASS_RATE:
        return samples.judged, samples.passed[samples.judged]
    if score not in samples.scores:
        return np.zeros(len(samples), np.bool_), np.zeros(0)
    measured = samples.measured(score)
    return measured, samples.scores[score][measured]


def is_verdict(table: AttemptTable, score: str) -> bool:
    """Return whether a score is the pass rate, or true or false."""
    return score == PASS_RATE or (score in table.scores and table.scores[score].dtype == np.int8)


def are_fractions(samples: AttemptTable, score: str) -> bool:
    """Return whether all values of a score are between 0 and 1."""
    _, values = values_of(samples, score)
    return bool(np.all((values >= 0) & (values <= 1)))


def rates(samples: AttemptTable, *labels: str) -> dict[Key, SampleStatistic]:
    """Return the pass rate of each group, sorted; without labels, of all samples under ``()``.

    A sample is in a group if its instance has a group of each label.
    """
    return {key: value_of(rows, PASS_RATE) for key, rows in _groups(samples, labels)}


def means(samples: AttemptTable, score: str, *labels: str) -> dict[Key, SampleStatistic]:
    """The mean of a score in each group, as in `rates`; empty if the samples lack the score."""
    if score not in samples.scores:
        return {}
    # Of all samples, not of a group's: the intervals in a figure should be of one kind.
    fraction = are_fractions(samples, score)
    return {key: mean_of(rows, score, fraction) for key, rows in _groups(samples, labels)}


def mean_of(samples: AttemptTable, score: str, fraction: bool) -> SampleStatistic:
    """Return the mean of a score; that of a fraction has an interval between 0 and 1."""
    known, values = values_of(samples, score)
    estimate = clustered_mean(values, samples.cluster[known])
    ci95 = estimate.ci95 if fraction else estimate.clipped_ci95()
    return estimate.over_samples(ci95, len(samples))


def value_of(samples: AttemptTable, score: str) -> SampleStatistic:
    """Return the mean of a score or of `PASS_RATE`, with a rate's interval for a verdict."""
    known, values = values_of(samples, score)
    estimate = clustered_mean(values, samples.cluster[known])
    ci95 = estimate.rate_ci95 if is_verdict(samples, score) else estimate.clipped_ci95()
    return estimate.over_samples(ci95, len(samples))


def macro_f1(
    samples: AttemptTable, score: str, label: str, *labels: str
) -> dict[Key, SampleStatistic]:
    """Return the macro-averaged F1 of two classes in each group, as in `rates`.

    The mean over the classes of F1_c = 2 TP / (2 TP + FP + FN), the "averaged F1" of Opitz and
    Burst (2021, "Macro F1 and Macro F1", arXiv 1911.03347), which they recommend over the F1 of
    averaged precision and recall.

    An instance's class is its group under a label. The answer names that class if it is right,
    and the other one if it is wrong. An answer without a verdict (refused, empty, unreadable)
    names neither: a miss of its class, and no false alarm of the other. Failed calls are excluded.
    If one of the classes never occurs in a group, the value is None: the other class's F1 alone is
    a different statistic.

    Args:
        samples: One row for each sample.
        score: The score that is true where the answer is right about its class; samples may
            lack it.
        label: The label whose two groups are the classes.
        labels: As in `rates`.
    """
    codes, classes = group_codes(samples.instances.groupings, (label,))
    if len(classes) > 2:
        raise ConfigError(
            f"The label {label!r} has {len(classes)} groups, not two: it has no macro-F1.",
            "Name a label with two groups, or another figure (--score).",
        )
    return {key: _macro_f1(rows, score, codes) for key, rows in _groups(samples, labels)}


def _macro_f1(rows: AttemptTable, score: str, codes: Ints) -> SampleStatistic:
    """Compute the macro-F1 of some rows; ``codes`` has the class of each grouping, -1 for none."""
    right = codes[rows.instances.grouping[rows.instance]]
    known = correct = np.zeros(len(rows), np.bool_)
    if score in rows.scores:
        known = rows.measured(score)
        correct = known & (rows.scores[score] != 0)
    counted = (right >= 0) & (known | rows.judged)
    right, known, correct = right[counted], known[counted], correct[counted]
    clusters = rows.cluster[counted]
    said = np.where(known, np.where(correct, right, 1 - right), -1)
    figures: list[float] = []
    influence = np.zeros(len(right))
    for number in (0, 1):
        is_class, says_class = right == number, said == number
        if not is_class.any():
            undefined = replace(clustered_mean(influence, clusters), mean=None, stderr=None)
            return undefined.over_samples(None, len(rows))
        twice = 2.0 * (is_class & says_class)  # 2 TP
        size = is_class.astype(np.float64) + says_class  # 2 TP + FP + FN
        f1 = float(twice.sum() / size.sum())
        figures.append(f1)
        # A ratio of means, linearised: how far each answer moves it.
        influence += (twice - f1 * size) / size.mean() / 2
    estimate = replace(clustered_mean(influence, clusters), mean=sum(figures) / 2)
    # Not `ci95`: its bound where all answers are alike is for a mean, which this is not.
    return estimate.over_samples(estimate.clipped_ci95(0.0, 1.0), len(rows))


def _groups(samples: AttemptTable, labels: tuple[str, ...]) -> Iterator[tuple[Key, AttemptTable]]:
    """Yield the rows of each group, sorted; without labels, all rows under ``()``."""
    if not labels:
        yield (), samples
        return
    codes, names = group_codes(samples.instances.groupings, labels)
    for place, rows in rows_by(codes[samples.instances.grouping[samples.instance]], len(names)):
        yield names[place], samples.take(rows)


def group_codes(
    groupings: Sequence[Mapping[str, str]], labels: tuple[str, ...]
) -> tuple[Ints, list[Key]]:
    """Number the groups of some labels together.

    Returns:
        The number of each grouping's group, -1 if it lacks a label; and the groups, sorted.
    """
    keys = [
        tuple(groups[label] for label in labels) if all(label in groups for label in labels) else ()
        for groups in groupings
    ]
    names = sorted({key for key in keys if key})
    number = {key: place for place, key in enumerate(names)}
    return np.array([number.get(key, -1) for key in keys], dtype=np.int32), names
