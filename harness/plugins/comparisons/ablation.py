"""Compares the variants of a run file with a baseline, by their means over groups.

The groups of a label, such as the tasks of Natural Instructions, have equal weight, as in Mishra et
al. 2022 (arXiv 2104.08773). The statistical unit is the prompt, as in other comparisons, unless the
groups are said to be a random sample of all groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import fsum, hypot
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from harness.analysis.breakdown import scored
from harness.analysis.clustered import ROUNDING
from harness.analysis.metrics import PASS_RATE
from harness.config.sections import of_k
from harness.errors import ConfigError, refuse_unknown
from harness.plugins.comparisons.comparable import (
    Run,
    Variant,
    common_score,
    refuse_incomparable,
    refuse_unknown_label,
)
from harness.plugins.comparisons.comparison import Method, Pairs, compare, pair
from harness.plugins.comparisons.group_differences import Paired, heterogeneity, paired
from harness.plugins.comparisons.p_values import holm
from harness.plugins.comparisons.run_differences import changed, differing, marks_against
from harness.ports import Claim
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
    started = [variant for variant in variants if variant.begun]
    baseline = _baseline(variants, options.baseline)
    over = _label(started, options.over)
    cluster = over if options.cluster is None else options.cluster
    options = replace(options, over=over, cluster=cluster)
    refuse_incomparable(baseline, started, over)
    score_names = [PASS_RATE, *(name for variant in started for name in variant.metrics.scores)]
    measures, score = common_score(started)
    refuse_unknown(score, dict.fromkeys(score_names), f"The runs have no score {baseline.score!r}.")
    base = group_values(baseline, over)
    if not base:
        problem = f"The run {baseline.metrics.run!r} has no {baseline.score} in any {over}."
        raise ConfigError(problem, "Name another --baseline, or another --score.")
    tables = {variant.name: scored(table.last_rounds(), variant.score) for variant, table in runs}
    before = tables[baseline.name]
    if cluster != over:
        refuse_unknown_label("--cluster", cluster, {baseline.name: before})
    replies = baseline.replies()
    rows = []
    for variant in variants:
        pairs = pair(before, tables[variant.name], score=score, weight=baseline.weight(score))
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
        notes=list(
            differing(baseline, [variant for variant in started if variant is not baseline])
        ),
    )


def _baseline(variants: Sequence[Variant], requested: str) -> Variant:
    by_name = {variant.name: variant for variant in variants}
    name = requested or variants[0].name
    refuse_unknown(name, by_name, f"There is no variant {name!r} to compare with.")
    if not by_name[name].begun:
        problem = f"The run {by_name[name].metrics.run!r} has no attempts to compare with."
        raise ConfigError(problem, "Run its run file again, or name another --baseline.")
    return by_name[name]


def _label(variants: Sequence[Variant], requested: str) -> str:
    labels = [variant.metrics.groups for variant in variants]
    shared = [label for label in labels[0] if all(label in groups for groups in labels)]
    if not requested and not shared:
        problem = "The runs have no label in common whose groups could be averaged."
        raise ConfigError(problem, "Use harness compare, or name labels in the task's 'groups'.")
    for variant in variants:
        if requested not in variant.metrics.groups:
            problem = f"The run {variant.metrics.run!r} has no groups of {requested!r}."
            refuse_unknown(requested, shared, problem)
    return requested or shared[0]


def group_values(variant: Variant, over: str) -> dict[str, float]:
    """Return a variant's mean score by group, without groups that have no value."""
    values = {}
    for name, group in variant.metrics.groups.get(over, {}).items():
        statistic = group if variant.score == PASS_RATE else group.scores.get(variant.score)
        if statistic is not None and statistic.mean is not None:
            values[name] = statistic.mean
    return values


def compare_groups(values: Mapping[str, float], base: Mapping[str, float]) -> Paired:
    """Return the variant's mean difference from the baseline over their common groups."""
    common = [name for name in base if name in values]
    return paired([values[name] for name in common], [base[name] for name in common])


def _gain(values: Mapping[str, float], base: Mapping[str, float], total: int) -> Gain:
    """Return the mean of ``values``, and its gain over the same groups of ``base``."""
    before = fsum(base[name] for name in values)
    after = fsum(values.values())
    percent = (after - before) / before * 100 if before else None
    return Gain(
        n=len(values), of=total, mean=after / len(values) if values else None, percent=percent
    )


def _row(
    variant: Variant, baseline: Variant, pairs: Pairs, options: AblationOptions
) -> AblationRow:
    over = options.over
    member = options.member
    variant_values, every = (group_values(run, over) for run in (variant, baseline))
    grouped = pairs.linearised(over)
    base, values = (
        {name: float(side[rows].mean()) for name, rows in pairs.group(over).items()}
        for side in (grouped.first, grouped.second)
    )
    row = AblationRow(
        variant=variant.name,
        is_baseline=variant.name == baseline.name,
        marks=[*marks_against(baseline, variant), *_doubts(variant, baseline, over)],
        n_groups=len(variant_values),
        mean=fsum(variant_values.values()) / len(variant_values) if variant_values else None,
        same_groups=variant_values.keys() == every.keys(),
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
    comparison = compare(pairs.clustered_by(options.cluster or ""), over)
    return replace(
        row,
        difference=comparison.difference,
        by_instance=float(pairs.linearised().difference.mean()),
        ci95=comparison.ci95,
        n_clusters=comparison.n_clusters,
        p_value=comparison.p_value,
        method=comparison.method,
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
    silent: list[str] = []  # names of the variants that are unfit for verdicts (`_Evidence`)


def findings(variants: Sequence[Variant], table: Ablation) -> AblationFindings:
    """Return an ablation, the gains from single prompt fields, and verdicts on the paper's claims.

    ``table`` is the ablation of the ``variants``. If their task has none, there are no
    gains and no verdicts.
    """
    claims = variants[0].display.claims
    if claims is None:
        return AblationFindings(table)
    evidence = _Evidence(variants, table)
    verdicts = [evidence.verdict(claim) for claim in claims]
    return AblationFindings(table, evidence.fields(), verdicts, evidence.silent)


class _Evidence:
    """The runs on which claims are tested, one for each list of fields in prompts.

    ``silent`` names the variants excluded from all tests: incomplete or simulated runs, and runs
    that differ from the baseline in more than the task's options.
    """

    def __init__(self, variants: Sequence[Variant], table: Ablation) -> None:
        self._table = table
        baseline = next(variant for variant in variants if variant.name == table.baseline)
        self.silent = [
            variant.name
            for variant in variants
            if variant.marks
            or not all(key.startswith("task.") for key in changed(baseline, variant))
        ]
        self._runs: dict[str, Variant] = {}
        for variant in variants:
            encoding = _encoding(variant)
            if encoding and variant.name not in self.silent and self._values(variant):
                rival = self._runs.get(encoding, variant)
                self._runs[encoding] = max(rival, variant, key=self._rank)
        self._base = self._runs.get(_encoding(baseline))

    def _values(self, variant: Variant) -> dict[str, float]:
        return group_values(variant, self._table.over)

    def _rank(self, variant: Variant) -> tuple[int, float]:
        examples = variant.metrics.groups.get("examples", {})
        numbers = [(int(number), group.n) for number, group in examples.items() if number.isdigit()]
        mean = sum(number * n for number, n in numbers) / (sum(n for _, n in numbers) or 1)
        return len(self._values(variant)), mean

    def fields(self) -> list[FieldGain]:
        """Return the gains in the pairs of runs whose encodings differ by one added field."""
        gains = []
        for (less, less_run), (more, more_run) in combinations(self._runs.items(), 2):
            ours = less_run.display.fields.get(less, {})
            theirs = more_run.display.fields.get(more, {})
            if ours.keys() > theirs.keys():
                ours, theirs, less_run, more_run = theirs, ours, more_run, less_run
            added = list(theirs.keys() - ours.keys())
            if len(added) != 1 or not ours.keys() < theirs.keys():
                continue
            gain = compare_groups(self._values(more_run), self._values(less_run))
            forms = {name: (ours[name], theirs[name]) for name in ours}
            if gain.mean is None:
                continue
            gains.append(FieldGain(
                field=added[0],
                less=less_run.name,
                more=more_run.name,
                n=gain.n,
                n_better=gain.n_more,
                difference=gain.mean,
                ci95=gain.difference_ci95(),
                other_forms={name: two for name, two in forms.items() if two[0] != two[1]},
            ))  # fmt: skip
        order = list(dict.fromkeys(gain.field for gain in gains))
        return sorted(gains, key=lambda gain: order.index(gain.field))

    def verdict(self, claim: Claim) -> ClaimVerdict:
        tests = {"more": self._more, "rows_differ": self._rows, "groups_differ": self._groups}
        result, evidence = tests[claim.test](claim)
        return ClaimVerdict(says=claim.says, source=claim.source, verdict=result, evidence=evidence)

    def _more(self, claim: Claim) -> _Finding:
        missing = [name for name in (claim.more, claim.less) if name not in self._runs]
        if missing:
            return "not tested", f"no usable run of {' and of '.join(missing)}"
        more = self._runs[claim.more]
        less = self._runs[claim.less]
        result, described = self._tested(more, less)
        return result, f"{more.name} over {less.name}: {described}"

    def _rows(self, _: Claim) -> _Finding:
        added = [g for g in self.fields() if self._base and g.less == self._base.name]
        if len(added) < 2:
            return "not tested", "fewer than two runs add one field to the baseline"
        ranked = sorted(added, key=lambda gain: gain.difference)
        smallest = ranked[0]
        largest = ranked[-1]
        variants = {variant.name: variant for variant in self._runs.values()}
        pairs = len(added) * (len(added) - 1) // 2
        result, described = self._tested(variants[largest.more], variants[smallest.more], pairs)
        low, high = (
            f"{g.field} {100 * g.difference:+z.2f} ({g.more})" for g in (smallest, largest)
        )
        return result, (
            f"of {len(added)} fields added to {smallest.less}, smallest and largest gain: {low}, "
            f"{high}; apart by {described}; the interval covers all {pairs} pairs (Bonferroni)"
        )

    def _tested(self, more: Variant, less: Variant, comparisons: int = 1) -> _Finding:
        gain = compare_groups(self._values(more), self._values(less))
        if gain.mean is None:
            return "not tested", "no groups in common"
        result: ClaimResult = "does not hold" if gain.mean <= 0 else "undecided"
        between = "no interval"
        if interval := gain.difference_ci95(comparisons=comparisons):
            between = f"{100 * interval[0]:z.2f} to {100 * interval[1]:z.2f}"
            result = "holds" if interval[0] > 0 else result
        return result, (
            f"{100 * gain.mean:+z.2f} ({between}), "
            f"more on {gain.n_more} of {count_of(gain.n, 'group')}"
        )

    def _groups(self, _: Claim) -> _Finding:
        baseline = self._base
        if baseline is None:
            return "not tested", "the baseline is not a usable run of its encoding"
        base = self._values(baseline)
        mixed = 0
        p_values = []
        for variant in self._runs.values():
            values = self._values(variant)
            gains = {name: values[name] - base[name] for name in base if name in values}
            if variant is not baseline and len(gains) > 1:
                mixed += min(gains.values()) < 0 < max(gains.values())
                p_values.append(self._heterogeneity([variant, baseline], gains))
        if not p_values:
            return "not tested", "no run has two groups in common with the baseline"
        beyond = sum(p is not None and p < 0.05 for p in holm(p_values))
        result: ClaimResult = "holds" if beyond else "undecided" if mixed else "does not hold"
        return result, (
            f"{mixed} of {len(p_values)} other encodings (of each, the run with the most groups, "
            f"or if tied, the most examples) gain on some groups and lose on others; of {beyond} "
            "the gains differ by more than their errors (Cochran's Q, Holm)"
        )

    def _heterogeneity(self, runs: Sequence[Variant], gains: Mapping[str, float]) -> float | None:
        """Return the p value of a test of whether all groups gain equally, if it can be tested."""
        effects, errors = [], []  # as if runs were independent, which is conservative
        for name, gain in gains.items():
            groups = [(run.metrics.groups[self._table.over][name], run.score) for run in runs]
            stderrs = [(group if s == PASS_RATE else group.scores[s]).stderr for group, s in groups]
            error = hypot(*(stderr or 0.0 for stderr in stderrs))
            if None not in stderrs and error > ROUNDING:
                effects.append(gain)
                errors.append(error)
        return heterogeneity(effects, errors)


def _encoding(variant: Variant) -> str:
    """Return the encoding that all prompts of a run have, or "" if there is not just one."""
    encodings = list(variant.metrics.groups.get("encoding", {}))
    return encodings[0] if len(encodings) == 1 else ""
