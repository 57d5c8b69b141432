"""Which decoding constraints, such as JSON Schemas, a run's provider rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from harness.analysis.summary import measure
from harness.errors import ConfigError, DataMissing
from harness.plugins.comparisons.comparable import refuse_unknown_label
from harness.records import CONSTRAINT_REFUSED, WITHOUT_REPLY, Outcome
from harness.report.run_tables import headed
from harness.report.table import Note, Table, TableDocument, table
from harness.report.text import percent
from harness.scoring.validators.schemas import features
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder

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
        return self.error if self.outcome in WITHOUT_REPLY else None


def read_asked(
    index: AttemptIndex, groups: Mapping[str, str] | None = None
) -> Iterator[tuple[str, Any, str | None]]:
    """Yield (kind, value, error or None) for each instance that has a decoding constraint.

    The value and the error are those of the first sample's first round. If ``groups`` is given,
    only instances in all of these groups are read.
    """
    rows = index.in_order()
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
    n = n_failed = 0
    for kind, value, error in requests:
        if error is not None and not error.startswith(REJECTED):
            n_failed += 1
            continue
        n += 1
        names = features(value) if kind == "json_schema" else (kind,)
        having.update(names)
        if error is not None:
            rejected.update(names)
            messages[error.removeprefix(REJECTED)[:MAX_MESSAGE_LENGTH]] += 1
    listed = [Feature(name, count, rejected[name]) for name, count in having.items()]
    return Rejections(
        n=n,
        n_rejected=messages.total(),
        n_failed=n_failed,
        features=sorted(
            listed, key=lambda feature: (-feature.n_rejected / feature.n, -feature.n, feature.name)
        ),
        messages=dict(messages.most_common()),
    )


def rejection_document(rejected: Rejections) -> TableDocument:
    """Build the document on rejected schemas: counts by keyword, and the provider's messages."""
    note = f"{rejected.n_rejected:,} of {rejected.n:,} constraints were rejected by the provider."
    parts: list[Table | Note] = [Note(note, "")]
    rows = [
        [feature.name, feature.n, feature.n_rejected, percent(feature.n_rejected, feature.n, 0)]
        for feature in rejected.features
        if feature.n_rejected
    ]
    if rows:
        parts.append(table(("has", "n", "rejected", "share"), rows))
        if never := ", ".join(
            feature.name for feature in rejected.features if not feature.n_rejected
        ):
            parts.append(Note(f"Never rejected: {never}"))
        parts.append(Note("The provider's messages:", ""))
        for message, count in list(rejected.messages.items())[:MOST_MESSAGES]:
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
        for group, _ in index.attempts.by(label):
            group_rejections = rejections(read_asked(index, {label: group}))
            parts.append(Note(f"{label} {group}", "bold"))
            parts += rejection_document(group_rejections).parts
        document = TableDocument(parts=parts)
    return headed(document, measure(folder))
