"""Compares several runs with a baseline, or each with every other.

The comparisons over all instances are a planned family of tests, adjusted by Holm's method. If
there are only two runs, the comparisons by group are a planned family as well. With more runs, they
are exploratory and adjusted by Benjamini and Hochberg's method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.analysis.breakdown import is_verdict, value_of
from harness.analysis.comparable import (
    Run,
    refuse_incomparable,
    refuse_unknown,
    refuse_unknown_label,
    scored_runs,
)
from harness.analysis.comparison import Comparison, adjusted, compare, pair
from harness.analysis.constraints import ConstraintFindings, KindChange, compare_kinds
from harness.analysis.metrics import PASS_RATE, SampleStatistic
from harness.analysis.rankings import Ranking, rank_groups
from harness.analysis.run_differences import differing, marks_against
from harness.store.index import read_names

# Unadjusted p values below this are starred in a matrix, as in figures 13 and 14 of Lior et al.
# 2025 (arXiv 2503.06573). When searching for differences, use the p adjusted by Holm for all pairs.
STARRED = 0.01


class ComparisonOptions(Struct, frozen=True, kw_only=True):
    """The score, round, groups and statistical unit of a comparison."""

    score: str = PASS_RATE  # a score's name or `PASS_RATE`; empty for each run's own measure
    round: int | None = None  # use each sample's last round up to this one; null for no limit
    by: str = ""  # label whose groups are also compared; empty for none
    cluster: str = ""  # label of the statistical unit; empty for the prompt


class Against(Struct, frozen=True, kw_only=True):
    """A run compared with the baseline, overall and in each group of the label."""

    run: str
    marks: list[str]
    overall: Comparison
    groups: dict[str, Comparison] = {}
    ranking: Ranking | None = None  # how the two runs rank the groups
    better_digests: list[int] = []  # digests of the instances in which the run's value is larger
    worse_digests: list[int] = []
    better: list[str] = []  # names of these instances, if requested
    worse: list[str] = []
    constraints: dict[str, KindChange] = {}  # if requested, by kind
    without_constraints: tuple[int, int] = (0, 0)  # samples of baseline and run that list none


class RunComparison(Struct, frozen=True, kw_only=True):
    """Several runs compared with their baseline."""

    task: str
    baseline: str
    marks: list[str]
    asked: ComparisonOptions  # with the runs' own measures as the score if none was given
    others: list[Against]
    notes: list[str]


def compare_runs(
    runs: Sequence[Run],
    asked: ComparisonOptions,
    baseline: str = "",
    *,
    names: Mapping[int, str] | None = None,
    findings: Mapping[str, ConstraintFindings] | None = None,
) -> RunComparison:
    """Compare runs with a baseline.

    Args:
        runs: The runs, including the baseline.
        asked: The score, round, groups and statistical unit of the comparison.
        baseline: The baseline's name; by default, the first run.
        names: The ids of instances by digest. If given, the better and the worse instances are
            listed.
        findings: The constraint findings of each run by its name. If given, constraints are
            compared as well.

    Raises:
        ConfigError: If the baseline, score, round or a label is unknown.
        RunConflict: If differences in task, data set or primary metric prevent a comparison.
    """
    run_names = [variant.name for variant, _ in runs]
    refuse_unknown(baseline, run_names, f"--baseline {baseline!r} is not one of the runs.")
    place = run_names.index(baseline) if baseline else 0
    refuse_incomparable(runs[place][0], [variant for variant, _ in runs])
    runs, measures, score = scored_runs(runs, asked.score, asked.round)
    asked = replace(asked, score=measures)
    base, table = runs[place]
    others = [run for number, run in enumerate(runs) if number != place]
    for option, label in (("--by", asked.by), ("--cluster", asked.cluster)):
        refuse_unknown_label(option, label, {base.name: table})  # pairs use the baseline's groups
    options = score, asked, names or {}, findings or {}
    replies = base.replies()
    compared = [
        _against((base, table), run, replies.same_as(run[0].replies()), *options) for run in others
    ]
    overall = adjusted([against.overall for against in compared])
    by_group = [comparison for against in compared for comparison in against.groups.values()]
    group_comparisons = iter(adjusted(by_group, planned=len(compared) == 1))
    with_p_values = []
    for against, comparison in zip(compared, overall, strict=True):
        groups = {name: next(group_comparisons) for name in against.groups}
        with_p_values.append(replace(against, overall=comparison, groups=groups))
    return RunComparison(
        task=base.metrics.task,
        baseline=base.name,
        marks=base.marks,
        asked=asked,
        others=with_p_values,
        notes=list(differing(base, [variant for variant, _ in others], score)),
    )


def _against(
    base: Run,
    other: Run,
    shared: NDArray[np.int64],
    score: str,
    asked: ComparisonOptions,
    names: Mapping[int, str],
    findings: Mapping[str, ConstraintFindings],
) -> Against:
    (baseline, table), (variant, other_table) = base, other
    pairs = pair(table, other_table, score=score).clustered_by(asked.cluster).sharing(shared)
    parts = pairs.group(asked.by) if asked.by else {}
    groups = {name: compare(pairs.take(rows)) for name, rows in parts.items()}
    better, worse = pairs.moved()
    kinds: dict[str, KindChange] = {}
    without = (0, 0)
    if findings:
        both = (
            findings[baseline.name].scored(baseline.score),
            findings[variant.name].scored(variant.score),
        )
        same: list[str] = []
        if len(shared) and baseline.attempts is not None:
            ids = read_names(baseline.attempts)
            same = [ids[digest] for digest in shared.tolist()]
        kinds = compare_kinds(*both, names.values(), asked.cluster, same)
        without = (both[0].without, both[1].without)
    return Against(
        run=variant.name,
        marks=marks_against(baseline, variant),
        overall=compare(pairs),
        groups=groups,
        ranking=rank_groups(pairs, asked.by) if len(groups) > 1 else None,
        better_digests=better,
        worse_digests=worse,
        better=sorted(names[digest] for digest in better if digest in names),
        worse=sorted(names[digest] for digest in worse if digest in names),
        constraints=kinds,
        without_constraints=without,
    )


def with_planned(matrix: PairMatrix, comparison: RunComparison) -> PairMatrix:
    """Return a matrix whose pairs with the baseline have the p values of ``comparison``."""
    planned = {against.run: against.overall.p_adjusted for against in comparison.others}
    planned[comparison.baseline] = None
    names = [row.run for row in matrix.rows]
    pairs = []
    for run_pair in matrix.pairs:
        first, second = names[run_pair.first], names[run_pair.second]
        if comparison.baseline in (first, second):
            p_adjusted = planned[second if first == comparison.baseline else first]
            compared = replace(run_pair.comparison, p_adjusted=p_adjusted)
            run_pair = replace(run_pair, comparison=compared)
        pairs.append(run_pair)
    return replace(matrix, pairs=pairs)


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

    def pair(self, baseline: str, run: str) -> Comparison:
        """Return the comparison of two runs, as ``run`` minus ``baseline``.

        Only its ``difference`` and ``ci95`` depend on the order: other fields are the pair's.
        """
        names = [row.run for row in self.rows]
        first, second = names.index(baseline), names.index(run)
        (pair,) = (pair for pair in self.pairs if {pair.first, pair.second} == {first, second})
        comparison = pair.comparison
        if pair.first == first or comparison.difference is None:
            return comparison
        low, high = comparison.ci95 or (None, None)
        ci95 = None if low is None or high is None else (-high, -low)
        return replace(comparison, difference=-comparison.difference, ci95=ci95)


def pair_matrix(
    runs: Sequence[Run], score: str = PASS_RATE, *, round_: int | None = None, cluster: str = ""
) -> PairMatrix:
    """Compare all pairs of ``runs``. The other arguments are fields of `ComparisonOptions`.

    Raises:
        ConfigError: If the score, the round or the label is unknown.
        RunConflict: If differences in task, data set or primary metric prevent a comparison.
    """
    base, others = runs[0][0], [variant for variant, _ in runs[1:]]
    refuse_incomparable(base, others)
    index_pairs = list(combinations(range(len(runs)), 2))
    runs, measures, score = scored_runs(runs, score, round_)
    tables = [table for _, table in runs]
    refuse_unknown_label("--cluster", cluster, {variant.name: table for variant, table in runs})
    verdicts = all(is_verdict(table, score) for table in tables)
    replies = [variant.replies() for variant, _ in runs]
    unadjusted = []
    for first, second in index_pairs:
        pairs = pair(tables[first], tables[second], score=score).clustered_by(cluster)
        unadjusted.append(compare(pairs.sharing(replies[first].same_as(replies[second]))))
    rows = []
    for variant, table in runs:
        by = [f"by {variant.score}"] if variant.score != measures else []
        rows.append(
            MatrixRow(
                run=variant.name,
                model=variant.metrics.model or "",
                marks=[*variant.marks, *by],
                value=value_of(table, score),
            )
        )
    run_pairs = []
    for (first, second), comparison in zip(index_pairs, adjusted(unadjusted), strict=True):
        starred = comparison.p_value is not None and comparison.p_value < STARRED
        run_pairs.append(RunPair(first, second, comparison, starred))
    return PairMatrix(
        task=base.metrics.task,
        score=measures,
        verdicts=verdicts,
        round=round_,
        cluster=cluster,
        rows=rows,
        pairs=run_pairs,
        notes=list(differing(base, others, score)),
    )
