"""Figures that only tables have: averages of groups, ratios, and the tokens and times of calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.analysis.breakdown import (
    Key,
    by_group,
    group_codes,
    is_share,
    ratio_of_sums,
    values_of,
    values_of_both,
)
from harness.analysis.clustered import over_samples
from harness.analysis.metrics import SampleStatistic
from harness.plugins.comparisons.costs import TimedLine
from harness.plugins.comparisons.strata import mean_of_groups
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
        times[row] = np.nan if line.seconds is None else 1000 * line.seconds
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
        has_value, _ = values_of(rows, score)
        counted = has_value & (part >= 0)
        samples = rows.take(counted)
        if not len(samples):
            return SampleStatistic(missing=len(rows))
        _, values = values_of(samples, score)
        estimate = mean_of_groups(values, samples.cluster, part[counted])
        return over_samples(estimate.share() if fractions else estimate.number(), len(rows))

    return by_group(samples, labels, figure)


def ratio(
    samples: AttemptTable, score: str, per: str, *labels: str, share: bool = False
) -> dict[Key, SampleStatistic]:
    """Return the sum of ``score`` divided by the sum of ``per``, by group of ``labels``.

    Only samples that have both scores count. A declared ``share`` that a value contradicts is none.
    """
    share = share and is_part(samples, score, per)

    def figure(rows: AttemptTable) -> SampleStatistic:
        numerators, denominators, clusters = values_of_both(rows, score, per)
        return ratio_of_sums(numerators, denominators, clusters, len(rows), share=share)

    return by_group(samples, labels, figure)


def is_part(samples: AttemptTable, score: str, per: str) -> bool:
    """Return whether ``score`` is from 0 to ``per`` in all samples that have both."""
    numerators, denominators, _ = values_of_both(samples, score, per)
    return bool(((numerators >= 0) & (numerators <= denominators)).all())
