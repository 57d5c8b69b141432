"""Kinds of base constraints in a terminal: how often each is met, and what its failures look like.

>>> Console(width=80).print(constraint_table(kinds))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from harness.analysis.constraints import ConstraintKind
from harness.report.ablation_figures import whole
from harness.report.cells import UNKNOWN, empty_table, figure, with_error
from harness.store.findings import LABEL


def constraint_table(
    kinds: Sequence[ConstraintKind], without: int = 0, label: str = LABEL, unlabelled: int = 0
) -> RenderableType:
    """A row for each kind, with what its failures are.

    without: samples whose scores tell of no constraint.
    label: what the constraints are parted by; of the groups of another one than their kind
        nothing is told but how often they are met.
    unlabelled: constraints without it.
    """
    of_kinds = label == LABEL
    # A label that failed constraints alone have tells of their distribution, and of no rate.
    rated = any(one.n_failed < one.n for one in kinds)
    n_failed = sum(one.n_failed for one in kinds)
    table = empty_table()
    table.add_column(Text(whole(label)), ratio=3)
    for heading in (*(("n",) if rated else ()), "failed", "share", *(_RATES if rated else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    if of_kinds:
        table.add_column("failures", ratio=2)
    for one in kinds:
        share = f"{one.n_failed / n_failed:.1%}" if n_failed else UNKNOWN
        table.add_row(
            Text(whole(one.kind)),
            *([f"{one.n:,}"] if rated else []),
            *(f"{one.n_failed:,}", share),
            *([with_error(one.rate, one.stderr), _interval(one)] if rated else []),
            *([Text(_failures(one), style="dim")] if of_kinds else []),
        )
    notes = [Text(_EXPLAINED + (_OF_KINDS if of_kinds else ""), style="dim")]
    if without:
        notes.append(Text(_left_out(without), style="yellow"))
    if unlabelled:
        notes.append(Text(f"{unlabelled:,} have no {whole(label)}: left out.", style="yellow"))
    return Group(table, *notes)


def _interval(one: ConstraintKind) -> str:
    return "-".join(figure(bound) for bound in one.ci95) if one.ci95 is not None else UNKNOWN


_RATES = ("met ± s.e.", "95%")
_EXPLAINED = (
    "Of each sample's last round. n: constraints that were checked, values left out of "
    "their text, each for itself, also where another one would do (or). share: of all that failed."
)
_OF_KINDS = " failures: observed minus wanted, or the most frequent one."


def _left_out(without: int) -> str:
    return f"{without:,} samples have none that was checked (refused, empty, failed): left out."


def _failures(one: ConstraintKind) -> str:
    if one.off_by:
        low, high = min(one.off_by), max(one.off_by)
        return f"median {_median(one.off_by):+g}" + (f", {low:+g} to {high:+g}" * (low < high))
    for reason, count in one.reasons.items():
        return f"{count:,} x {whole(reason)}" if count > 1 else ""
    return ""


def _median(counts: Mapping[float, int]) -> float:
    """The lower one."""
    left = (sum(counts.values()) + 1) // 2
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    raise ValueError("the median of nothing")
