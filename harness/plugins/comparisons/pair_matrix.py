"""Compares every pair of runs, and ranks runs by several scores, groups and published figures.

As figures 7b, 13 and 14, section 4.3 and appendix D of Lior et al. 2025 (arXiv 2503.06573). The
similarity of two rankings is Kendall's tau-b.
Published scores are CSV or JSONL: a field ``model``, and a number per benchmark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations, permutations
from math import erfc, isfinite, sqrt
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from harness.analysis.breakdown import is_verdict, mean_by_group, mean_score
from harness.analysis.metrics import PASS_RATE, SampleStatistic
from harness.datasets.rows import read_rows
from harness.errors import ConfigError, DataInvalid
from harness.plugins.comparisons.comparable import (
    Run,
    Variant,
    refuse_incomparable,
    refuse_unknown_label,
    scored_runs,
    weight_of,
)
from harness.plugins.comparisons.comparison import Comparison, Floats, adjusted, compare, pair
from harness.plugins.comparisons.run_comparison import RunComparison, counted_pairs, tau_b
from harness.plugins.comparisons.run_differences import differing
from harness.store.columns import AttemptTable

MAX_ORDERED = 7  # runs up to which all orders (of 7 runs, 5,040) are compared
MAX_EXACT = 33  # runs up to which the p value without ties is exact; SciPy's limit too


def _p_value(first: Floats, second: Floats) -> float:
    """Return the two-sided p value of tau-b for at least three runs.

    For many runs, it is based on a normal distribution with the variance of Kendall 1970, "Rank
    Correlation Methods", section 4.
    """
    n = len(first)
    pairs = n * (n - 1) // 2
    if n <= MAX_ORDERED:
        # The normal distribution gives four tied runs half of the smallest possible p value.
        first_signs = np.sign(np.subtract.outer(first, first))
        second_signs = np.sign(np.subtract.outer(second, second))
        orders = np.array(list(permutations(range(n))))
        in_orders = second_signs[orders[:, :, None], orders[:, None, :]]
        every = (first_signs * in_orders).sum(axis=(1, 2))
        return float(np.mean(abs(every) >= abs(every[0])))
    surplus, *untied = counted_pairs(first, second)
    if n <= MAX_EXACT and untied == [pairs, pairs]:
        share = np.ones(1)  # of all orders of m runs, by their number of discordant pairs
        for m in range(2, n + 1):
            share = np.convolve(share, np.full(m, 1 / m))
        return min(1.0, 2 * float(share[: (pairs - abs(surplus)) // 2 + 1].sum()))
    tied1, triples1, less1 = _ties(first)
    tied2, triples2, less2 = _ties(second)
    variance = (
        (n * (n - 1) * (2 * n + 5) - (less1 + less2)) / 18
        + tied1 * tied2 / (2 * n * (n - 1))
        + triples1 * triples2 / (9 * n * (n - 1) * (n - 2))
    )
    return erfc(abs(surplus) / sqrt(2 * variance))


def _ties(values: Floats) -> tuple[float, float, float]:
    """Return the three sums over groups of tied runs in the variance of tau-b."""
    _, t = np.unique(values, return_counts=True)
    pairs = t * (t - 1)
    return float(pairs.sum()), float((pairs * (t - 2)).sum()), float((pairs * (2 * t + 5)).sum())


class RankCorrelation(Struct, frozen=True, kw_only=True):
    """Kendall's tau-b of two scorings, over the runs that have a value in both."""

    tau_b: float | None  # None if all runs tie in a scoring
    p_value: float | None  # two-sided; null for fewer than three runs
    n_runs: int


def rank_correlation(values: Iterable[tuple[float | None, float | None]]) -> RankCorrelation:
    """Return Kendall's tau-b and its p value for the pairs in which neither value is None."""
    both = [pair for pair in values if None not in pair]
    # Sums in a different order differ in the last bits, which should not decide a rank.
    first, second = np.round(np.reshape(np.array(both, np.float64), (-1, 2)), 12).T
    coefficient = tau_b(first, second)
    p_value = None
    if coefficient is not None and len(both) >= 3:
        p_value = _p_value(first, second)
    return RankCorrelation(tau_b=coefficient, p_value=p_value, n_runs=len(both))


class Tau(RankCorrelation, frozen=True, kw_only=True):
    """The rank correlation of two scorings, which are given by their indices."""

    first: int
    second: int


# Unadjusted p values below this are starred in a matrix, as in figures 13 and 14 of Lior et al.
# 2025 (arXiv 2503.06573). When searching for differences, use the p adjusted by Holm for all pairs.
STARRED = 0.01


class MatrixRow(Struct, frozen=True, kw_only=True):
    """A row of the matrix: a run and its mean score."""

    run: str
    model: str
    marks: list[str]
    value: SampleStatistic


class RunPair(Struct, frozen=True):
    """The comparison of two rows. ``starred``: its unadjusted p is below `STARRED`."""

    first: int
    second: int
    comparison: Comparison
    starred: bool


class PairMatrix(Struct, frozen=True, kw_only=True):
    """Comparisons of all pairs of runs."""

    task: str
    score: str  # different scores of the rows are joined by "and"
    verdicts: bool  # whether the score's values are true and false
    round: int | None
    cluster: str
    rows: list[MatrixRow]
    pairs: list[RunPair]
    notes: list[str]
    weight: str = ""  # as in `RunComparison`

    def pair(self, baseline: str, run: str) -> Comparison:
        """Return the comparison of two runs, as ``run`` minus ``baseline``.

        Only its ``difference`` and ``ci95`` depend on the order: other fields are the pair's.
        """
        names = [row.run for row in self.rows]
        first = names.index(baseline)
        second = names.index(run)
        (pair,) = (pair for pair in self.pairs if {pair.first, pair.second} == {first, second})
        comparison = pair.comparison
        if pair.first == first or comparison.difference is None:
            return comparison
        ci95 = comparison.ci95
        if ci95 is not None:
            low, high = ci95
            ci95 = (-high, -low)
        return replace(comparison, difference=-comparison.difference, ci95=ci95)


def pair_matrix(
    runs: Sequence[Run], score: str = PASS_RATE, *, round_: int | None = None, cluster: str = ""
) -> PairMatrix:
    """Compare all pairs of ``runs``. The other arguments are fields of `ComparisonOptions`.

    Raises:
        ConfigError: If the score, the round or the label is unknown.
        RunConflict: If differences in task, data set or primary metric prevent a comparison.
    """
    base = runs[0][0]
    others = [variant for variant, _ in runs[1:]]
    refuse_incomparable(base, others)
    runs, measures, score = scored_runs(runs, score, round_)
    tables = [table for _, table in runs]
    refuse_unknown_label("--cluster", cluster, {variant.name: table for variant, table in runs})
    weight = weight_of((base, tables[0]), score)
    rows = []
    replies = []
    for variant, table in runs:
        marks = variant.marks
        if variant.score != measures:
            marks.append(f"by {variant.score}")
        model = variant.metrics.model or ""
        value = mean_score(table, score, weight)
        rows.append(MatrixRow(run=variant.name, model=model, marks=marks, value=value))
        replies.append(variant.replies())
    places = list(combinations(range(len(runs)), 2))
    unadjusted = []
    for first, second in places:
        pairs = pair(tables[first], tables[second], score=score, weight=weight)
        pairs = pairs.clustered_by(cluster)
        unadjusted.append(compare(pairs.sharing(replies[first].same_as(replies[second]))))
    run_pairs = []
    for (first, second), comparison in zip(places, adjusted(unadjusted), strict=True):
        starred = comparison.p_value is not None and comparison.p_value < STARRED
        run_pairs.append(RunPair(first, second, comparison, starred))
    return PairMatrix(
        task=base.metrics.task,
        score=measures,
        verdicts=all(is_verdict(table, score) for table in tables),
        round=round_,
        cluster=cluster,
        rows=rows,
        pairs=run_pairs,
        notes=list(differing(base, others, score, round_=round_)),
        weight=weight,
    )


def with_planned(matrix: PairMatrix, comparison: RunComparison) -> PairMatrix:
    """Return a matrix whose pairs with the baseline have the p values of ``comparison``."""
    planned = {against.run: against.overall.p_adjusted for against in comparison.others}
    planned[comparison.baseline] = None
    pairs = []
    for run_pair in matrix.pairs:
        names = {matrix.rows[run_pair.first].run, matrix.rows[run_pair.second].run}
        if comparison.baseline in names:
            rival = next(iter(names - {comparison.baseline}), comparison.baseline)
            compared = replace(run_pair.comparison, p_adjusted=planned[rival])
            run_pair = replace(run_pair, comparison=compared)
        pairs.append(run_pair)
    return replace(matrix, pairs=pairs)


MAX_GROUPS = 60  # a table with more groups would be unreadable

SATISFIED = "share of constraints satisfied"
"""What the values of a group of constraints are. Each constraint counts once."""


class Scoring(Struct, frozen=True, kw_only=True):
    """The runs' values in one scoring: overall, in one group, or as published."""

    name: str
    kind: Literal["all", "group", "external"]
    score: str  # what the values are means of: a score, `SATISFIED`, or "" for published ones
    values: list[SampleStatistic | None]  # one per run; published ones have no error and no n


class JudgedTables(NamedTuple):
    """A judge's verdicts on constraints: the result of `read_judged` for each run."""

    judge: str
    of_runs: Sequence[tuple[AttemptTable, int]]


class InducedRankings(Struct, frozen=True, kw_only=True):
    """The scorings of the runs, and tau-b for each pair of scorings."""

    label: str
    of: Literal["instances", "constraints"]
    judge: str  # the judge that decided on the constraints; empty for groups of instances
    without: list[int]  # by run, the number of samples without a verdict on constraints
    score: str
    scorings: list[Scoring]
    taus: list[Tau]
    unmatched: list[str]  # models in the published scores that match no run


def induced_rankings(
    runs: Sequence[Run],
    score: str = PASS_RATE,
    label: str = "",
    *,
    judged: JudgedTables | None = None,
    external: Mapping[str, Mapping[str, float]] | None = None,
    round_: int | None = None,
) -> InducedRankings:
    """Rank runs overall, by group and as published, and compute tau-b for each pair of rankings.

    Args:
        runs: The runs.
        score: The score to rank by, as in `scored_runs`.
        label: Rank the runs in each group of this label as well; empty for none.
        judged: If given, the groups are those of the constraints that a judge decided on.
        external: Published scores, by benchmark and then by the name of a run or model.
        round_: As in `scored_runs`.
    """
    runs, name, score = scored_runs(runs, score, round_)
    weight = runs[0][0].weight(score)
    tables = [table for _, table in runs]
    overall: list[SampleStatistic | None] = [mean_score(table, score, weight) for table in tables]
    scorings = [Scoring(name=name, kind="all", score=name, values=overall)]
    if label and judged is not None:
        verdicts = [table for table, _ in judged.of_runs]
        scorings += _by_group(verdicts, PASS_RATE, label, SATISFIED)
    elif label:
        scorings += _by_group(tables, score, label, name, weight)
    unmatched: set[str] = set()
    for benchmark, scores in (external or {}).items():
        names = [_published_name(variant, scores) for variant, _ in runs]
        values: list[SampleStatistic | None] = []
        for published in names:
            mean = scores.get(published)
            values.append(None if mean is None else SampleStatistic(mean=mean))
        unmatched |= scores.keys() - set(names)
        scorings.append(Scoring(name=benchmark, kind="external", score="", values=values))
    return InducedRankings(
        label=label,
        of="constraints" if judged else "instances",
        judge=judged.judge if judged else "",
        without=[without for _, without in judged.of_runs] if judged else [],
        score=name,
        scorings=scorings,
        taus=list(_taus(scorings)),
        unmatched=sorted(unmatched),
    )


def _published_name(variant: Variant, scores: Mapping[str, float]) -> str:
    """Return the run's name if its score was published under this, and else its model's."""
    if variant.name in scores:
        return variant.name
    return variant.metrics.model or ""


def _taus(scorings: Sequence[Scoring]) -> Iterator[Tau]:
    means = []
    for scoring in scorings:
        means.append([value.mean if value else None for value in scoring.values])
    for first, second in combinations(range(len(scorings)), 2):
        correlation = rank_correlation(zip(means[first], means[second], strict=True))
        yield Tau(first=first, second=second, **asdict(correlation))


def refuse_many_groups(label: str, n: int) -> None:
    """Raise ConfigError if a label has too many groups (``n``) for a table."""
    if n > MAX_GROUPS:
        problem = f"--by: the label {label!r} has {n:,} groups, more than {MAX_GROUPS}."
        raise ConfigError(problem, "Name a coarser label.")


def _by_group(
    tables: Sequence[AttemptTable], score: str, label: str, name: str, weight: str = ""
) -> list[Scoring]:
    """Return the scorings by group of a label; ``name`` says what their values are."""
    by_run = []
    groups: set[str] = set()
    for table in tables:
        statistics = {}
        for (group,), statistic in mean_by_group(table, score, label, weight=weight).items():
            statistics[group] = statistic
        by_run.append(statistics)
        groups.update(statistics)

    def in_order(group: str) -> tuple[int, str]:
        return (int(group) if group.isdecimal() else -1), group

    refuse_many_groups(label, len(groups))
    scorings = []
    for group in sorted(groups, key=in_order):
        values = [statistics.get(group) for statistics in by_run]
        scorings.append(Scoring(name=group, kind="group", score=name, values=values))
    return scorings


MODEL = "model"


def read_model_scores(path: Path) -> dict[str, dict[str, float]]:
    """Return the published scores in a CSV or JSONL file, by benchmark and then by model."""
    scores: dict[str, dict[str, float]] = {}
    seen = set[str]()
    for where, row in read_rows(path):
        model = row.pop(MODEL, None)
        if not isinstance(model, str) or not model.strip():
            raise DataInvalid(f"{where}: it must name a {MODEL}.")
        if model in seen:
            raise DataInvalid(f"{where}: the model {model!r} appears twice.")
        seen.add(model)
        for name, value in row.items():
            score = _number(value, f"{where}: {name}")
            if score is not None:
                scores.setdefault(name, {})[model] = score
    if not scores:
        remedy = "Write a header model,score and a line for each model."
        raise DataInvalid(f"{path} holds no scores.", remedy)
    return scores


def _number(value: Any, where: str) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, bool) and isfinite(score := float(value)):
            return score
    raise DataInvalid(f"{where} must be a number, not {str(value)[:40]!r}.")
