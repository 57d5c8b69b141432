"""Presents the shares of satisfied constraints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median_low

from harness.analysis.comparable import read_run
from harness.analysis.constraints import (
    LABEL,
    ConstraintFindings,
    ConstraintKind,
    kinds,
    read_findings,
)
from harness.analysis.summary import measure
from harness.errors import ConfigError, DataMissing
from harness.report.run_tables import headed
from harness.report.table import Cell, Column, Note, Table, TableDocument, table
from harness.report.text import percent
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder

_MET = Column("met ± s.e.", rate=True)
_SHARE = "share: of the run's failed constraints. Checks that list no constraints do not count."


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


def show_constraints(folders: Sequence[RunFolder], label: str) -> TableDocument:
    """Build the document on the constraints of one or more runs, by kind or by another label."""
    label = label or LABEL
    if len(folders) > 1:
        return _shares(folders, label)
    [folder] = folders
    findings = _findings(folder, label)
    shown = kinds(findings, label)
    unlabelled = int(findings.table.judged.sum()) - sum(kind.n for kind in shown)
    document = constraint_document(shown, findings.without, label, unlabelled)
    return headed(document, measure(folder))


def _findings(folder: RunFolder, label: str) -> ConstraintFindings:
    findings = read_findings(AttemptIndex(folder.attempts))
    if not findings.table.judged.any():
        problem = f"The run {folder.name!r} has no scores of individual constraints."
        raise DataMissing(problem, f"Show its metrics: harness show {folder.name}")
    labels = findings.table.labels()
    if label not in labels:
        problem = f"--by: constraints of the run {folder.name!r} have no label {label!r}."
        raise ConfigError(problem, f"Its labels: {', '.join(sorted(labels))}.")
    return findings


def _shares(folders: Sequence[RunFolder], label: str) -> TableDocument:
    variants = [variant for variant, _ in map(read_run, folders)]
    tasks = dict.fromkeys(variant.metrics.task for variant in variants)
    if len(tasks) > 1:
        problem = f"The runs are of different tasks: {', '.join(tasks)}."
        raise ConfigError(problem, "Show the runs of each task separately.")
    runs = {folder.name: kinds(_findings(folder, label), label) for folder in folders}
    marks = [f"{variant.name}: {', '.join(variant.marks)}" for variant in variants if variant.marks]
    return replace(constraint_shares(runs, label), title=next(iter(tasks)), marks=marks)
