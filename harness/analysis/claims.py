"""What an ablation says of a paper's claims, and what each single field adds.

Runs are matched by what their prompts hold, the group label ``encoding``. Of
several with the same encoding the one with the most groups speaks, then the one
that shows the most examples (label ``examples``). A run that is incomplete or
simulated speaks for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import hypot
from typing import Literal

from msgspec import Struct

from harness.analysis.ablation import Ablation, counted, group_values, several
from harness.analysis.comparable import Variant, changed
from harness.analysis.paired import ROUNDING, Paired, heterogeneity, holm, paired
from harness.analysis.question import PASS_RATE
from harness.ports import Claim, Claiming

VerdictWord = Literal["holds", "undecided", "does not hold", "not tested"]


class Verdict(Struct, frozen=True, kw_only=True):
    """A claim, and what these runs say of it."""

    says: str
    source: str
    verdict: VerdictWord
    evidence: str


class FieldGain(Struct, frozen=True, kw_only=True):
    """What a field adds: two variants whose encodings differ in it alone.

    other_forms: fields that both have, but in another form: that of `less`, that of `more`.
    """

    field: str
    less: str
    more: str
    n: int
    n_better: int
    difference: float
    ci95: tuple[float, float] | None
    other_forms: dict[str, tuple[str, str]]


class Findings(Struct, frozen=True, kw_only=True):
    """The whole of an ablation.

    silent: variants that speak neither for a field nor for a claim.
    """

    table: Ablation
    fields: list[FieldGain] = []
    claims: list[Verdict] = []
    silent: list[str] = []


def findings(variants: Sequence[Variant], table: Ablation, task: Claiming | None) -> Findings:
    """A table with what it says of the task's claims, where the task makes any."""
    if task is None:
        return Findings(table=table)
    evidence = Evidence(variants, table, task)
    return Findings(
        table=table,
        fields=evidence.fields(),
        claims=[evidence.verdict(claim) for claim in task.claims],
        silent=evidence.silent,
    )


class Evidence:
    """The runs that speak for their encodings.

    table: made of the variants; says over what, and by which score.
    """

    def __init__(self, variants: Sequence[Variant], table: Ablation, task: Claiming) -> None:
        self._table = table
        self._task = task
        self._units = several(table.over)
        self._of: dict[str, Variant] = {}
        baseline = next(variant for variant in variants if variant.name == table.baseline)

        def same(variant: Variant) -> bool:
            """But for the prompt: another model's gain is no gain of the field's."""
            return all(key.startswith("task.") for key in changed(baseline, variant))

        self.silent = [v.name for v in variants if v.marks or not same(v)]
        for variant in variants:
            encoding = _encoding(variants, variant.name)
            if encoding and not variant.marks and self._values(variant) and same(variant):
                rival = self._of.get(encoding)
                if rival is None or self._rank(variant) > self._rank(rival):
                    self._of[encoding] = variant
        self._base = self._of.get(_encoding(variants, table.baseline))

    def _values(self, variant: Variant) -> dict[str, float]:
        return group_values(variant, self._table.over, self._table.score)

    def _rank(self, variant: Variant) -> tuple[int, float]:
        shown = variant.metrics.groups.get("examples", {})
        numbers = [(int(number), group.n) for number, group in shown.items() if number.isdigit()]
        mean = sum(number * n for number, n in numbers) / (sum(n for _, n in numbers) or 1)
        return len(self._values(variant)), mean

    def _compared(self, more: Variant, less: Variant) -> tuple[Paired, list[float]]:
        values, base = self._values(more), self._values(less)
        common = [name for name in base if name in values]
        first, second = ([found[name] for name in common] for found in (values, base))
        return paired(first, second), [a - b for a, b in zip(first, second, strict=True)]

    def fields(self) -> list[FieldGain]:
        """What each single field adds, field by field."""
        found = []
        for (less, one), (more, other) in combinations(self._of.items(), 2):
            ours, theirs = self._task.fields(less), self._task.fields(more)
            if ours.keys() > theirs.keys():
                ours, theirs, one, other = theirs, ours, other, one
            added = list(theirs.keys() - ours.keys())
            if len(added) != 1 or not ours.keys() < theirs.keys():
                continue
            difference, _ = self._compared(other, one)
            if difference.difference is not None:
                found.append(
                    FieldGain(
                        field=added[0],
                        less=one.name,
                        more=other.name,
                        n=difference.n,
                        n_better=difference.n_more,
                        difference=difference.difference,
                        ci95=difference.interval(),
                        other_forms={
                            name: (ours[name], theirs[name])
                            for name in ours
                            if ours[name] != theirs[name]
                        },
                    )
                )
        order = list(dict.fromkeys(gain.field for gain in found))
        return sorted(found, key=lambda gain: order.index(gain.field))

    def verdict(self, claim: Claim) -> Verdict:
        """Whether a claim holds in these runs."""
        test = {"more": self._more, "rows_differ": self._rows, "groups_differ": self._groups}
        word, evidence = test[claim.test](claim)
        return Verdict(says=claim.says, source=claim.source, verdict=word, evidence=evidence)

    def _more(self, claim: Claim) -> tuple[VerdictWord, str]:
        missing = [name for name in (claim.more, claim.less) if name not in self._of]
        if missing:
            return "not tested", f"no run of {' and of '.join(missing)} that can speak for it"
        more, less = self._of[claim.more], self._of[claim.less]
        found, _ = self._compared(more, less)
        if found.difference is None:
            return "not tested", f"{more.name} and {less.name} have no {self._table.over} in common"
        word = _word(found.difference, found.interval())
        return word, f"{more.name} over {less.name}: {self._told(found, found.interval())}"

    def _rows(self, _: Claim) -> tuple[VerdictWord, str]:
        added = [g for g in self.fields() if self._base and g.less == self._base.name]
        if len(added) < 2:
            return "not tested", "fewer than two runs add one field to the baseline"
        ranked = sorted(added, key=lambda gain: gain.difference)
        least, most = ranked[0], ranked[-1]
        named = {variant.name: variant for variant in self._of.values()}
        found, _differences = self._compared(named[most.more], named[least.more])
        if found.difference is None:
            return "not tested", f"{most.more} and {least.more} have nothing in common"
        pairs = len(added) * (len(added) - 1) // 2
        interval = found.interval(comparisons=pairs)
        told = ", ".join(
            f"{gain.field} {100 * gain.difference:+z.2f} ({gain.more})" for gain in (least, most)
        )
        return _word(found.difference, interval), (
            f"of {len(added)} fields added to {least.less} least and most: {told}; apart by "
            f"{self._told(found, interval)}; the interval is for all {pairs} pairs (Bonferroni)"
        )

    def _groups(self, _: Claim) -> tuple[VerdictWord, str]:
        baseline = self._base
        if baseline is None:
            return "not tested", "the baseline cannot speak for its encoding"
        others = [variant for variant in self._of.values() if variant is not baseline]
        compared = {v.name: self._compared(v, baseline)[1] for v in others}
        several = {name: found for name, found in compared.items() if len(found) > 1}
        if not several:
            return "not tested", f"no run has two {self._units} in common with the baseline"
        mixed = sum(min(found) < 0 < max(found) for found in several.values())
        p_values = [self._unlike(v, baseline) for v in others if v.name in several]
        beyond = sum(p is not None and p < 0.05 for p in holm(p_values))
        word: VerdictWord = "holds" if beyond else "undecided" if mixed else "does not hold"
        return word, (
            f"{mixed} of {len(several)} other encodings (of each, the run with the most examples) "
            f"gain on some {self._units} and lose on "
            f"others; of {beyond} the gains differ by more than their errors (Cochran's Q, Holm)"
        )

    def _unlike(self, variant: Variant, baseline: Variant) -> float | None:
        """p value of the same gain in each group.

        The errors are those of two independent samples: too long, where the
        answers to one instance go together, so that p is rather too large.
        """
        effects, errors = [], []
        table = self._table
        values, base = self._values(variant), self._values(baseline)
        for name in base.keys() & values.keys():
            stderrs = [_stderr(run, table, name) for run in (variant, baseline)]
            error = hypot(*(found or 0.0 for found in stderrs))
            if None not in stderrs and error > ROUNDING:
                effects.append(values[name] - base[name])
                errors.append(error)
        return heterogeneity(effects, errors)

    def _told(self, found: Paired, interval: tuple[float, float] | None) -> str:
        between = "no interval"
        if interval is not None:
            between = f"{100 * interval[0]:z.2f} to {100 * interval[1]:z.2f}"
        return (
            f"{100 * (found.difference or 0.0):+z.2f} ({between}), "
            f"more on {found.n_more} of {counted(found.n, self._table.over)}"
        )


def _encoding(variants: Sequence[Variant], name: str) -> str:
    """The one encoding of a run's prompts; empty where there are several or none."""
    found = next(variant for variant in variants if variant.name == name)
    encodings = list(found.metrics.groups.get("encoding", {}))
    return encodings[0] if len(encodings) == 1 else ""


def _word(difference: float, interval: tuple[float, float] | None) -> VerdictWord:
    if difference <= 0:
        return "does not hold"
    return "holds" if interval is not None and interval[0] > 0 else "undecided"


def _stderr(variant: Variant, table: Ablation, group: str) -> float | None:
    found = variant.metrics.groups[table.over][group]
    return found.stderr if table.score == PASS_RATE else found.scores[table.score].stderr
