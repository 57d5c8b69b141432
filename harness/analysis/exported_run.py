"""Exports runs: the conversations of samples, and a table of samples or attempts.

The mean of ``passed`` over samples is the pass rate. Unknown values are NULL, never 0. Text is not
changed, and rows are streamed.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from harness.analysis.metrics import PASS_RATE, Metrics
from harness.analysis.summary import measure
from harness.config.run_file import RunFile
from harness.errors import ConfigError, DataMissing, StoreFailed, nearest
from harness.extras import import_extra
from harness.records import Attempt, Usage, encodable
from harness.store.files import OUTPUT_REMEDY, output_file
from harness.store.index import AttemptIndex, AttemptLine
from harness.store.lost_lines import warn_of_loss
from harness.store.run_folder import RunFolder

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

Line = TypeVar("Line", Attempt, "_Row")
Turn = dict[str, str]  # ``role`` and ``content``


@dataclass(frozen=True)
class ExportedRun:
    """A run to export."""

    folder: RunFolder
    manifest: Mapping[str, Any]
    name: str
    task: str
    model: str | None
    simulated: bool
    index: AttemptIndex
    # The fields of the user's rows, by instance.
    rows: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    @cached_property
    def config(self) -> RunFile:
        """The run file, with defaults filled in."""
        return self.folder.read_config()

    @cached_property
    def metrics(self) -> Metrics:
        """The run's metrics, computed from its attempts and calls."""
        return measure(self.folder)

    def samples(self, shape: type[Line]) -> Iterator[list[Line]]:
        """Yield the attempts of each sample, in order of their rounds, decoded as ``shape``."""
        attempts = self.index.read(shape, self.index.rows_by_name(self.rows))
        for _, rounds in groupby(attempts, lambda attempt: (attempt.instance, attempt.sample)):
            yield list(rounds)


def exported_run(folder: RunFolder) -> ExportedRun:
    """Return the run in a folder, for export."""
    index = AttemptIndex(folder.attempts)
    if not len(index.attempts):
        remedy = "Run its run file again: it resumes where it stopped."
        raise DataMissing(f"The run {folder.name!r} has no attempts to export.", remedy)
    warn_of_loss(folder, index.attempts)
    manifest = folder.read_manifest()
    return ExportedRun(
        folder=folder,
        manifest=manifest,
        name=folder.name,
        task=manifest.get("task", ""),
        model=manifest.get("model"),
        simulated=manifest.get("simulated", False),
        index=index,
    )


def figures(metrics: Metrics) -> dict[str, float]:
    """Return the known metrics of a run by name, such as ``pass_rate/stderr``."""
    found: dict[str, float | None] = {}
    for name, one in {**metrics.scores, PASS_RATE: metrics.overall}.items():
        low, high = one.ci95 or (None, None)
        found |= {name: one.mean, f"{name}/stderr": one.stderr, f"{name}/n": one.n}
        found |= {f"{name}/ci95_low": low, f"{name}/ci95_high": high}
    for k, rate in metrics.pass_at_k.items():
        low, high = metrics.pass_at_k_ci95.get(k) or (None, None)
        found |= {f"pass@{k}": rate, f"pass@{k}/ci95_low": low, f"pass@{k}/ci95_high": high}
    found |= {f"pass^{k}": rate for k, rate in metrics.pass_hat_k.items()}
    found |= {f"any@{k}": rate for k, rate in metrics.rounds.any_of_first_k.items()}
    found |= {f"outcomes/{outcome}": count for outcome, count in metrics.outcomes.items()}
    counted = ("n_instances", "n_samples", "n_attempts", "n_calls", "cost_usd")
    found |= {name: getattr(metrics, name) for name in counted}
    if metrics.usage is not None:
        found |= {name: getattr(metrics.usage, name) for name in Usage.__struct_fields__}
    return {name: float(value) for name, value in found.items() if value is not None}


def checked_fields(
    form: str, fields: Mapping[str, str], known: Collection[str], required: Collection[str] = ()
) -> None:
    """Raise ConfigError if a field is not in ``known``, or a required one is missing or empty."""
    for name in fields:
        if name not in known:
            raise ConfigError(f"{form} has no field {name!r} to set.", nearest(name, known))
    for name in required:
        if not fields.get(name):
            problem = f"{form} requires the field {name!r}, which a run does not record."
            raise ConfigError(problem, f"Set it with --field {name}=VALUE.")


def prompt(rounds: Sequence[Attempt]) -> list[Turn]:
    """Return the recorded messages of a sample's prompt."""
    return [
        {"role": str(message["role"]), "content": str(message["content"])}
        for message in rounds[0].request.get("messages", ())
    ]


def conversation(rounds: Sequence[Attempt]) -> list[Turn]:
    """Return the turns before a sample's last answer."""
    turns = prompt(rounds)
    for attempt in rounds[:-1]:
        turns.append({"role": "assistant", "content": attempt.text or ""})
        if attempt.feedback is not None:
            turns.append({"role": "user", "content": attempt.feedback})
    return turns


Kind = Literal["VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"]  # SQL type of a column
Cell = str | int | float | bool | None

MAX_ROWS = 20_000  # per row group of a Parquet file
ROW_GROUP_BYTES = 32_000_000  # approximate, uncompressed: readers unpack one group at a time


class _Score(msgspec.Struct, gc=False):
    value: bool | float | None
    reason: str = ""
    details: msgspec.Raw = msgspec.Raw(b"{}")


class _Request(msgspec.Struct, gc=False):
    messages: msgspec.Raw = msgspec.Raw(b"")


class _Row(AttemptLine, kw_only=True, gc=False):
    """The fields of an attempt in a table row."""

    request: _Request
    scores: dict[str, _Score] = msgspec.field(default_factory=dict)


# The columns after the scores: fields of an attempt or of its usage.
SCALARS: Mapping[str, Kind] = {
    **dict.fromkeys(("text", "reasoning", "feedback", "finish_reason", "call_id"), "VARCHAR"),
    **dict.fromkeys(Usage.__struct_fields__, "BIGINT"),
    "cost_usd": "DOUBLE",
    "latency_s": "DOUBLE",
    "cached": "BOOLEAN",
    "started_at": "DOUBLE",
    "ended_at": "DOUBLE",
    "error": "VARCHAR",
    "turns": "BIGINT",
}


class ExportedRows:
    """The table of one or more runs, with a row per sample (its last attempt) or attempt."""

    def __init__(self, runs: Sequence[ExportedRun], *, attempts: bool = False) -> None:
        self.runs, self._attempts = runs, attempts
        self._labels = dict.fromkeys(label for run in runs for label in run.index.attempts.labels())
        self._scores = dict.fromkeys(name for run in runs for name in run.index.attempts.scores)
        kinds = _field_kinds(row for run in runs for row in run.rows.values())
        self._fields = {name: kind for name, kind in kinds.items() if name not in self._labels}
        wanted: list[tuple[str, Kind]] = [
            *(("run", "VARCHAR"), ("task", "VARCHAR"), ("model", "VARCHAR")),
            ("simulated", "BOOLEAN"),  # simulated answers must not be mistaken for real ones
            *(("instance", "VARCHAR"), ("sample", "BIGINT"), ("round", "BIGINT")),
            *[(name, "BOOLEAN") for name in ("is_last",) if attempts],
            *[(f"group_{label}", "VARCHAR") for label in self._labels],
            *[(f"field_{name}", kind) for name, kind in self._fields.items()],
            *(("cluster", "VARCHAR"), ("outcome", "VARCHAR"), ("passed", "BOOLEAN")),
        ]
        for name in self._scores:
            wanted += [(f"score_{name}", "DOUBLE"), (f"reason_{name}", "VARCHAR")]
        wanted += [("details", "VARCHAR"), ("prompt", "VARCHAR"), *SCALARS.items()]
        self.columns: dict[str, Kind] = {}  # each column's SQL type, in order
        for name, kind in wanted:
            self.columns[_unused(name, self.columns)] = kind

    def __len__(self) -> int:
        tables = [run.index.attempts for run in self.runs]
        return sum(len(t) if self._attempts else int(t.sample_starts().sum()) for t in tables)

    def __iter__(self) -> Iterator[list[Cell]]:
        """Yield the rows in order of run, instance, sample and round."""
        for run in self.runs:
            facts = [run.name, run.task, run.model, run.simulated]
            for rounds in run.samples(_Row):
                *before, last = rounds
                for line in before if self._attempts else ():
                    yield [*facts, *self._cells(run, line, line.request, False)]
                asked = last if self._attempts else rounds[0]
                yield [*facts, *self._cells(run, last, asked.request, True)]

    def _cells(
        self, run: ExportedRun, line: _Row, request: _Request, is_last: bool
    ) -> Iterator[Cell]:
        yield from (line.instance, line.sample, line.round)
        yield from [is_last] if self._attempts else ()
        yield from map(line.groups.get, self._labels)
        row = run.rows.get(line.instance, {})
        yield from (_field_cell(row.get(name), kind) for name, kind in self._fields.items())
        yield from (line.cluster, line.outcome, line.passed)
        for name in self._scores:
            score = line.scores.get(name)
            yield None if score is None or score.value is None else float(score.value)
            yield None if score is None else score.reason
        details = {n: s.details for n, s in line.scores.items() if bytes(s.details) != b"{}"}
        yield msgspec.json.encode(details).decode() if details else None
        yield bytes(request.messages).decode() or None
        for name in SCALARS:
            yield getattr(line.usage if name in Usage.__struct_fields__ else line, name, None)


def _field_kinds(rows: Iterable[Mapping[str, object]]) -> dict[str, Kind]:
    """Return the SQL type of each field of the rows."""
    found: dict[str, set[Kind]] = {}
    for row in rows:
        for name, value in row.items():
            kinds = found.setdefault(name, set())
            if isinstance(value, bool):
                kinds.add("BOOLEAN")
            elif isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
                kinds.add("BIGINT")
            elif isinstance(value, float):
                kinds.add("DOUBLE")
            elif value is not None:
                kinds.add("VARCHAR")
    numbers: set[Kind] = {"BIGINT", "DOUBLE"}
    return {
        name: kinds.pop() if len(kinds) == 1 else "DOUBLE" if kinds == numbers else "VARCHAR"
        for name, kinds in found.items()
    }


def _field_cell(value: object, kind: Kind) -> Cell:
    if value is None or isinstance(value, str):
        return None if value is None else encodable(value)
    if kind == "VARCHAR":
        return encodable(json.dumps(value, ensure_ascii=False, default=str))
    return float(value) if kind == "DOUBLE" else value  # type: ignore[arg-type, return-value]


def _unused(name: str, taken: Mapping[str, Kind]) -> str:
    """Return the name, or a variant such as ``name_2`` if it is taken."""
    name = name.replace("\0", "\ufffd")
    lowered = {other.lower() for other in taken}
    number, unused = 1, name
    while unused.lower() in lowered:
        number += 1
        unused = f"{name}_{number}"
    return unused


def write_csv(rows: ExportedRows, file: SupportsWrite[str]) -> None:
    """Write a table as CSV with a header (RFC 4180, except that lines end in a bare newline).

    A NULL is written as an empty cell, and empty text as a pair of quotes. Text that a spreadsheet
    would read as a formula is not altered.
    """
    file.write(",".join(map(_csv_cell, rows.columns)) + "\n")
    for row in rows:
        file.write(",".join(map(_csv_cell, row)) + "\n")


def _csv_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return '"' + cell.replace('"', '""') + '"'
    return str(cell).lower() if isinstance(cell, bool) else repr(cell)


def write_parquet(rows: ExportedRows, path: Path) -> None:
    """Write a table as Parquet. Times are in epoch seconds, and a score that is True becomes 1.

    On failure, an existing file is unchanged.
    """
    duckdb = import_extra("duckdb", "parquet")
    with (
        output_file(path) as target,
        tempfile.TemporaryDirectory(
            prefix=".harness-", dir=path.resolve().parent, ignore_cleanup_errors=True
        ) as work,
    ):
        lines = Path(work) / "rows.jsonl"
        longest = 1
        encode = msgspec.json.Encoder().encode
        with lines.open("wb") as file:
            for row in rows:
                line = encode(dict(zip(rows.columns, row, strict=True))) + b"\n"
                longest = max(longest, file.write(line))
            size = file.tell()
        types = ", ".join(f"{_quoted(name)}: '{kind}'" for name, kind in rows.columns.items())
        group = ROW_GROUP_BYTES // max(size // max(len(rows), 1), 1)
        settings = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": f"{300 + 6 * longest // 1_000_000}MB",
            "temp_directory": work,
            "threads": 2,
        }
        try:
            with duckdb.connect(":memory:", config=settings) as connection:
                connection.execute(
                    f"COPY (SELECT * FROM read_json({_quoted(str(lines))}, "  # noqa: S608 (quoted)
                    f"format='newline_delimited', columns={{{types}}}, "
                    f"maximum_object_size={longest + 1})) TO {_quoted(str(target))} (FORMAT "
                    f"parquet, COMPRESSION zstd, ROW_GROUP_SIZE {min(MAX_ROWS, max(2048, group))})"
                )
        except duckdb.Error as error:
            full = os.strerror(errno.ENOSPC)
            reason = full if full in str(error) else str(error).splitlines()[0][:200]
            raise StoreFailed(f"Cannot write {path}: {reason}.", OUTPUT_REMEDY) from None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
