"""Compares the variants of a run file with a baseline, and tests a paper's claims on them.

The statistical unit is one group of a label, for example one Natural Instructions task. Groups have
equal weight, as in Mishra et al. 2022 (arXiv 2104.08773). A variant that lacks some of the
baseline's groups is compared with the baseline on the groups that both have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import fsum, hypot
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from harness.analysis.clustered import ROUNDING
from harness.analysis.comparable import (
    Variant,
    changed,
    common_score,
    differing,
    marks_against,
    refuse_incomparable,
    refuse_unknown,
)
from harness.analysis.comparison import Paired, heterogeneity, holm, paired
from harness.analysis.metrics import PASS_RATE
from harness.config.run_file import of_k
from harness.errors import ConfigError
from harness.ports import Claim, Claiming


class AblationOptions(Struct, frozen=True, kw_only=True):
    """The options of an ablation: the baseline, and the labels whose groups are compared."""

    baseline: str = ""  # name of a variant; empty for the first
    over: str = ""  # label of the groups to average over; empty for the first common label
    by: str = ""  # a coarser label, to show gains by its groups; empty for none
    member: Mapping[str, str] = {}  # maps each group of `over` to its group of `by`


class Gain(Struct, frozen=True, kw_only=True):
    """A variant's mean and its gain over the baseline. All shared groups have equal weight."""

    n: int  # groups that both have
    of: int  # groups of the baseline
    mean: float | None  # null if no group is shared
    percent: float | None  # gain over the baseline, in per cent; null if the baseline's mean is 0


class AblationRow(Struct, frozen=True, kw_only=True):
    """The results of one variant.

    ``mean`` covers all groups of the variant. The gain, the difference and the p value cover only
    the groups that the baseline has as well.
    """

    variant: str
    is_baseline: bool
    marks: list[str]  # warnings to show next to the variant
    n_groups: int  # groups with a value of the score
    mean: float | None  # unweighted; comparable with the baseline's if both have the same groups
    same_groups: bool  # whether variant and baseline have the same groups
    gain: Gain
    difference: float | None = None  # the variant's mean minus the baseline's
    ci95: tuple[float, float] | None = None
    p_value: float | None = None
    p_holm: float | None = None  # adjusted over all rows of the table, by Holm's method
    n_better: int = 0  # shared groups in which the variant's value is larger
    by: dict[str, Gain] = {}  # gains by group of the coarser label


class Ablation(Struct, frozen=True, kw_only=True):
    """The table of an ablation, with one row per variant, and notes on how the runs differ."""

    task: str
    model: str | None = None
    baseline: str
    over: str
    score: str  # different scores of the variants are joined by "and"
    by: str = ""
    n_groups: int
    rows: list[AblationRow]
    notes: list[str]


def ablate(variants: Sequence[Variant], options: AblationOptions) -> Ablation:
    """Compare variants with a baseline, and return the table of means and gains.

    Raises:
        ConfigError: If the baseline, the label or the score is unknown, or the baseline has no
            attempts or no values to compare with.
        RunConflict: If the runs have different tasks, data sets or primary metrics.
    """
    begun = [variant for variant in variants if variant.begun]
    baseline = _baseline(variants, options.baseline)
    over = _label(begun, options.over)
    refuse_incomparable(baseline, begun, over)
    known = [PASS_RATE, *(name for one in begun for name in one.metrics.scores)]
    measures, score = common_score(begun)
    refuse_unknown(score, dict.fromkeys(known), f"The runs have no score {baseline.score!r}.")
    base = _group_values(baseline, over)
    if not base:
        problem = f"The run {baseline.metrics.run!r} has no {baseline.score} in any {over}."
        raise ConfigError(problem, "Name another --baseline, or another --score.")
    rows = [_row(variant, baseline, over, options.member) for variant in variants]
    adjusted = holm([row.p_value for row in rows])
    return Ablation(
        task=baseline.metrics.task,
        model=baseline.metrics.model,
        baseline=baseline.name,
        over=over,
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
        raise ConfigError(
            "The runs have no common label to average over.", "Name runs of one task."
        )
    for variant in variants:
        if wanted not in variant.metrics.groups:
            problem = f"The run {variant.metrics.run!r} has no groups of {wanted!r}."
            refuse_unknown(wanted, whole, problem)
    return wanted or whole[0]


def _group_values(variant: Variant, over: str) -> dict[str, float]:
    values = {}
    for name, group in variant.metrics.groups.get(over, {}).items():
        found = group if variant.score == PASS_RATE else group.scores.get(variant.score)
        if found is not None and found.mean is not None:
            values[name] = found.mean
    return values


def _compare_groups(values: Mapping[str, float], base: Mapping[str, float]) -> Paired:
    common = [name for name in base if name in values]
    return paired([values[name] for name in common], [base[name] for name in common])


def several(label: str) -> str:
    """Return the plural of a label, for example 'categories' for 'category'."""
    return f"{label[:-1]}ies" if label.endswith("y") else f"{label}s"


def counted(n: int, label: str) -> str:
    """Format a number of groups with their label, for example '1 task' or '2,000 tasks'."""
    return f"{n:,} {label if n == 1 else several(label)}"


def _gain(values: Mapping[str, float], base: Mapping[str, float]) -> Gain:
    common = [name for name in base if name in values]
    before = fsum(base[name] for name in common)
    after = fsum(values[name] for name in common)
    percent = (after - before) / before * 100 if before else None
    mean = after / len(common) if common else None
    return Gain(n=len(common), of=len(base), mean=mean, percent=percent)


def _row(variant: Variant, baseline: Variant, over: str, member: Mapping[str, str]) -> AblationRow:
    values, base = (_group_values(one, over) for one in (variant, baseline))
    is_baseline = variant.name == baseline.name
    found = _compare_groups({} if is_baseline else values, base)
    return AblationRow(
        variant=variant.name,
        is_baseline=is_baseline,
        marks=[*marks_against(baseline, variant), *_doubts(variant, baseline, over)],
        n_groups=len(values),
        mean=fsum(values.values()) / len(values) if values else None,
        same_groups=values.keys() == base.keys(),
        gain=_gain(values, base),
        difference=found.mean,
        ci95=found.clipped_ci95(),
        p_value=found.p_value,
        n_better=found.n_more,
        by={
            coarse: _gain(values, {n: v for n, v in base.items() if member.get(n) == coarse})
            for coarse in sorted(set(member.values()))
        },
    )


def _doubts(variant: Variant, baseline: Variant, over: str) -> Iterator[str]:
    score = variant.score
    groups, others = (run.metrics.groups.get(over, {}) for run in (variant, baseline))
    if more := len(groups.keys() - others.keys()) if others else 0:
        yield f"{counted(more, over)} that the baseline lacks"
    if variant.metrics.complete and baseline.metrics.complete:
        common = groups.keys() & others.keys()
        if unlike := sum(groups[name].instances != others[name].instances for name in common):
            yield f"other instances in {counted(unlike, over)}"
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


ClaimResult = Literal["holds", "undecided", "does not hold", "not tested"]
_Finding = tuple[ClaimResult, str]


class ClaimVerdict(Struct, frozen=True, kw_only=True):
    """A paper's claim, and whether the runs support it."""

    says: str
    source: str
    verdict: ClaimResult
    evidence: str


class FieldGain(Struct, frozen=True, kw_only=True):
    """The gain from adding one field to the prompts' encoding, measured on two variants."""

    field: str
    less: str  # name of the variant without the field
    more: str  # name of the variant with the field
    n: int  # groups that both variants have
    n_better: int  # groups in which `more` has the larger value
    difference: float  # mean of `more` minus `less` over the groups
    ci95: tuple[float, float] | None
    other_forms: dict[str, tuple[str, str]]  # other fields whose forms in `less` and `more` differ


class AblationFindings(Struct, frozen=True):
    """An ablation, the gains from individual prompt fields, and verdicts on a paper's claims."""

    table: Ablation
    fields: list[FieldGain] = []
    claims: list[ClaimVerdict] = []
    silent: list[str] = []  # names of the variants that no verdict uses


def findings(
    variants: Sequence[Variant], table: Ablation, task: Claiming | None
) -> AblationFindings:
    """Test the claims of a task's paper on the variants of an ablation.

    Args:
        variants: The variants of the ablation.
        table: The ablation, from `ablate`.
        task: The task if it declares claims, otherwise None. Without it, nothing is tested.

    Returns:
        The table, the gains from single prompt fields, and a verdict on each claim.
    """
    if task is None:
        return AblationFindings(table)
    found = _Evidence(variants, table, task)
    verdicts = [found.verdict(claim) for claim in task.claims]
    return AblationFindings(table, found.fields(), verdicts, found.silent)


class _Evidence:
    """The runs on which claims are tested: one for each encoding.

    A run's encoding is the list of fields that its prompts contain. If several runs have the same
    encoding, the run with the most groups is used or, if they tie, the run that shows the most
    examples. ``silent`` names the variants that are not used: incomplete or simulated runs, and
    runs that differ from the baseline in more than the task's options.
    """

    def __init__(self, variants: Sequence[Variant], table: Ablation, task: Claiming) -> None:
        self._table, self._task = table, task
        baseline = next(variant for variant in variants if variant.name == table.baseline)
        self.silent = [
            one.name
            for one in variants
            if one.marks or not all(key.startswith("task.") for key in changed(baseline, one))
        ]
        self._runs: dict[str, Variant] = {}
        for variant in variants:
            encoding = _encoding(variant)
            if encoding and variant.name not in self.silent and self._values(variant):
                rival = self._runs.get(encoding, variant)
                self._runs[encoding] = max(rival, variant, key=self._rank)
        self._base = self._runs.get(_encoding(baseline))

    def _values(self, variant: Variant) -> dict[str, float]:
        return _group_values(variant, self._table.over)

    def _rank(self, variant: Variant) -> tuple[int, float]:
        shown = variant.metrics.groups.get("examples", {})
        numbers = [(int(number), group.n) for number, group in shown.items() if number.isdigit()]
        mean = sum(number * n for number, n in numbers) / (sum(n for _, n in numbers) or 1)
        return len(self._values(variant)), mean

    def fields(self) -> list[FieldGain]:
        """Return the gains in the pairs of runs whose encodings differ by one added field."""
        found = []
        for (less, one), (more, other) in combinations(self._runs.items(), 2):
            ours, theirs = self._task.fields(less), self._task.fields(more)
            if ours.keys() > theirs.keys():
                ours, theirs, one, other = theirs, ours, other, one
            added = list(theirs.keys() - ours.keys())
            if len(added) != 1 or not ours.keys() < theirs.keys():
                continue
            gain = _compare_groups(self._values(other), self._values(one))
            forms = {name: (ours[name], theirs[name]) for name in ours}
            if gain.mean is None:
                continue
            found.append(FieldGain(
                field=added[0],
                less=one.name,
                more=other.name,
                n=gain.n,
                n_better=gain.n_more,
                difference=gain.mean,
                ci95=gain.clipped_ci95(),
                other_forms={name: two for name, two in forms.items() if two[0] != two[1]},
            ))  # fmt: skip
        order = list(dict.fromkeys(gain.field for gain in found))
        return sorted(found, key=lambda gain: order.index(gain.field))

    def verdict(self, claim: Claim) -> ClaimVerdict:
        tests = {"more": self._more, "rows_differ": self._rows, "groups_differ": self._groups}
        found, evidence = tests[claim.test](claim)
        return ClaimVerdict(says=claim.says, source=claim.source, verdict=found, evidence=evidence)

    def _more(self, claim: Claim) -> _Finding:
        missing = [name for name in (claim.more, claim.less) if name not in self._runs]
        if missing:
            return "not tested", f"no usable run of {' and of '.join(missing)}"
        more, less = self._runs[claim.more], self._runs[claim.less]
        result, described = self._tested(more, less)
        return result, f"{more.name} over {less.name}: {described}"

    def _rows(self, _: Claim) -> _Finding:
        added = [g for g in self.fields() if self._base and g.less == self._base.name]
        if len(added) < 2:
            return "not tested", "fewer than two runs add one field to the baseline"
        ranked = sorted(added, key=lambda gain: gain.difference)
        least, most = ranked[0], ranked[-1]
        named = {variant.name: variant for variant in self._runs.values()}
        pairs = len(added) * (len(added) - 1) // 2
        result, described = self._tested(named[most.more], named[least.more], pairs)
        low, high = (f"{g.field} {100 * g.difference:+z.2f} ({g.more})" for g in (least, most))
        return result, (
            f"of {len(added)} fields added to {least.less}, smallest and largest gain: {low}, "
            f"{high}; apart by {described}; the interval covers all {pairs} pairs (Bonferroni)"
        )

    def _tested(self, more: Variant, less: Variant, comparisons: int = 1) -> _Finding:
        found = _compare_groups(self._values(more), self._values(less))
        if found.mean is None:
            return "not tested", f"no {self._table.over} in common"
        result: ClaimResult = "does not hold" if found.mean <= 0 else "undecided"
        between = "no interval"
        if interval := found.clipped_ci95(comparisons=comparisons):
            between = f"{100 * interval[0]:z.2f} to {100 * interval[1]:z.2f}"
            result = "holds" if interval[0] > 0 else result
        return result, (
            f"{100 * found.mean:+z.2f} ({between}), "
            f"more on {found.n_more} of {counted(found.n, self._table.over)}"
        )

    def _groups(self, _: Claim) -> _Finding:
        baseline, units = self._base, several(self._table.over)
        if baseline is None:
            return "not tested", "the baseline is not a usable run of its encoding"
        base, mixed = self._values(baseline), 0
        p_values = []
        for variant in self._runs.values():
            values = self._values(variant)
            gains = {name: values[name] - base[name] for name in base if name in values}
            if variant is not baseline and len(gains) > 1:
                mixed += min(gains.values()) < 0 < max(gains.values())
                p_values.append(self._heterogeneity([variant, baseline], gains))
        if not p_values:
            return "not tested", f"no run has two {units} in common with the baseline"
        beyond = sum(p is not None and p < 0.05 for p in holm(p_values))
        result: ClaimResult = "holds" if beyond else "undecided" if mixed else "does not hold"
        return result, (
            f"{mixed} of {len(p_values)} other encodings (of each, the run with the most examples) "
            f"gain on some {units} and lose on others; of {beyond} the gains differ by more "
            "than their errors (Cochran's Q, Holm)"
        )

    def _heterogeneity(self, runs: Sequence[Variant], gains: Mapping[str, float]) -> float | None:
        """Return the p value of the hypothesis that the gains are equal in all groups."""
        effects, errors = [], []  # as if runs were independent, which is conservative
        for name, gain in gains.items():
            groups = [(run.metrics.groups[self._table.over][name], run.score) for run in runs]
            found = [(one if s == PASS_RATE else one.scores[s]).stderr for one, s in groups]
            error = hypot(*(one or 0.0 for one in found))
            if None not in found and error > ROUNDING:
                effects.append(gain)
                errors.append(error)
        return heterogeneity(effects, errors)


def _encoding(variant: Variant) -> str:
    """Return the encoding that all prompts of a run have, or "" if they have several or none."""
    encodings = list(variant.metrics.groups.get("encoding", {}))
    return encodings[0] if len(encodings) == 1 else ""
