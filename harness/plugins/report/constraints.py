"""Shares of satisfied constraints, and which decoding constraints a provider rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from statistics import median_low
from typing import Any

from msgspec import Struct

from harness.analysis.summary import compute_metrics
from harness.errors import ConfigError, DataMissing
from harness.plugins.comparisons.comparable import read_run, refuse_unknown_label
from harness.plugins.comparisons.constraints import (
    LABEL,
    ConstraintFindings,
    ConstraintKind,
    kinds,
    read_findings,
)
from harness.records import CONSTRAINT_REFUSED, OUTCOMES_WITHOUT_REPLY, Outcome
from harness.report.run_tables import add_title
from harness.report.table import Cell, Column, Note, Table, TableDocument, table
from harness.report.text import format_percent
from harness.scoring.validators.schemas import schema_features
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
    legend = (
        "Each sample's last round. n: checked constraints, by text without its values, "
        f"including every alternative of an or. {_SHARE}"
    )
    columns: list[Column | str | None] = [label, None, "failed", "share", None, None, None]
    # If only failed constraints have the label, rates would be 0: show counts only.
    if any(kind.n_failed < kind.n for kind in kinds):
        columns[1] = "n"
        columns[4:6] = [_MET, Column("95%", hide=1, rate=True)]
    if label == LABEL:
        columns[6] = Column("failures", text=True)
        legend += " failures: observed minus wanted, or the most frequent reason."
    n_failed = sum(kind.n_failed for kind in kinds)
    rows = []
    for kind in kinds:
        failures = Cell(_failures(kind), style="dim")
        rows.append([kind.kind, *_cells(kind, n_failed), kind.ci95, failures])
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
    n_failed = Counter[str]()  # by kind
    rows_by_kind: dict[str, list[list[object]]] = {}
    for name, run_kinds in runs.items():
        total = sum(kind.n_failed for kind in run_kinds)
        for kind in run_kinds:
            n_failed[kind.kind] += kind.n_failed
            row = [kind.kind, name, *_cells(kind, total)]
            rows_by_kind.setdefault(kind.kind, []).append(row)
    rows: list[list[object]] = []
    for group, _ in n_failed.most_common():
        rows += rows_by_kind[group]
    columns = label, Column("run", text=True), "n", "failed", "share", _MET
    legend = f"Each sample's last round. n: checked constraints. {_SHARE}"
    return TableDocument(parts=[table(columns, rows), Note(legend)])


def _cells(kind: ConstraintKind, n_failed: int) -> list[object]:
    return [kind.n, kind.n_failed, format_percent(kind.n_failed, n_failed), kind]


def _failures(kind: ConstraintKind) -> str:
    if kind.off_by:
        low = min(kind.off_by)
        high = max(kind.off_by)
        text = f"median {median_low(Counter(kind.off_by).elements()):+g}"
        if low < high:
            text += f", {low:+g} to {high:+g}"
        return text
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
    n_listed = sum(kind.n for kind in listed)
    unlabelled = int(findings.table.has_verdict.sum()) - n_listed
    document = constraint_document(listed, findings.without, label, unlabelled)
    return add_title(document, compute_metrics(folder))


def _findings(folder: RunFolder, label: str) -> ConstraintFindings:
    findings = read_findings(AttemptIndex(folder.attempts))
    if not findings.table.has_verdict.any():
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
    runs = {}
    marks = []
    for folder, variant in zip(folders, variants, strict=True):
        runs[folder.name] = kinds(_findings(folder, label), label)
        if variant.marks:
            marks.append(f"{variant.name}: {', '.join(variant.marks)}")
    return replace(constraint_shares(runs, label), title=next(iter(tasks)), marks=marks)


MOST_MESSAGES = 5

REJECTED = "RequestRejected: "  # prefix of errors for requests that the provider rejected

MAX_MESSAGE_LENGTH = 300


class Feature(Struct, frozen=True):
    """A feature, such as a schema keyword, that ``n`` decoding constraints have."""

    name: str
    n: int
    n_rejected: int


class Rejections(Struct, frozen=True):
    """Counts of constraints and of rejections by feature, the highest rejection rate first."""

    n: int  # constraints, apart from `n_failed`
    n_rejected: int
    n_failed: int  # failed for other reasons; excluded from all other counts
    features: list[Feature]
    messages: dict[str, int]


class _Decoding(Struct, frozen=True, gc=False):
    constraint: dict[str, Any] = {}


class _Request(Struct, gc=False):
    decoding: _Decoding = _Decoding()


class _Asked(Struct, gc=False):
    outcome: Outcome
    groups: dict[str, str]
    request: _Request
    error: str | None = None
    finish_reason: str | None = None
    text: str | None = None

    @property
    def problem(self) -> str | None:
        if self.finish_reason == CONSTRAINT_REFUSED:
            return f"{REJECTED}{self.text}"
        if self.outcome in OUTCOMES_WITHOUT_REPLY:
            return self.error
        return None


def read_asked(
    index: AttemptIndex, groups: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Any, str | None]]:
    """Yield (kind, value, error or None) for each instance that has a decoding constraint.

    The value and the error are those of the first sample's first round. If ``groups`` is given,
    only instances in all of these groups are read.
    """
    rows = index.ordered_rows()
    first = (index.attempts.sample[rows] == 0) & (index.attempts.round[rows] == 1)
    for line in index.read(_Asked, rows[first]):
        if not (groups or {}).items() <= line.groups.items():
            continue
        for kind, value in line.request.decoding.constraint.items():
            yield kind, value, line.problem


def rejections(requests: Iterable[tuple[str, Any, str | None]]) -> Rejections:
    """Count the constraints from `read_asked`, and the rejected ones, in total and by feature."""
    having = Counter[str]()
    rejected = Counter[str]()
    messages = Counter[str]()
    n = 0
    n_failed = 0
    for kind, value, error in requests:
        if error is not None and not error.startswith(REJECTED):
            n_failed += 1
            continue
        n += 1
        names = schema_features(value) if kind == "json_schema" else (kind,)
        having.update(names)
        if error is not None:
            rejected.update(names)
            messages[error.removeprefix(REJECTED)[:MAX_MESSAGE_LENGTH]] += 1

    def most_rejected_first(feature: Feature) -> tuple[float, int, str]:
        return -feature.n_rejected / feature.n, -feature.n, feature.name

    listed = [Feature(name, count, rejected[name]) for name, count in having.items()]
    return Rejections(
        n=n,
        n_rejected=messages.total(),
        n_failed=n_failed,
        features=sorted(listed, key=most_rejected_first),
        messages=dict(messages.most_common()),
    )


def rejection_document(rejected: Rejections) -> TableDocument:
    """Build the document on rejected schemas: counts by keyword, and the provider's messages."""
    note = f"{rejected.n_rejected:,} of {rejected.n:,} constraints were rejected by the provider."
    parts: list[Table | Note] = [Note(note, "")]
    rows = []
    never = []
    for feature in rejected.features:
        if feature.n_rejected:
            share = format_percent(feature.n_rejected, feature.n, 0)
            rows.append([feature.name, feature.n, feature.n_rejected, share])
        else:
            never.append(feature.name)
    if rows:
        parts.append(table(("has", "n", "rejected", "share"), rows))
        if never:
            parts.append(Note(f"Never rejected: {', '.join(never)}"))
        parts.append(Note("The provider's messages:", ""))
        for message, count in islice(rejected.messages.items(), MOST_MESSAGES):
            parts.append(Note(f"  {count:,} x {message}", ""))
        if len(rejected.messages) > MOST_MESSAGES:
            parts.append(Note(f"  and {len(rejected.messages) - MOST_MESSAGES:,} others"))
    if rejected.n_failed:
        note = f"{rejected.n_failed:,} requests failed for other reasons and are not counted."
        parts.append(Note(note, "yellow"))
    return TableDocument(parts=parts)


def show_rejections(folders: Sequence[RunFolder], label: str) -> TableDocument:
    """Build the document on a run's rejected constraints, in total or by group of a label."""
    if len(folders) > 1:
        problem = f"That is shown for one run, not for {len(folders)}."
        raise ConfigError(problem, f"Name one: {', '.join(folder.name for folder in folders)}.")
    [folder] = folders
    index = AttemptIndex(folder.attempts, judges=False)
    total = rejections(read_asked(index))
    if not total.n + total.n_failed:
        remedy = "Set decoding.constraint in the run file (harness docs providers)."
        raise DataMissing(f"The run {folder.name!r} did not constrain decoding.", remedy)
    document = rejection_document(total)
    if label:
        refuse_unknown_label("--by", label, {folder.name: index.attempts})
        parts = list[Table | Note]()
        for group, _ in index.attempts.split_by(label):
            group_rejections = rejections(read_asked(index, {label: group}))
            parts.append(Note(f"{label} {group}", "bold"))
            parts += rejection_document(group_rejections).parts
        document = TableDocument(parts=parts)
    return add_title(document, compute_metrics(folder))
