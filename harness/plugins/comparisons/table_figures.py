"""The figures of results tables.

Only tables have averages of groups, ratios, macro-F1, and the tokens and latencies of calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
from msgspec.structs import replace as replaced
from numpy.typing import NDArray

from harness.analysis.breakdown import (
    Key,
    group_codes,
    is_share,
    mean_by_group,
    paired_score_values,
    ratio_of_sums,
    score_values,
    statistic_by_group,
    weighted_mean_by_group,
)
from harness.analysis.clustered import linearised_statistic, to_sample_statistic
from harness.analysis.metrics import PASS_RATE, SampleStatistic, Statistic
from harness.errors import ConfigError
from harness.plugin_loader import Kind
from harness.plugins.comparisons.comparable import has_score
from harness.plugins.comparisons.costs import TimedLine
from harness.plugins.comparisons.strata import mean_of_groups
from harness.ports import FigureKind, TableFigure
from harness.records import CONSTRAINT_REFUSED
from harness.store.columns import AttemptTable
from harness.store.index import AttemptIndex

TOKENS = "output_tokens"
MILLISECONDS = "milliseconds"


def with_call_scores(path: Path) -> AttemptTable:
    """Return the attempts of an attempts file with two more scores, `TOKENS` and `MILLISECONDS`.

    These are the output tokens and the duration of the attempt's call, or NaN if unknown or if the
    provider refused the constraint. The duration of failed and cached calls is NaN, too, but not
    that of crashes.
    """
    index = AttemptIndex(path)
    rows = np.arange(len(index))
    tokens = np.full(len(rows), np.nan)
    times = np.full(len(rows), np.nan)
    for row, line in zip(rows, index.read(TimedLine, rows), strict=True):
        if line.seconds is not None:
            times[row] = 1000 * line.seconds
        if line.usage is not None and line.finish_reason != CONSTRAINT_REFUSED:
            tokens[row] = line.usage.output_tokens
    scores = {**index.attempts.scores, TOKENS: tokens, MILLISECONDS: times}
    shares = {**index.attempts.shares, TOKENS: False, MILLISECONDS: False}
    return replace(index.attempts, scores=scores, shares=shares)


def averaged(
    samples: AttemptTable, score: str, label: str, *labels: str
) -> dict[Key, SampleStatistic]:
    """Return the average of a score's means in the groups of ``label``, by group of ``labels``."""
    codes, _ = group_codes(samples.instances.groupings, (label,))
    fractions = is_share(samples, score)

    def figure(rows: AttemptTable) -> SampleStatistic:
        part = codes[rows.instances.grouping[rows.instance]]
        has_value, _ = score_values(rows, score)
        counted = has_value & (part >= 0)
        samples = rows.take(counted)
        if not len(samples):
            return SampleStatistic(missing=len(rows))
        _, values = score_values(samples, score)
        estimate = mean_of_groups(values, samples.cluster, part[counted])
        return estimate.over_samples(len(rows), share=fractions)

    return statistic_by_group(samples, labels, figure)


def ratio(
    samples: AttemptTable, score: str, per: str, *labels: str, share: bool = False
) -> dict[Key, SampleStatistic]:
    """Return the sum of ``score`` divided by the sum of ``per``, by group of ``labels``.

    Only samples that have both scores count. A declared ``share`` that a value contradicts is none.
    """
    share = share and is_part(samples, score, per)

    def figure(rows: AttemptTable) -> SampleStatistic:
        numerators, denominators, clusters = paired_score_values(rows, score, per)
        return ratio_of_sums(numerators, denominators, clusters, len(rows), share=share)

    return statistic_by_group(samples, labels, figure)


def is_part(samples: AttemptTable, score: str, per: str) -> bool:
    """Return whether ``score`` is from 0 to ``per`` in all samples that have both."""
    numerators, denominators, _ = paired_score_values(samples, score, per)
    return bool(((numerators >= 0) & (numerators <= denominators)).all())


Ratio = tuple[NDArray[np.float64], NDArray[np.float64]]  # each sample's numerator and denominator


def macro_f1(
    samples: AttemptTable, score: str, label: str, *labels: str
) -> dict[Key, SampleStatistic]:
    """Return the macro-averaged F1 over the two groups of ``label``, by group of ``labels``.

    These groups are the classes. The result is the mean over the classes of F1_c = 2 TP / (2 TP +
    FP + FN), the "averaged F1" of Opitz and Burst (2021, "Macro F1 and Macro F1", arXiv
    1911.03347), which they recommend over the F1 of averaged precision and recall.

    An answer predicts its instance's class if the score is true, and the other class if the score
    is false. A judged answer without the score (refused, empty, unreadable) predicts neither: it
    is a miss for its instance's class, but no false alarm for the other. Failed calls are excluded.
    If the counted answers of a group lack a class, the value is None: the other class's F1 alone is
    a different statistic.
    """
    codes, classes = group_codes(samples.instances.groupings, (label,))
    if len(classes) > 2:
        problem = f"The label {label!r} has {len(classes)} groups, not two: it has no macro-F1."
        raise ConfigError(problem, "Name a label with two groups, or another --score.")

    def figure(rows: AttemptTable) -> SampleStatistic:
        actual = codes[rows.instances.grouping[rows.instance]]
        has_value, values = score_values(rows, score)
        predicted = np.full(len(rows), -1)
        predicted[has_value] = np.where(values != 0, actual[has_value], 1 - actual[has_value])
        counted = (actual >= 0) & (has_value | rows.has_verdict)
        actual = actual[counted]
        predicted = predicted[counted]
        clusters = rows.cluster[counted]
        n = len(actual)
        if len(np.unique(actual)) < 2:
            n_clusters = len(np.unique(clusters))
            return SampleStatistic(n=n, n_clusters=n_clusters, missing=len(rows) - n)
        ratios = []
        for number in (0, 1):  # 2 TP over 2 TP + FP + FN, of each class
            in_class = actual == number
            chosen = predicted == number
            ratios.append((2.0 * (in_class & chosen), in_class + 1.0 * chosen))
        # A t interval: F1 is not a share.
        return to_sample_statistic(mean_of_ratios(ratios, clusters), len(rows))

    return statistic_by_group(samples, labels, figure) or (
        {} if labels else {(): SampleStatistic()}
    )


def mean_of_ratios(ratios: Sequence[Ratio], clusters: NDArray[np.integer]) -> Statistic:
    """Estimate the mean of ratios, each of which divides one sum over n samples by another.

    The interval is by t, clipped to [0, 1].

    Args:
        ratios: Pairs of (n,) numerators and (n,) denominators.
        clusters: (n,) The indices of the samples' clusters.
    """
    if not ratios or not all(lower.sum() for _, lower in ratios):
        return Statistic()
    mean = 0.0
    influence = np.zeros(len(clusters))
    for upper, lower in ratios:
        value = float(upper.sum() / lower.sum())
        mean += value / len(ratios)
        influence += (upper - value * lower) / lower.mean() / len(ratios)
    return linearised_statistic(mean, influence, clusters, 0.0, 1.0)


F1 = ("macro_f1", "macro_f1_answered")
KINDS = ("passed", "answered", "score", "ratio", *F1)
"""The core's kinds of figures. Plug-ins bring others (`FigureKind`)."""


def figure_kind(name: str) -> FigureKind | None:
    """Return a kind of figure that a plug-in brings, or None if it is one of the core's."""
    return None if name in KINDS else cast("FigureKind", Kind("table_figures").load(name))


def applies(figure: TableFigure, table: AttemptTable) -> bool:
    """Return whether a run has the score and the labels of a figure."""
    if not {figure.label, figure.average} - {""} <= set(table.labels()):
        return False
    # A macro-F1 is defined even if no answer has the score: all answers are then misses.
    return figure.of == "macro_f1" or not figure.score or has_score(table, figure.score)


def figure_values(
    samples: AttemptTable, figure: TableFigure, *labels: str
) -> dict[Key, SampleStatistic]:
    """Return a figure of the core's kinds by group of ``labels``."""
    if figure.of == "macro_f1":
        return macro_f1(samples, figure.score, figure.label, *labels)
    if figure.of == "ratio":
        return ratio(samples, figure.score, figure.per, *labels, share=figure.share)
    if figure.average and figure.average not in labels:
        return averaged(samples, figure.score or PASS_RATE, figure.average, *labels)
    passed = mean_by_group(samples, PASS_RATE, *labels)
    if figure.of == "passed":
        return passed
    if figure.of == "score":
        measured = mean_by_group(samples, figure.score, *labels)
        if figure.weight:
            measured = weighted_mean_by_group(samples, figure.score, figure.weight, *labels)
    else:
        answered = samples.take(samples.has_score(figure.score))
        measured = mean_by_group(answered, PASS_RATE, *labels)
        if figure.of == "macro_f1_answered":
            measured = macro_f1(answered, figure.score, figure.label, *labels)
    values = {}
    for key, total in passed.items():
        statistic = measured.get(key, SampleStatistic())
        values[key] = replaced(statistic, missing=total.n + total.missing - statistic.n)
    return values


def is_fraction(samples: AttemptTable, figure: TableFigure) -> bool:
    """Return whether all values of a figure are between 0 and 1."""
    if figure.score in (TOKENS, MILLISECONDS):
        return False
    if figure.of == "ratio":
        return figure.share and is_part(samples, figure.score, figure.per)
    return figure.of != "score" or is_share(samples, figure.score)
