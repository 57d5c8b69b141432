"""Compares several runs with a baseline.

The comparisons over all instances are a planned family of tests, adjusted by Holm's method. If
there are only two runs, the comparisons by group are a planned family as well. With more runs, they
are exploratory and adjusted by Benjamini and Hochberg's method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from harness.analysis.metrics import PASS_RATE
from harness.config.sections import split_k
from harness.errors import check_name
from harness.plugins.comparisons.comparable import (
    Run,
    Variant,
    refuse_incomparable,
    refuse_unknown_label,
    scored_runs,
    weight_of,
)
from harness.plugins.comparisons.comparison import (
    Comparison,
    Floats,
    Pairs,
    adjusted,
    compare,
    pair,
)
from harness.plugins.comparisons.constraints import ConstraintFindings, KindChange, compare_kinds
from harness.plugins.comparisons.run_differences import differing, marks_against
from harness.store.columns import Ints
from harness.store.index import read_names

MAX_OUTER = 300  # Items up to which all pairs are compared, in quadratic time and memory


def tau_b(first: Floats, second: Floats) -> float | None:
    """Return Kendall's tau-b of two scorings of the same items, or None if either is constant.

    Kendall 1945, "The Treatment of Ties in Ranking Problems".
    """
    excess, untied, untied_second = counted_pairs(first, second)
    if not (untied and untied_second):
        return None
    return max(-1.0, min(1.0, excess / sqrt(untied) / sqrt(untied_second)))


def counted_pairs(first: Floats, second: Floats) -> tuple[int, int, int]:
    """Return concordant minus discordant pairs, and the untied pairs of each scoring."""
    if len(first) <= MAX_OUTER:  # all pairs, which is fast
        signs = np.sign(np.subtract.outer(first, first))
        signs_second = np.sign(np.subtract.outer(second, second))
        excess = int((signs * signs_second).sum()) // 2
        return excess, int((signs**2).sum()) // 2, int((signs_second**2).sum()) // 2
    # As in Knight 1966, "A Computer Method for Calculating Kendall's Tau with Ungrouped Data".
    ranks = np.unique(first, return_inverse=True)[1]
    ranks_second = np.unique(second, return_inverse=True)[1]
    n_pairs = len(first) * (len(first) - 1) // 2
    tied = _tied_pairs(ranks)
    tied_second = _tied_pairs(ranks_second)
    tied_in_both = _tied_pairs(ranks * len(second) + ranks_second)
    discordant = _inversions(ranks_second[np.lexsort((ranks_second, ranks))])
    excess = n_pairs - tied - tied_second + tied_in_both - 2 * discordant
    return excess, n_pairs - tied, n_pairs - tied_second


def _tied_pairs(ranks: NDArray[np.integer]) -> int:
    sizes = np.unique(ranks, return_counts=True)[1]
    return int((sizes * (sizes - 1)).sum()) // 2


def _inversions(ranks: Ints) -> int:
    """Return how many pairs are in descending order.

    Each pair is counted at the highest bit in which its two ranks differ.
    """
    total = 0
    for bit in reversed(range(int(ranks.max()).bit_length())):
        is_set = ranks >> bit & 1
        n_before = np.cumsum(is_set) - is_set  # ranks with this bit
        # A new group of ranks that share the higher bits.
        begins = np.diff(ranks >> bit + 1, prepend=-1) > 0
        n_before -= np.maximum.accumulate(np.where(begins, n_before, 0))
        total += int(n_before[is_set == 0].sum())
        ranks = ranks[np.argsort(ranks >> bit, kind="stable")]
    return total


class Ranking(Struct, frozen=True, kw_only=True):
    """How similarly two runs rank a label's groups. Tau-b is None if all groups tie in a run.

    Tau-b has no interval. Groups that are near each other change places by chance, so tau-b of the
    measured means is closer to 0 than that of the true means. A bootstrap, whose draws have even
    more noise, gives an interval around the wrong value: with 8 groups of 30 instances and equal
    true ranks (tau-b 1), it never contained 1.
    """

    tau_b: float | None
    n_groups: int


def rank_groups(pairs: Pairs, label: str) -> Ranking:
    """Compare how two runs rank the groups of a label."""
    pairs = pairs.linearised(label)
    first = []
    second = []
    for rows in pairs.group(label).values():
        first.append(pairs.first[rows].mean())
        second.append(pairs.second[rows].mean())
    # Sums in a different order differ in the last bits, which should not decide a rank.
    coefficient = tau_b(np.round(first, 12), np.round(second, 12))
    return Ranking(tau_b=coefficient, n_groups=len(first))


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
    weight: str = ""  # the score that weights the instances; empty if they have equal weight


def compare_runs(
    runs: Sequence[Run],
    options: ComparisonOptions,
    baseline: str = "",
    *,
    names: Mapping[int, str] | None = None,
    findings: Mapping[str, ConstraintFindings] | None = None,
) -> RunComparison:
    """Compare runs with a baseline.

    Args:
        runs: The runs, including the baseline.
        options: The score, round, groups and statistical unit of the comparison.
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
    check_name(baseline, run_names, f"--baseline {baseline!r} is not one of the runs.")
    place = run_names.index(baseline) if baseline else 0
    refuse_incomparable(runs[place][0], [variant for variant, _ in runs])
    runs, measures, score = scored_runs(runs, options.score, options.round)
    base, table = runs[place]
    weight = weight_of(runs[place], score)
    others = [run for number, run in enumerate(runs) if number != place]
    for option, label in (("--by", options.by), ("--cluster", options.cluster)):
        refuse_unknown_label(option, label, {base.name: table})  # pairs use the baseline's groups
    replies = base.replies()
    compared = []
    variants = [variant for variant, _ in others]
    notes = list(differing(base, variants, score, round_=options.round))
    for run in others:
        variant, _ = run
        shared = replies.same_as(variant.replies())
        against = _against(runs[place], run, shared, score, options, names or {})
        if findings:
            against = _with_constraints(
                against, base, variant, findings, names or {}, shared, options
            )
            if _unlike_draws(base, variant):
                notes.append(
                    f"Kinds of constraints are not tested between {base.name} ({base.score}) and "
                    f"{variant.name} ({variant.score}): over k samples, another sample may "
                    "satisfy each constraint, but a single answer must satisfy all."
                )
        compared.append(against)
    return RunComparison(
        task=base.metrics.task,
        baseline=base.name,
        marks=base.marks,
        asked=replace(options, score=measures),
        others=_adjusted(compared),
        notes=notes,
        weight=weight,
    )


def _adjusted(compared: Sequence[Against]) -> list[Against]:
    """Return comparisons with adjusted p values, overall and by group."""
    overall = adjusted([against.overall for against in compared])
    by_group: list[Comparison] = []
    for against in compared:
        by_group += against.groups.values()
    group_comparisons = iter(adjusted(by_group, planned=len(compared) == 1))
    with_p_values = []
    for against, comparison in zip(compared, overall, strict=True):
        groups = {name: next(group_comparisons) for name in against.groups}
        with_p_values.append(replace(against, overall=comparison, groups=groups))
    return with_p_values


def _unlike_draws(baseline: Variant, variant: Variant) -> bool:
    """Return whether one run's score is of k samples, and the other's is of a single answer."""
    _, k = split_k(baseline.score)
    _, k_of_variant = split_k(variant.score)
    return (k > 1) != (k_of_variant > 1)


def _against(
    base: Run,
    run: Run,
    shared: NDArray[np.int64],
    score: str,
    options: ComparisonOptions,
    names: Mapping[int, str],
) -> Against:
    baseline, baseline_table = base
    variant, table = run
    pairs = pair(baseline_table, table, score=score, weight=baseline.weight(score))
    pairs = pairs.clustered_by(options.cluster).sharing(shared)
    groups = {}
    ranking = None
    if options.by:
        for name, rows in pairs.group(options.by).items():
            groups[name] = compare(pairs.take(rows))
        if len(groups) > 1:
            ranking = rank_groups(pairs, options.by)
    better, worse = pairs.moved()
    return Against(
        run=variant.name,
        marks=marks_against(baseline, variant),
        overall=compare(pairs),
        groups=groups,
        ranking=ranking,
        better_digests=better,
        worse_digests=worse,
        better=sorted(names[digest] for digest in better if digest in names),
        worse=sorted(names[digest] for digest in worse if digest in names),
    )


def _with_constraints(
    against: Against,
    baseline: Variant,
    variant: Variant,
    findings: Mapping[str, ConstraintFindings],
    names: Mapping[int, str],
    shared: NDArray[np.int64],
    options: ComparisonOptions,
) -> Against:
    """Return a comparison with that of the runs' constraints."""
    before = findings[baseline.name].scored(baseline.score)
    after = findings[variant.name].scored(variant.score)
    same: list[str] = []
    if len(shared) and baseline.attempts is not None:
        ids = read_names(baseline.attempts)
        same = [ids[digest] for digest in shared.tolist()]
    kinds = compare_kinds(before, after, names.values(), options.cluster, same)
    if _unlike_draws(baseline, variant):
        kinds = {kind: change.untested() for kind, change in kinds.items()}
    without = (before.without, after.without)
    return replace(against, constraints=kinds, without_constraints=without)
