"""Presents the shares of satisfied constraints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median_low

from harness.analysis.summary import measure
from harness.errors import ConfigError, DataMissing
from harness.plugins.comparisons.comparable import read_run
from harness.plugins.comparisons.constraints import (
    LABEL,
    ConstraintFindings,
    ConstraintKind,
    kinds,
    read_findings,
)
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
    rated = any(kind.n_failed < kind.n for kind in kinds)
    n_failed = sum(kind.n_failed for kind in kinds)
    columns = [
        *(label, "n" if rated else None, "failed", "share"),
        _MET if rated else None,
        Column("95%", hide=1, rate=True) if rated else None,
        Column("failures", text=True) if of_kinds else None,
    ]
    rows = [
        [kind.kind, *_cells(kind, n_failed), kind.ci95, Cell(_failures(kind), style="dim")]
        for kind in kinds
    ]
    legend = (
        "Each sample's last round. n: checked constraints, by text without its values, "
        f"including every alternative of an or. {_SHARE}"
    )
    if of_kinds:
        legend += " failures: observed minus wanted, or the most frequent reason."
    parts: list[Table | Note] = [table(columns, rows), Note(legend)]
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
    totals = {name: sum(kind.n_failed for kind in run_kinds) for name, run_kinds in runs.items()}
    failed = Counter[str]()
    for run_kinds in runs.values():
        failed.update({kind.kind: kind.n_failed for kind in run_kinds})
    rows = []
    for kind, _ in failed.most_common():
        for name, run_kinds in runs.items():
            rows += [
                [kind, name, *_cells(row_kind, totals[name])]
                for row_kind in run_kinds
                if row_kind.kind == kind
            ]
    columns = label, Column("run", text=True), "n", "failed", "share", _MET
    legend = f"Each sample's last round. n: checked constraints. {_SHARE}"
    return TableDocument(parts=[table(columns, rows), Note(legend)])


def _cells(kind: ConstraintKind, n_failed: int) -> list[object]:
    return [kind.n, kind.n_failed, percent(kind.n_failed, n_failed), kind]


def _failures(kind: ConstraintKind) -> str:
    if kind.off_by:
        low = min(kind.off_by)
        high = max(kind.off_by)
        median = median_low(Counter(kind.off_by).elements())
        return f"median {median:+g}" + (f", {low:+g} to {high:+g}" * (low < high))
    for reason, count in kind.reasons.items():
        return f"{count:,} x {reason}" if count > 1 else ""
    return ""


def show_constraints(folders: Sequence[RunFolder], label: str) -> TableDocument:
    """Build the document on the constraints of one or more runs, by kind or by another label."""
    label = label or LABEL
    if len(folders) > 1:
        return _shares(folders, label)
    [folder] = folders
    findings = _findings(folder, label)
    listed = kinds(findings, label)
    unlabelled = int(findings.table.judged.sum()) - sum(kind.n for kind in listed)
    document = constraint_document(listed, findings.without, label, unlabelled)
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
