"""Presents rejected schemas, data sets' criteria, and the shares of satisfied constraints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median_low

import msgspec

from harness.analysis.constraints import LABEL, ConstraintKind
from harness.analysis.requirements import CriteriaDescription, Rejections
from harness.report.table import Cell, Column, Note, Table, TableDocument, table
from harness.report.text import percent

_MET = Column("met ± s.e.", rate=True)
_SHARE = "share: of the run's failed constraints. Checks that list no constraints do not count."

MOST_MESSAGES = 5
MOST_ROWS = 20  # maximum rows in the tables on criteria; JSON has all


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


def criteria_document(task: str, found: CriteriaDescription) -> TableDocument:
    """Build the document on a data set's criteria."""
    mean = "" if found.mean is None else f", {found.mean:.2f} a task"
    summary = f"{found.n_tasks:,} tasks, {found.n_criteria:,} criteria{mean}; "
    summary += f"{found.n_distinct:,} different ones"
    groups = [
        [name, n, _share(n, found.n_criteria), found.tasks_by_group[name]]
        for name, n in found.groups.items()
    ]
    numbers = list(found.tasks_by_count)
    counts = [["tasks", *found.tasks_by_count.values()]] + [
        [group, *(found.groups_by_count[n].get(group, 0) for n in numbers)]
        for group in found.groups
    ]
    repeated = {f"{k} x": n for k, n in found.repeated.items()}
    frequent = list(found.verbs.items())[:MOST_ROWS]
    verbs = [[verb, found.openings.get(verb, 0), n] for verb, n in frequent]
    parts: list[Table | Note] = [
        Note(summary, ""),
        table((found.label, "criteria", "%", "tasks"), groups),
        table(("number", *map(str, numbers)), counts),
        table(("occurs", "criteria", "%"), _frequent(repeated, found.n_distinct)),
        *([table(("verb", "opening", "anywhere"), verbs)] if verbs else ()),
        _together(found),
    ]
    for label, tasks in found.labels.items():
        parts.append(table((label, "tasks", "%"), _frequent(tasks, found.n_tasks)))
    told = (
        f"PMI: ln(p(a, b) / (p(a) p(b))), where p is a share of the {found.n_tasks:,} tasks, or "
        "-∞ if no task asks for both; above the diagonal, the number of tasks that ask for both."
    )
    if verbs:
        told += " Verbs: base forms, and the criteria that begin with each or have it."
    parts.append(Note(told))
    data = {"task": task, **msgspec.to_builtins(found, str_keys=True)}
    return TableDocument(title=task, parts=parts, data=data)


def _together(found: CriteriaDescription) -> Table:
    groups = sorted(found.tasks_by_group)
    of = {(one.first, one.second): one for one in found.together}
    rows = []
    for at, name in enumerate(groups):
        pmi = [of[other, name].pmi for other in groups[:at]]
        below = ["-∞" if one is None else f"{one:+.2f}" for one in pmi]
        above = [of[name, other].n for other in groups[at + 1 :]]
        rows.append([f"{at + 1} {name}", *below, "·", *above])
    return table(["PMI", *(str(at + 1) for at in range(len(groups)))], rows)


def _frequent(counts: Mapping[str, int], total: int) -> list[list[object]]:
    listed = list(counts.items())
    shown, rest = listed[:MOST_ROWS], listed[MOST_ROWS:]
    rows: list[list[object]] = [[name or "(none)", n, _share(n, total)] for name, n in shown]
    if rest:
        n = sum(count for _, count in rest)
        rows.append([f"{len(rest):,} others", n, _share(n, total)])
    return rows


def _share(n: int, total: int) -> str:
    return percent(n, total).removesuffix("%")
