"""Compares the variants of a run file with a baseline, by their means over groups.

The groups of a label, such as the tasks of Natural Instructions, have equal weight, as in Mishra et
al. 2022 (arXiv 2104.08773). The statistical unit is the prompt, as in other comparisons, unless the
groups are said to be a random sample of all groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from msgspec import Struct
from msgspec.structs import replace

from harness.analysis.breakdown import scored
from harness.analysis.clustered import ROUNDING
from harness.analysis.comparable import (
    Run,
    Variant,
    common_score,
    refuse_incomparable,
    refuse_unknown,
    refuse_unknown_label,
)
from harness.analysis.comparison import Method, Paired, Pairs, compare, pair, paired
from harness.analysis.metrics import PASS_RATE
from harness.analysis.p_values import holm
from harness.analysis.run_differences import differing, marks_against
from harness.config.run_file import of_k
from harness.errors import ConfigError
from harness.wording import count_of


class AblationOptions(Struct, frozen=True, kw_only=True):
    """The baseline of an ablation, and the labels of its groups and statistical units."""

    baseline: str = ""  # name of a variant; empty for the first
    over: str = ""  # label of the groups to average over; empty for the first common label
    cluster: str | None = ""  # as in `ComparisonOptions`; None for the label `over`
    by: str = ""  # a coarser label, to show gains by its groups; empty for none
    member: Mapping[str, str] = {}  # maps each group of `over` to its group of `by`


class Gain(Struct, frozen=True, kw_only=True):
    """A variant's mean over the groups that it shares with the baseline, and its gain."""

    n: int  # groups that both have
    of: int  # groups of the baseline
    mean: float | None  # null if no group is shared
    percent: float | None  # gain over the baseline; null if its mean is 0 or no group is shared


class AblationRow(Struct, frozen=True, kw_only=True):
    """The results of one variant, compared with the baseline on their common groups."""

    variant: str
    is_baseline: bool
    marks: list[str]  # warnings to show next to the variant
    n_groups: int  # groups with a value of the score
    mean: float | None  # over all groups of the variant; comparable only if `same_groups`
    same_groups: bool  # whether variant and baseline have the same groups
    gain: Gain
    difference: float | None = None  # variant minus baseline, over the shared groups
    by_instance: float | None = None  # the same over the instances, as `harness compare` has it
    ci95: tuple[float, float] | None = None
    n_clusters: int = 0
    p_value: float | None = None
    method: Method = "none"
    p_holm: float | None = None  # adjusted over all rows of the table, by Holm's method
    n_better: int = 0  # shared groups in which the variant's value is larger
    by: dict[str, Gain] = {}  # gains by group of the coarser label


class Ablation(Struct, frozen=True, kw_only=True):
    """The table of an ablation, with notes on how the runs differ."""

    task: str
    model: str | None = None
    baseline: str
    over: str
    cluster: str = ""  # label of the statistical unit; empty for the prompt
    score: str  # different scores of the variants are joined by "and"
    by: str = ""
    n_groups: int
    rows: list[AblationRow]
    notes: list[str]


def ablate(runs: Sequence[Run], options: AblationOptions) -> Ablation:
    """Compare variants with a baseline, and return the table of means and gains.

    Raises:
        ConfigError: If the baseline, a label or the score is unknown, the runs have no common
            label, or the baseline has no attempts or no values to compare with.
        RunConflict: If differences in task, data set or primary metric prevent a comparison.
    """
    variants = [variant for variant, _ in runs]
    begun = [variant for variant in variants if variant.begun]
    baseline = _baseline(variants, options.baseline)
    over = _label(begun, options.over)
    cluster = over if options.cluster is None else options.cluster
    options = replace(options, over=over, cluster=cluster)
    refuse_incomparable(baseline, begun, over)
    known = [PASS_RATE, *(name for one in begun for name in one.metrics.scores)]
    measures, score = common_score(begun)
    refuse_unknown(score, dict.fromkeys(known), f"The runs have no score {baseline.score!r}.")
    base = group_values(baseline, over)
    if not base:
        problem = f"The run {baseline.metrics.run!r} has no {baseline.score} in any {over}."
        raise ConfigError(problem, "Name another --baseline, or another --score.")
    tables = {one.name: scored(table.last_rounds(), one.score) for one, table in runs}
    before = tables[baseline.name]
    if cluster != over:
        refuse_unknown_label("--cluster", cluster, {baseline.name: before})
    replies, rows = baseline.replies(), []
    for variant in variants:
        pairs = pair(before, tables[variant.name], score=score)
        pairs = pairs.sharing(replies.same_as(variant.replies()))
        rows.append(_row(variant, baseline, pairs, options))
    adjusted = holm([row.p_value for row in rows])
    return Ablation(
        task=baseline.metrics.task,
        model=baseline.metrics.model,
        baseline=baseline.name,
        over=over,
        cluster=cluster,
        score=measures,
        by=options.by,
        n_groups=len(base),
        rows=[replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)],
        notes=list(differing(baseline, begun)),
    )


def _baseline(variants: Sequence[Variant], wanted: str) -> Variant:
    found = {variant.name: variant for variant in variants}
    name = wanted or variants[0].name
    refuse_unknown(name, found, f"There is no variant {name!r} to compare with.")
    if not found[name].begun:
        problem = f"The run {found[name].metrics.run!r} has no attempts to compare with."
        raise ConfigError(problem, "Run its run file again, or name another --baseline.")
    return found[name]


def _label(variants: Sequence[Variant], wanted: str) -> str:
    labels = [variant.metrics.groups for variant in variants]
    whole = [label for label in labels[0] if all(label in one for one in labels)]
    if not wanted and not whole:
        problem = "The runs have no label in common whose groups could be averaged."
        raise ConfigError(problem, "Use harness compare, or name labels in the task's 'groups'.")
    for variant in variants:
        if wanted not in variant.metrics.groups:
            problem = f"The run {variant.metrics.run!r} has no groups of {wanted!r}."
            refuse_unknown(wanted, whole, problem)
    return wanted or whole[0]


def group_values(variant: Variant, over: str) -> dict[str, float]:
    """Return a variant's mean score by group, without groups that have no value."""
    values = {}
    for name, group in variant.metrics.groups.get(over, {}).items():
        found = group if variant.score == PASS_RATE else group.scores.get(variant.score)
        if found is not None and found.mean is not None:
            values[name] = found.mean
    return values


def compare_groups(values: Mapping[str, float], base: Mapping[str, float]) -> Paired:
    """Return the variant's mean difference from the baseline over their common groups."""
    common = [name for name in base if name in values]
    return paired([values[name] for name in common], [base[name] for name in common])


def _gain(values: Mapping[str, float], base: Mapping[str, float], of: int) -> Gain:
    """Return the mean of ``values``, and its gain over the same groups of ``base``."""
    before, after = fsum(base[name] for name in values), fsum(values.values())
    percent = (after - before) / before * 100 if before else None
    return Gain(n=len(values), of=of, mean=after / len(values) if values else None, percent=percent)


def _row(
    variant: Variant, baseline: Variant, pairs: Pairs, options: AblationOptions
) -> AblationRow:
    over, member = options.over, options.member
    own, every = (group_values(one, over) for one in (variant, baseline))
    base, values = (
        {name: float(side[rows].mean()) for name, rows in pairs.group(over).items()}
        for side in (pairs.first, pairs.second)
    )
    row = AblationRow(
        variant=variant.name,
        is_baseline=variant.name == baseline.name,
        marks=[*marks_against(baseline, variant), *_doubts(variant, baseline, over)],
        n_groups=len(own),
        mean=fsum(own.values()) / len(own) if own else None,
        same_groups=own.keys() == every.keys(),
        gain=_gain(values, base, len(every)),
        n_better=sum(values[name] > base[name] + ROUNDING for name in base),
        by={
            coarse: _gain(
                {name: value for name, value in values.items() if member.get(name) == coarse},
                base,
                sum(member.get(name) == coarse for name in every),
            )
            for coarse in sorted(set(member.values()))
        },
    )
    if row.is_baseline or not values:
        return row
    found = compare(pairs.clustered_by(options.cluster or ""), over)
    return replace(
        row,
        difference=found.difference,
        by_instance=float(pairs.difference.mean()),
        ci95=found.ci95,
        n_clusters=found.n_clusters,
        p_value=found.p_value,
        method=found.method,
    )


def _doubts(variant: Variant, baseline: Variant, over: str) -> Iterator[str]:
    score = variant.score
    groups, others = (run.metrics.groups.get(over, {}) for run in (variant, baseline))
    if more := len(groups.keys() - others.keys()) if others else 0:
        yield f"{count_of(more, 'group')} of {over!r} that the baseline lacks"
    if variant.metrics.complete and baseline.metrics.complete:
        common = groups.keys() & others.keys()
        if unlike := sum(groups[name].instances != others[name].instances for name in common):
            yield f"other instances in {count_of(unlike, 'group')} of {over!r}"
    missing = sum(
        group.scores[score].missing
        if score in group.scores
        else group.pass_at_k_instances
        if of_k(score)[1]
        else group.missing + (0 if score == PASS_RATE else group.n)
        for group in groups.values()
    )
    if missing:
        yield f"{missing:,} {'instances' if of_k(score)[1] else 'samples'} without {score}"
