"""Presents rejected schemas, and the shares of satisfied constraints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median_low

from harness.analysis.constraints import LABEL, ConstraintKind, Rejections
from harness.report.table import Cell, Column, Note, Table, TableDocument, table
from harness.report.text import percent

_MET = Column("met ± s.e.", rate=True)
_SHARE = "share: of the run's failed constraints. Checks that list no constraints do not count."

MOST_MESSAGES = 5


def constraint_document(
    kinds: Sequence[ConstraintKind], without: int = 0, label: str = LABEL, unlabelled: int = 0
) -> TableDocument:
    """Build the document on a run's constraints by kind or by another label.

    Notes state the numbers of samples ``without`` a checked constraint, and of constraints without
    ``label`` (``unlabelled``).
    """
    of_kinds = label == LABEL
    # If only failed constraints have the label, rates would be 0: show counts only.
    rated = any(one.n_failed < one.n for one in kinds)
    n_failed = sum(one.n_failed for one in kinds)
    columns = [
        *(label, "n" if rated else None, "failed", "share"),
        _MET if rated else None,
        Column("95%", hide=1, rate=True) if rated else None,
        Column("failures", text=True) if of_kinds else None,
    ]
    rows = [
        [one.kind, *_cells(one, n_failed), one.ci95, Cell(_failures(one), style="dim")]
        for one in kinds
    ]
    told = (
        "Each sample's last round. n: checked constraints, by text without its values, "
        f"including every alternative of an or. {_SHARE}"
    )
    if of_kinds:
        told += " failures: observed minus wanted, or the most frequent reason."
    parts: list[Table | Note] = [table(columns, rows), Note(told)]
    if without:
        lacking = "without a checked constraint (refused, empty, failed)"
        parts.append(Note(f"Excluded: {without:,} samples {lacking}.", "yellow"))
    if unlabelled:
        parts.append(Note(f"Excluded: {unlabelled:,} constraints without {label}.", "yellow"))
    return TableDocument(parts=parts)


def constraint_shares(
    runs: Mapping[str, Sequence[ConstraintKind]], label: str = LABEL
) -> TableDocument:
    """Build a document that compares runs' failed constraints, by kind or by another label."""
    totals = {name: sum(one.n_failed for one in own) for name, own in runs.items()}
    failed = Counter[str]()
    for own in runs.values():
        failed.update({one.kind: one.n_failed for one in own})
    rows = []
    for kind, _ in failed.most_common():
        for name, own in runs.items():
            rows += [[kind, name, *_cells(one, totals[name])] for one in own if one.kind == kind]
    columns = label, Column("run", text=True), "n", "failed", "share", _MET
    told = f"Each sample's last round. n: checked constraints. {_SHARE}"
    return TableDocument(parts=[table(columns, rows), Note(told)])


def _cells(one: ConstraintKind, n_failed: int) -> list[object]:
    return [one.n, one.n_failed, percent(one.n_failed, n_failed), one]


def _failures(one: ConstraintKind) -> str:
    if one.off_by:
        low, high = min(one.off_by), max(one.off_by)
        median = median_low(Counter(one.off_by).elements())
        return f"median {median:+g}" + (f", {low:+g} to {high:+g}" * (low < high))
    for reason, count in one.reasons.items():
        return f"{count:,} x {reason}" if count > 1 else ""
    return ""


def rejection_document(found: Rejections) -> TableDocument:
    """Build the document on rejected schemas: counts by keyword, and the provider's messages."""
    told = f"{found.n_rejected:,} of {found.n:,} constraints were rejected by the provider."
    parts: list[Table | Note] = [Note(told, "")]
    rows = [
        [one.name, one.n, one.n_rejected, percent(one.n_rejected, one.n, 0)]
        for one in found.features
        if one.n_rejected
    ]
    if rows:
        parts.append(table(("has", "n", "rejected", "share"), rows))
        if never := ", ".join(one.name for one in found.features if not one.n_rejected):
            parts.append(Note(f"Never rejected: {never}"))
        parts.append(Note("The provider's messages:", ""))
        for message, count in list(found.messages.items())[:MOST_MESSAGES]:
            parts.append(Note(f"  {count:,} x {message}", ""))
        if len(found.messages) > MOST_MESSAGES:
            parts.append(Note(f"  and {len(found.messages) - MOST_MESSAGES:,} others"))
    if found.n_failed:
        told = f"{found.n_failed:,} requests failed for other reasons and are not counted."
        parts.append(Note(told, "yellow"))
    return TableDocument(parts=parts)
