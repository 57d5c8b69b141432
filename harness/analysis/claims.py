"""What an ablation says about a paper's claims, and what each single field adds.

Runs are matched by what their prompts contain, the group label ``encoding``. Of several runs
with the same encoding, the one with the most groups counts, then the one that shows the most
examples (label ``examples``). Incomplete and simulated runs are no evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import hypot
from typing import Literal

from msgspec import Struct

from harness.analysis.ablation import Ablation, compare_groups, counted, group_values, several
from harness.analysis.clustered import ROUNDING
from harness.analysis.comparable import Variant, changed
from harness.analysis.metrics import PASS_RATE
from harness.analysis.paired import Paired, heterogeneity, holm
from harness.ports import Claim, Claiming

ClaimResult = Literal["holds", "undecided", "does not hold", "not tested"]


class ClaimVerdict(Struct, frozen=True, kw_only=True):
    """A claim, and what these runs say about it."""

    says: str
    source: str
    verdict: ClaimResult
    evidence: str


class FieldGain(Struct, frozen=True, kw_only=True):
    """What a field adds: two variants whose encodings differ in this field only.

    Attributes:
        other_forms: Fields that both have, but in different forms: that of `less`, that of `more`.
    """

    field: str
    less: str
    more: str
    n: int
    n_better: int
    difference: float
    ci95: tuple[float, float] | None
    other_forms: dict[str, tuple[str, str]]


class AblationFindings(Struct, frozen=True, kw_only=True):
    """An ablation with its claims.

    Attributes:
        silent: Variants excluded as evidence.
    """

    table: Ablation
    fields: list[FieldGain] = []
    claims: list[ClaimVerdict] = []
    silent: list[str] = []


def findings(
    variants: Sequence[Variant], table: Ablation, task: Claiming | None
) -> AblationFindings:
    """Return an ablation with what it says about the task's claims, if the task makes any."""
    if task is None:
        return AblationFindings(table=table)
    evidence = _Evidence(variants, table, task)
    return AblationFindings(
        table=table,
        fields=evidence.fields(),
        claims=[evidence.verdict(claim) for claim in task.claims],
        silent=evidence.silent,
    )


class _Evidence:
    """The runs that count as evidence, one for each encoding."""

    def __init__(self, variants: Sequence[Variant], table: Ablation, task: Claiming) -> None:
        self._table = table
        self._task = task
        self._runs: dict[str, Variant] = {}
        baseline = next(variant for variant in variants if variant.name == table.baseline)
        # A run counts if it differs from the baseline in the prompt only.
        self.silent = [
            variant.name
            for variant in variants
            if variant.marks
            or not all(key.startswith("task.") for key in changed(baseline, variant))
        ]
        for variant in variants:
            encoding = _encoding(variant)
            if encoding and variant.name not in self.silent and self._values(variant):
                rival = self._runs.get(encoding)
                if rival is None or self._rank(variant) > self._rank(rival):
                    self._runs[encoding] = variant
        self._base = self._runs.get(_encoding(baseline))

    def _values(self, variant: Variant) -> dict[str, float]:
        return group_values(variant, self._table.over, self._table.score)

    def _rank(self, variant: Variant) -> tuple[int, float]:
        shown = variant.metrics.groups.get("examples", {})
        numbers = [(int(number), group.n) for number, group in shown.items() if number.isdigit()]
        mean = sum(number * n for number, n in numbers) / (sum(n for _, n in numbers) or 1)
        return len(self._values(variant)), mean

    def _compared(self, more: Variant, less: Variant) -> Paired:
        return compare_groups(self._values(more), self._values(less))

    def fields(self) -> list[FieldGain]:
        """Return what each single field adds, field by field."""
        found = []
        for (less, one), (more, other) in combinations(self._runs.items(), 2):
            ours, theirs = self._task.fields(less), self._task.fields(more)
            if ours.keys() > theirs.keys():
                ours, theirs, one, other = theirs, ours, other, one
            added = list(theirs.keys() - ours.keys())
            if len(added) != 1 or not ours.keys() < theirs.keys():
                continue
            gain = self._compared(other, one)
            if gain.mean is not None:
                found.append(
                    FieldGain(
                        field=added[0],
                        less=one.name,
                        more=other.name,
                        n=gain.n,
                        n_better=gain.n_more,
                        difference=gain.mean,
                        ci95=gain.clipped_ci95(),
                        other_forms={
                            name: (ours[name], theirs[name])
                            for name in ours
                            if ours[name] != theirs[name]
                        },
                    )
                )
        order = list(dict.fromkeys(gain.field for gain in found))
        return sorted(found, key=lambda gain: order.index(gain.field))

    def verdict(self, claim: Claim) -> ClaimVerdict:
        """Judge whether a claim holds in these runs."""
        test = {"more": self._more, "rows_differ": self._rows, "groups_differ": self._groups}
        result, evidence = test[claim.test](claim)
        return ClaimVerdict(says=claim.says, source=claim.source, verdict=result, evidence=evidence)

    def _more(self, claim: Claim) -> tuple[ClaimResult, str]:
        missing = [name for name in (claim.more, claim.less) if name not in self._runs]
        if missing:
            return "not tested", f"no usable run of {' and of '.join(missing)}"
        more, less = self._runs[claim.more], self._runs[claim.less]
        result, described = self._tested(more, less)
        return result, f"{more.name} over {less.name}: {described}"

    def _rows(self, _: Claim) -> tuple[ClaimResult, str]:
        added = [g for g in self.fields() if self._base and g.less == self._base.name]
        if len(added) < 2:
            return "not tested", "fewer than two runs add one field to the baseline"
        ranked = sorted(added, key=lambda gain: gain.difference)
        least, most = ranked[0], ranked[-1]
        named = {variant.name: variant for variant in self._runs.values()}
        pairs = len(added) * (len(added) - 1) // 2
        result, described = self._tested(named[most.more], named[least.more], pairs)
        extremes = ", ".join(
            f"{gain.field} {100 * gain.difference:+z.2f} ({gain.more})" for gain in (least, most)
        )
        return result, (
            f"of {len(added)} fields added to {least.less}, smallest and largest gain: {extremes}; "
            f"apart by {described}; the interval covers all {pairs} pairs (Bonferroni)"
        )

    def _tested(
        self, more: Variant, less: Variant, comparisons: int = 1
    ) -> tuple[ClaimResult, str]:
        """Return whether one run scores higher than another, and the evidence."""
        found = self._compared(more, less)
        if found.mean is None:
            return "not tested", f"no {self._table.over} in common"
        interval, between = found.clipped_ci95(comparisons=comparisons), "no interval"
        result: ClaimResult = "does not hold" if found.mean <= 0 else "undecided"
        if interval is not None:
            between = f"{100 * interval[0]:z.2f} to {100 * interval[1]:z.2f}"
            result = "holds" if interval[0] > 0 else result
        return result, (
            f"{100 * found.mean:+z.2f} ({between}), "
            f"more on {found.n_more} of {counted(found.n, self._table.over)}"
        )

    def _groups(self, _: Claim) -> tuple[ClaimResult, str]:
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
                p_values.append(self._heterogeneity(variant, baseline, gains))
        if not p_values:
            return "not tested", f"no run has two {units} in common with the baseline"
        beyond = sum(p is not None and p < 0.05 for p in holm(p_values))
        result: ClaimResult = "holds" if beyond else "undecided" if mixed else "does not hold"
        return result, (
            f"{mixed} of {len(p_values)} other encodings (of each, the run with the most examples) "
            f"gain on some {units} and lose on others; of {beyond} the gains differ by more "
            "than their errors (Cochran's Q, Holm)"
        )

    def _heterogeneity(
        self, variant: Variant, baseline: Variant, gains: Mapping[str, float]
    ) -> float | None:
        """Return the p value of the gain being the same in each group.

        The errors are those of two independent samples: too large where the answers to one instance
        are correlated, so the p value is too large rather than too small.
        """
        effects, errors = [], []
        over, score = self._table.over, self._table.score
        for name, gain in gains.items():
            groups = [run.metrics.groups[over][name] for run in (variant, baseline)]
            stderrs = [
                (group if score == PASS_RATE else group.scores[score]).stderr for group in groups
            ]
            error = hypot(*(found or 0.0 for found in stderrs))
            if None not in stderrs and error > ROUNDING:
                effects.append(gain)
                errors.append(error)
        return heterogeneity(effects, errors)


def _encoding(variant: Variant) -> str:
    """Return the one encoding of a run's prompts; empty if there are several or none."""
    encodings = list(variant.metrics.groups.get("encoding", {}))
    return encodings[0] if len(encodings) == 1 else ""
