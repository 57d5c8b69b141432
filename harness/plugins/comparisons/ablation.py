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

from harness.analysis.breakdown import rows_for_score
from harness.analysis.clustered import ROUNDING
from harness.analysis.metrics import PASS_RATE, Group
from harness.config.sections import split_k
from harness.errors import ConfigError, check_name
from harness.plugins.comparisons.comparable import (
    Run,
    Variant,
    common_labels,
    common_score,
    group_values,
    refuse_incomparable,
    refuse_unknown_label,
)
from harness.plugins.comparisons.comparison import Method, Pairs, compare, pair
from harness.plugins.comparisons.p_values import holm
from harness.plugins.comparisons.run_differences import changed, differing, marks_against
from harness.plugins.comparisons.strata import compare_groups, heterogeneity
from harness.ports import Claim
from harness.wording import format_count


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
    measures, score = common_score(started)
    score_names = {PASS_RATE: None}
    for variant in started:
        score_names |= dict.fromkeys(variant.metrics.scores)
    check_name(score, score_names, f"The runs have no score {baseline.score!r}.")
    base = group_values(baseline, over)
    if not base:
        problem = f"The run {baseline.metrics.run!r} has no {baseline.score} in any {over}."
        raise ConfigError(problem, "Name another --baseline, or another --score.")
    tables = {}
    for variant, table in runs:
        tables[variant.name] = rows_for_score(table.last_rounds(), variant.score)
    before = tables[baseline.name]
    if cluster != over:
        refuse_unknown_label("--cluster", cluster, {baseline.name: before})
    replies = baseline.replies()
    rows = []
    for variant in variants:
        pairs = pair(before, tables[variant.name], score=score, weight=baseline.weight(score))
        pairs = pairs.sharing(replies.same_as(variant.replies()))
        rows.append(_row(variant, baseline, pairs, options))
    for place, p_holm in enumerate(holm([row.p_value for row in rows])):
        rows[place] = replace(rows[place], p_holm=p_holm)
    rivals = [variant for variant in started if variant is not baseline]
    return Ablation(
        task=baseline.metrics.task,
        model=baseline.metrics.model,
        baseline=baseline.name,
        over=over,
        cluster=cluster,
        score=measures,
        by=options.by,
        n_groups=len(base),
        rows=rows,
        notes=list(differing(baseline, rivals)),
    )


def _baseline(variants: Sequence[Variant], requested: str) -> Variant:
    by_name = {variant.name: variant for variant in variants}
    name = requested or variants[0].name
    check_name(name, by_name, f"There is no variant {name!r} to compare with.")
    baseline = by_name[name]
    if not baseline.begun:
        problem = f"The run {baseline.metrics.run!r} has no attempts to compare with."
        raise ConfigError(problem, "Run its run file again, or name another --baseline.")
    return baseline


def _label(variants: Sequence[Variant], requested: str) -> str:
    shared = common_labels(variant.metrics for variant in variants)
    if not requested and not shared:
        problem = "The runs have no label in common whose groups could be averaged."
        raise ConfigError(problem, "Use harness compare, or name labels in the task's 'groups'.")
    for variant in variants:
        if requested not in variant.metrics.groups:
            problem = f"The run {variant.metrics.run!r} has no groups of {requested!r}."
            check_name(requested, shared, problem)
    return requested or shared[0]


def _gain(values: Mapping[str, float], base: Mapping[str, float], total: int) -> Gain:
    """Return the mean of ``values``, and its gain over the same groups of ``base``."""
    before = fsum(base[name] for name in values)
    after = fsum(values.values())
    percent = None
    if before:
        percent = (after - before) / before * 100
    return Gain(n=len(values), of=total, mean=_mean(values), percent=percent)


def _mean(values: Mapping[str, float]) -> float | None:
    if not values:
        return None
    return fsum(values.values()) / len(values)


def _row(
    variant: Variant, baseline: Variant, pairs: Pairs, options: AblationOptions
) -> AblationRow:
    over = options.over
    variant_values = group_values(variant, over)
    baseline_values = group_values(baseline, over)
    grouped = pairs.linearised(over)
    base = {}
    values = {}
    for name, rows in pairs.group(over).items():
        base[name] = float(grouped.first[rows].mean())
        values[name] = float(grouped.second[rows].mean())
    row = AblationRow(
        variant=variant.name,
        is_baseline=variant.name == baseline.name,
        marks=[*marks_against(baseline, variant), *_doubts(variant, baseline, over)],
        n_groups=len(variant_values),
        mean=_mean(variant_values),
        same_groups=variant_values.keys() == baseline_values.keys(),
        gain=_gain(values, base, len(baseline_values)),
        n_better=sum(values[name] > base[name] + ROUNDING for name in base),
        by=_gains_by(options.member, values, base, baseline_values),
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


def _gains_by(
    member: Mapping[str, str],
    values: Mapping[str, float],
    base: Mapping[str, float],
    baseline_values: Mapping[str, float],
) -> dict[str, Gain]:
    """Return the gain in each coarser group; ``member`` maps groups to these."""
    gains = {}
    for coarse in sorted(set(member.values())):
        members = {name for name in member if member[name] == coarse}
        part = {name: value for name, value in values.items() if name in members}
        gains[coarse] = _gain(part, base, len(baseline_values.keys() & members))
    return gains


def _doubts(variant: Variant, baseline: Variant, over: str) -> Iterator[str]:
    score = variant.score
    groups = variant.metrics.groups.get(over, {})
    baseline_groups = baseline.metrics.groups.get(over, {})
    more = groups.keys() - baseline_groups.keys()
    if more and baseline_groups:
        yield f"{format_count(len(more), 'group')} of {over!r} that the baseline lacks"
    if variant.metrics.complete and baseline.metrics.complete:
        unlike = 0
        for name in groups.keys() & baseline_groups.keys():
            unlike += groups[name].instances != baseline_groups[name].instances
        if unlike:
            yield f"other instances in {format_count(unlike, 'group')} of {over!r}"
    missing = sum(_n_without(group, score) for group in groups.values())
    if missing:
        unit = "instances" if split_k(score)[1] else "samples"
        yield f"{missing:,} {unit} without {score}"


def _n_without(group: Group, score: str) -> int:
    """Return how many samples of a group (for a score of k samples: instances) lack a score."""
    if score in group.scores:
        return group.scores[score].missing
    if split_k(score)[1]:
        return group.pass_at_k_instances
    if score == PASS_RATE:
        return group.missing
    return group.missing + group.n


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
        self.silent: list[str] = []
        self._runs: dict[str, Variant] = {}
        (baseline,) = (variant for variant in variants if variant.name == table.baseline)
        for variant in variants:
            keys = changed(baseline, variant)
            if variant.marks or not all(key.startswith("task.") for key in keys):
                self.silent.append(variant.name)
                continue
            encoding = _encoding(variant)
            if encoding and self._values(variant):
                rival = self._runs.get(encoding, variant)
                self._runs[encoding] = max(rival, variant, key=self._rank)
        self._base = self._runs.get(_encoding(baseline))

    def _values(self, variant: Variant) -> dict[str, float]:
        return group_values(variant, self._table.over)

    def _rank(self, variant: Variant) -> tuple[int, float]:
        """Return the number of groups, and the mean number of examples."""
        n = 0
        n_examples = 0
        for number, group in variant.metrics.groups.get("examples", {}).items():
            if number.isdigit():
                n += group.n
                n_examples += int(number) * group.n
        return len(self._values(variant)), n_examples / (n or 1)

    def fields(self) -> list[FieldGain]:
        """Return the gains in the pairs of runs whose encodings differ by one added field."""
        gains: dict[str, list[FieldGain]] = {}
        fields_of = {}
        for encoding, run in self._runs.items():
            fields_of[encoding] = run.display.fields.get(encoding, {})
        for two in combinations(self._runs, 2):
            less_encoding, more_encoding = sorted(
                two, key=lambda encoding: len(fields_of[encoding])
            )
            less = self._runs[less_encoding]
            more = self._runs[more_encoding]
            fewer = fields_of[less_encoding]
            fields = fields_of[more_encoding]
            added = list(fields.keys() - fewer.keys())
            if len(added) != 1 or not fewer.keys() < fields.keys():
                continue
            gain = compare_groups(self._values(more), self._values(less))
            if gain.mean is None:
                continue
            forms = {}
            for name, form in fewer.items():
                if form != fields[name]:
                    forms[name] = form, fields[name]
            field_gain = FieldGain(
                field=added[0],
                less=less.name,
                more=more.name,
                n=gain.n,
                n_better=gain.n_more,
                difference=gain.mean,
                ci95=gain.difference_ci95(),
                other_forms=forms,
            )
            gains.setdefault(field_gain.field, []).append(field_gain)
        return [gain for of_field in gains.values() for gain in of_field]

    def verdict(self, claim: Claim) -> ClaimVerdict:
        tests = {"more": self._more, "rows_differ": self._rows, "groups_differ": self._groups}
        result, evidence = tests[claim.test](claim)
        return ClaimVerdict(says=claim.says, source=claim.source, verdict=result, evidence=evidence)

    def _more(self, claim: Claim) -> _Finding:
        more = self._runs.get(claim.more)
        less = self._runs.get(claim.less)
        if more is None or less is None:
            missing = [name for name in (claim.more, claim.less) if name not in self._runs]
            return "not tested", f"no usable run of {' and of '.join(missing)}"
        result, described = self._tested(more, less)
        return result, f"{more.name} over {less.name}: {described}"

    def _rows(self, _: Claim) -> _Finding:
        added = [gain for gain in self.fields() if self._base and gain.less == self._base.name]
        if len(added) < 2:
            return "not tested", "fewer than two runs add one field to the baseline"
        ranked = sorted(added, key=lambda gain: gain.difference)
        smallest = ranked[0]
        largest = ranked[-1]
        variants = {variant.name: variant for variant in self._runs.values()}
        pairs = len(added) * (len(added) - 1) // 2
        result, described = self._tested(variants[largest.more], variants[smallest.more], pairs)
        return result, (
            f"of {len(added)} fields added to {smallest.less}, smallest and largest gain: "
            f"{_field_gain_text(smallest)}, {_field_gain_text(largest)}; "
            f"apart by {described}; the interval covers all {pairs} pairs (Bonferroni)"
        )

    def _tested(self, more: Variant, less: Variant, comparisons: int = 1) -> _Finding:
        gain = compare_groups(self._values(more), self._values(less))
        if gain.mean is None:
            return "not tested", "no groups in common"
        between = "no interval"
        result: ClaimResult = "undecided"
        interval = gain.difference_ci95(comparisons=comparisons)
        if interval is not None:
            between = f"{100 * interval[0]:z.2f} to {100 * interval[1]:z.2f}"
        if gain.mean <= 0:
            result = "does not hold"
        elif interval is not None and interval[0] > 0:
            result = "holds"
        return result, (
            f"{100 * gain.mean:+z.2f} ({between}), "
            f"more on {gain.n_more} of {format_count(gain.n, 'group')}"
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
        result: ClaimResult = "does not hold"
        if beyond:
            result = "holds"
        elif mixed:
            result = "undecided"
        return result, (
            f"{mixed} of {len(p_values)} other encodings (of each, the run with the most groups, "
            f"or if tied, the most examples) gain on some groups and lose on others; of {beyond} "
            "the gains differ by more than their errors (Cochran's Q, Holm)"
        )

    def _heterogeneity(self, runs: Sequence[Variant], gains: Mapping[str, float]) -> float | None:
        """Return the p value of a test of whether all groups gain equally, if it can be tested."""
        effects = []
        errors = []  # as if runs were independent, which is conservative
        for name, gain in gains.items():
            stderrs = []
            for run in runs:
                group = run.metrics.groups[self._table.over][name]
                statistic = group if run.score == PASS_RATE else group.scores[run.score]
                stderrs.append(statistic.stderr)
            error = hypot(*(stderr or 0.0 for stderr in stderrs))
            if None not in stderrs and error > ROUNDING:
                effects.append(gain)
                errors.append(error)
        return heterogeneity(effects, errors)


def _field_gain_text(gain: FieldGain) -> str:
    return f"{gain.field} {100 * gain.difference:+z.2f} ({gain.more})"


def _encoding(variant: Variant) -> str:
    """Return the encoding that all prompts of a run have, or "" if there is not just one."""
    encodings = list(variant.metrics.groups.get("encoding", {}))
    if len(encodings) != 1:
        return ""
    return encodings[0]
