"""Runs as one table, written as Parquet or CSV: a row per attempt, a column per field.

Unknown values are NULL, never 0, and texts are unchanged. Rows are streamed: memory holds the
positions of the lines, not their contents.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TextIO

import msgspec

from harness.errors import StoreFailed
from harness.exchange.exported_run import ExportedRun
from harness.plugins import import_extra
from harness.records import Usage
from harness.store.files import OUTPUT_REMEDY, output_file
from harness.store.index import AttemptLine

Kind = Literal["VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"]
"""SQL type of a column."""
Cell = str | int | float | bool | None

MAX_ROWS = 20_000
ROW_GROUP_BYTES = 32_000_000
"""Approximate size of a row group before compression: readers decompress one at a time."""


class _Score(msgspec.Struct, gc=False):
    value: bool | float | None
    reason: str = ""
    details: msgspec.Raw = msgspec.Raw(b"{}")


class _Request(msgspec.Struct, gc=False):
    messages: msgspec.Raw = msgspec.Raw(b"")


class _Row(AttemptLine, kw_only=True, gc=False):
    """The fields of an attempt that a row needs; JSON that is only passed on is not decoded."""

    request: _Request
    scores: dict[str, _Score] = msgspec.field(default_factory=dict)


Reader = Callable[[_Row], Cell]

FIXED: Mapping[str, Kind] = {
    "run": "VARCHAR",
    "task": "VARCHAR",
    "model": "VARCHAR",
    "simulated": "BOOLEAN",
}
"""Columns with one value per run; simulated answers must not pass for real ones."""

FIELDS: Mapping[str, Kind] = {
    "text": "VARCHAR",
    "reasoning": "VARCHAR",
    "feedback": "VARCHAR",
    "finish_reason": "VARCHAR",
    "call_id": "VARCHAR",
    "input_tokens": "BIGINT",
    "output_tokens": "BIGINT",
    "cached_input_tokens": "BIGINT",
    "reasoning_tokens": "BIGINT",
    "cost_usd": "DOUBLE",
    "latency_s": "DOUBLE",
    "cached": "BOOLEAN",
    "started_at": "DOUBLE",
    "ended_at": "DOUBLE",
    "error": "VARCHAR",
}
"""The columns after the scores: fields of an attempt or of its usage."""


class AttemptRows:
    """The table of some runs.

    columns: SQL type of each column by its name, in order.
    """

    def __init__(self, runs: Sequence[ExportedRun]) -> None:
        self.runs = runs
        labels = dict.fromkeys(label for run in runs for label in run.index.attempts.labels())
        scores = dict.fromkeys(name for run in runs for name in run.index.attempts.scores)
        self.columns: dict[str, Kind] = dict(FIXED)
        self._readers: list[Reader] = []
        for name, kind, reader in _columns(labels, scores):
            self.columns[_unused(name, self.columns)] = kind
            self._readers.append(reader)

    def __len__(self) -> int:
        return sum(len(run.index.attempts) for run in self.runs)

    def __iter__(self) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows run by run, instance by instance, each by sample and round."""
        readers = self._readers
        for run in self.runs:
            fixed = (run.name, run.task, run.model, run.simulated)
            for line in run.index.read(_Row):
                yield (*fixed, *[reader(line) for reader in readers])


def _columns(labels: Iterable[str], scores: Iterable[str]) -> Iterator[tuple[str, Kind, Reader]]:
    yield "instance", "VARCHAR", lambda row: row.instance
    yield "sample", "BIGINT", lambda row: row.sample
    yield "round", "BIGINT", lambda row: row.round
    for label in labels:
        yield f"group_{label}", "VARCHAR", partial(_group, label)
    yield "cluster", "VARCHAR", lambda row: row.cluster
    yield "outcome", "VARCHAR", lambda row: row.outcome
    yield "passed", "BOOLEAN", lambda row: row.passed
    for name in scores:
        yield f"score_{name}", "DOUBLE", partial(_value, name)
        yield f"reason_{name}", "VARCHAR", partial(_reason, name)
    yield "details", "VARCHAR", _details
    yield "prompt", "VARCHAR", lambda row: bytes(row.request.messages).decode() or None
    for name, kind in FIELDS.items():
        yield name, kind, partial(_usage if name in Usage.__struct_fields__ else _field, name)


def _group(label: str, row: _Row) -> Cell:
    return row.groups.get(label)


def _field(name: str, row: _Row) -> Cell:
    found: Cell = getattr(row, name)
    return found


def _usage(name: str, row: _Row) -> Cell:
    return None if row.usage is None else getattr(row.usage, name)


def _unused(name: str, taken: Mapping[str, Kind]) -> str:
    """Return the name, or NAME_2, …: databases do not distinguish columns by case."""
    name = name.replace("\0", "\ufffd")
    lowered = {other.lower() for other in taken}
    number, unused = 1, name
    while unused.lower() in lowered:
        number += 1
        unused = f"{name}_{number}"
    return unused


def _value(name: str, row: _Row) -> Cell:
    score = row.scores.get(name)
    return None if score is None or score.value is None else float(score.value)


def _reason(name: str, row: _Row) -> Cell:
    score = row.scores.get(name)
    return None if score is None else score.reason


def _details(row: _Row) -> Cell:
    found = {n: score.details for n, score in row.scores.items() if bytes(score.details) != b"{}"}
    return msgspec.json.encode(found).decode() if found else None


def write_csv(rows: AttemptRows, file: TextIO) -> None:
    """Write the table as CSV, with a header; lines end with a newline character alone.

    The data are exact: a text is always quoted, with newlines kept and quotes doubled (RFC 4180);
    NULL is an empty cell, unlike the empty text, which is two quotes. Texts that a spreadsheet
    would take for formulas are not altered.
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


def write_parquet(rows: AttemptRows, path: Path) -> None:
    """Write the table as Parquet; times are in seconds since the epoch, and a true score is 1.

    The rows go through a temporary file of JSON lines, which DuckDB converts in bounded memory. If
    writing fails, an existing file is unchanged.
    """
    duckdb = import_extra("duckdb", "exchange")
    folder = path.resolve().parent
    with (
        output_file(path) as target,
        tempfile.TemporaryDirectory(
            prefix=".harness-", dir=folder, ignore_cleanup_errors=True
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
