"""Uses the variants of an ablation to test the claims of a task's paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import hypot
from typing import Literal

from msgspec import Struct

from harness.analysis.ablation import Ablation, compare_groups, group_values
from harness.analysis.clustered import ROUNDING
from harness.analysis.comparable import Variant
from harness.analysis.metrics import PASS_RATE
from harness.analysis.p_values import heterogeneity, holm
from harness.analysis.run_differences import changed
from harness.ports import Claim
from harness.wording import count_of

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

    ``table`` is the ablation of the ``variants``. If their task is no `Claiming`, there are no
    gains and no verdicts.
    """
    claims = variants[0].display.claims
    if claims is None:
        return AblationFindings(table)
    found = _Evidence(variants, table)
    verdicts = [found.verdict(claim) for claim in claims]
    return AblationFindings(table, found.fields(), verdicts, found.silent)


class _Evidence:
    """The runs on which claims are tested, one for each list of fields in prompts.

    ``silent`` names the variants excluded from all tests: incomplete or simulated runs, and runs
    that differ from the baseline in more than the task's options.
    """

    def __init__(self, variants: Sequence[Variant], table: Ablation) -> None:
        self._table = table
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
        return group_values(variant, self._table.over)

    def _rank(self, variant: Variant) -> tuple[int, float]:
        shown = variant.metrics.groups.get("examples", {})
        numbers = [(int(number), group.n) for number, group in shown.items() if number.isdigit()]
        mean = sum(number * n for number, n in numbers) / (sum(n for _, n in numbers) or 1)
        return len(self._values(variant)), mean

    def fields(self) -> list[FieldGain]:
        """Return the gains in the pairs of runs whose encodings differ by one added field."""
        found = []
        for (less, one), (more, other) in combinations(self._runs.items(), 2):
            ours, theirs = one.display.fields.get(less, {}), other.display.fields.get(more, {})
            if ours.keys() > theirs.keys():
                ours, theirs, one, other = theirs, ours, other, one
            added = list(theirs.keys() - ours.keys())
            if len(added) != 1 or not ours.keys() < theirs.keys():
                continue
            gain = compare_groups(self._values(other), self._values(one))
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
                ci95=gain.difference_ci95(),
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
        found = compare_groups(self._values(more), self._values(less))
        if found.mean is None:
            return "not tested", "no groups in common"
        result: ClaimResult = "does not hold" if found.mean <= 0 else "undecided"
        between = "no interval"
        if interval := found.difference_ci95(comparisons=comparisons):
            between = f"{100 * interval[0]:z.2f} to {100 * interval[1]:z.2f}"
            result = "holds" if interval[0] > 0 else result
        return result, (
            f"{100 * found.mean:+z.2f} ({between}), "
            f"more on {found.n_more} of {count_of(found.n, 'group')}"
        )

    def _groups(self, _: Claim) -> _Finding:
        baseline = self._base
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
            found = [(one if s == PASS_RATE else one.scores[s]).stderr for one, s in groups]
            error = hypot(*(one or 0.0 for one in found))
            if None not in found and error > ROUNDING:
                effects.append(gain)
                errors.append(error)
        return heterogeneity(effects, errors)


def _encoding(variant: Variant) -> str:
    """Return the encoding that all prompts of a run have, or "" if there is not just one."""
    encodings = list(variant.metrics.groups.get("encoding", {}))
    return encodings[0] if len(encodings) == 1 else ""
