"""Each of several runs against each other one, by a score.

Owns which test stands in a matrix and what is starred. Verdicts (the pass rate, and every score
that is true or false) where each cluster holds one pair: McNemar's exact test. Other scores, and
verdicts of several samples or of instances that share a cluster: Student's t of the paired
differences, clustered (`harness.analysis.comparison.compare`). A star is an unadjusted p < 0.01,
as in figures 13 and 14 of Lior et al. 2025 (arXiv 2503.06573); beside it stands p adjusted by
Holm for all pairs of the matrix, which is what a search for differences should go by.

>>> pair_matrix(runs, "yes_no.strict").pairs[0].starred  # doctest: +SKIP
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from harness.analysis.clustered import clustered_mean, rate_interval
from harness.analysis.comparable import Variant, differing, refuse_incomparable
from harness.analysis.comparison import Comparison, adjusted, compare
from harness.analysis.pairing import Pairs, pair
from harness.analysis.question import PASS_RATE
from harness.errors import ConfigError, nearest
from harness.store.columns import AttemptTable

STARRED = 0.01
"""p values below it have a star."""

Run = tuple[Variant, AttemptTable]


class Value(Struct, frozen=True, kw_only=True):
    """The mean of a run's values, each sample weighing the same.

    mean: None over no values.
    stderr, ci95: clustered, as in `harness.analysis.metrics.Rate`.
    missing: samples without a value: failed, not judged; of a judge's score also those that
        were refused or empty, and so put before nobody.
    """

    mean: float | None
    stderr: float | None
    ci95: tuple[float, float] | None
    n: int
    n_clusters: int
    missing: int = 0


class Row(Struct, frozen=True, kw_only=True):
    """A run of the matrix. marks: why it may not be what it seems."""

    run: str
    model: str
    marks: list[str]
    value: Value


class Pair(Struct, frozen=True, kw_only=True):
    """Two runs: `comparison` is of the second against the first.

    first, second: their places among the rows.
    starred: whether p, unadjusted, is below `STARRED`.
    """

    first: int
    second: int
    comparison: Comparison
    starred: bool


class PairMatrix(Struct, frozen=True, kw_only=True):
    """Every pair of runs.

    verdicts: whether the score is true or false.
    round: each sample's last one up to it counts; null for the last.
    cluster: label of the statistical unit; empty for the prompt.
    notes: sentences on what the runs differ in.
    """

    task: str
    score: str
    verdicts: bool
    round: int | None
    cluster: str
    rows: list[Row]
    pairs: list[Pair]
    notes: list[str]


def pair_matrix(
    runs: Sequence[Run], score: str = PASS_RATE, *, round_: int | None = None, cluster: str = ""
) -> PairMatrix:
    """Compare each two of the runs.

    runs: two or more of one task and one data set.
    score: its name, or `PASS_RATE`.
    round_: each sample's last round up to this one counts; None for its last one.
    cluster: label of the statistical unit; empty for the prompt.

    Raises: ConfigError; RunConflict where they cannot be compared.
    """
    base = runs[0][0]
    refuse_incomparable(base, [variant for variant, _ in runs[1:]])
    _refuse_unknown(runs, score, round_, cluster)
    verdicts = all(_is_verdict(table, score) for _, table in runs)
    places = list(combinations(range(len(runs)), 2))
    pairings = [_paired(runs, places_, score, round_, cluster, verdicts) for places_ in places]
    comparisons = adjusted([compare(pairs) for pairs in pairings])
    return PairMatrix(
        task=base.metrics.task,
        score=score,
        verdicts=verdicts,
        round=round_,
        cluster=cluster,
        rows=[
            Row(
                run=variant.name,
                model=variant.metrics.model or "",
                marks=variant.marks,
                value=value_of(table, score, round_),
            )
            for variant, table in runs
        ],
        pairs=[
            Pair(
                first=first,
                second=second,
                comparison=found,
                starred=found.p_value is not None and found.p_value < STARRED,
            )
            for (first, second), found in zip(places, comparisons, strict=True)
        ],
        notes=list(differing(base, [variant for variant, _ in runs[1:]])),
    )


def value_of(table: AttemptTable, score: str, round_: int | None = None) -> Value:
    """The mean of a score over each sample's last round."""
    reached = table if round_ is None else table.take(table.round <= round_)
    last = reached.last_rounds()
    if score == PASS_RATE:
        made = last.judged
        values: NDArray[np.number] = last.passed[made]
    elif score in last.scores:
        made = last.measured(score)
        values = last.scores[score][made]
    else:
        made, values = np.zeros(len(last), np.bool_), np.zeros(0)
    estimate = clustered_mean(values, last.cluster[made])
    if not _is_verdict(table, score):
        interval = estimate.ci95_unbounded
    elif estimate.n:
        interval = rate_interval(estimate, int(values.sum()))
    else:
        interval = None
    return Value(
        mean=estimate.mean,
        stderr=estimate.stderr,
        ci95=interval,
        n=estimate.n,
        n_clusters=estimate.n_clusters,
        missing=len(last) - estimate.n,
    )


def _is_verdict(table: AttemptTable, score: str) -> bool:
    return score == PASS_RATE or (score in table.scores and table.scores[score].dtype == np.int8)


def _paired(
    runs: Sequence[Run],
    places: tuple[int, int],
    score: str,
    round_: int | None,
    cluster: str,
    verdicts: bool,
) -> Pairs:
    first, second = (runs[place][1] for place in places)
    pairs = pair(first, second, score=score, round_=round_)
    # The mean of one sample's true or false is a verdict, whichever score says it.
    pairs = replace(pairs, verdicts=verdicts)
    return pairs.clustered_by(cluster) if cluster else pairs


def _refuse_unknown(runs: Sequence[Run], score: str, round_: int | None, cluster: str) -> None:
    for variant, table in runs:
        if score != PASS_RATE and score not in table.scores:
            raise ConfigError(
                f"The run {variant.name!r} has no score {score!r}.",
                nearest(score, [PASS_RATE, *table.scores]),
            )
        if cluster and cluster not in table.labels():
            raise ConfigError(
                f"--cluster: the run {variant.name!r} has no label {cluster!r}.",
                nearest(cluster, table.labels()),
            )
    last = max((int(table.round.max()) for _, table in runs if len(table)), default=1)
    if round_ is not None and round_ > last:
        raise ConfigError(
            f"None of the runs has a round {round_}: the last one is round {last}.",
            "Leave --round out for each sample's last one.",
        )
