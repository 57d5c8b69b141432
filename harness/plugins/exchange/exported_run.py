"""The table of one or more runs, with a row per sample or attempt, as CSV and Parquet files.

The mean of ``passed`` over samples is the pass rate. Unknown values are NULL, never 0. Text is not
changed, and rows are streamed.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from warnings import warn

import msgspec

from harness.engine.resolving import row_fields
from harness.errors import StoreFailed, import_extra
from harness.records import Attempt, Usage, replace_surrogates
from harness.results import RunResult, open_attempts
from harness.store.files import OUTPUT_REMEDY, replace_output
from harness.store.index import AttemptIndex, AttemptLine
from harness.store.run_folder import RunFolder

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

Line = TypeVar("Line", Attempt, "_Row")


@dataclass(frozen=True, repr=False)
class ExportedRun(RunResult):
    """A run to export, with the fields of the user's rows by instance."""

    manifest: Mapping[str, Any]
    index: AttemptIndex
    rows: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    @property
    def simulated(self) -> bool:
        """Whether the answers are simulated."""
        return bool(self.manifest.get("simulated"))

    def read_samples(self, shape: type[Line]) -> Iterator[list[Line]]:
        """Yield the attempts of each sample, in order of their rounds, decoded as ``shape``."""
        attempts = self.index.read(shape, self.index.rows_by_name(self.rows))
        for _, rounds in groupby(attempts, lambda attempt: (attempt.instance, attempt.sample)):
            yield list(rounds)


def exported_run(folder: RunFolder) -> ExportedRun:
    """Return the run in a folder, for export."""
    index = open_attempts(folder)
    return ExportedRun(folder, folder.read_manifest(), index)


Kind = Literal["VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"]  # SQL type of a column
Cell = str | int | float | bool | None


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
# The columns before the groups. Simulated answers must not be mistaken for real ones.
IDENTITY: Mapping[str, Kind] = {
    "run": "VARCHAR",
    "task": "VARCHAR",
    "model": "VARCHAR",
    "simulated": "BOOLEAN",
    "instance": "VARCHAR",
    "sample": "BIGINT",
    "round": "BIGINT",
}


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
        self.runs = runs
        self._attempts = attempts
        self._labels: dict[str, None] = {}  # in order, like scores
        self._scores: dict[str, None] = {}
        rows: list[Mapping[str, object]] = []
        for run in runs:
            self._labels |= dict.fromkeys(run.index.attempts.labels())
            self._scores |= dict.fromkeys(run.index.attempts.scores)
            rows += run.rows.values()
        kinds = _field_kinds(rows)
        self._fields = {name: kind for name, kind in kinds.items() if name not in self._labels}
        columns: list[tuple[str, Kind]] = [*IDENTITY.items()]
        if attempts:
            columns.append(("is_last", "BOOLEAN"))
        columns += [(f"group_{label}", "VARCHAR") for label in self._labels]
        columns += [(f"field_{name}", kind) for name, kind in self._fields.items()]
        columns += [("cluster", "VARCHAR"), ("outcome", "VARCHAR"), ("passed", "BOOLEAN")]
        for name in self._scores:
            columns += [(f"score_{name}", "DOUBLE"), (f"reason_{name}", "VARCHAR")]
        columns += [("details", "VARCHAR"), ("prompt", "VARCHAR"), *SCALARS.items()]
        self.columns: dict[str, Kind] = {}  # each column's SQL type, in order
        for name, kind in columns:
            self.columns[_unused(name, self.columns)] = kind

    @classmethod
    def of(cls, folders: Iterable[RunFolder], *, attempts: bool) -> ExportedRows:
        """Return the table of runs that has the fields of the user's rows, too."""
        runs = []
        for folder in folders:
            rows = row_fields(folder, warn)
            runs.append(replace(exported_run(folder), rows=rows))
        return cls(runs, attempts=attempts)

    def __len__(self) -> int:
        n = 0
        for run in self.runs:
            table = run.index.attempts
            n += len(table) if self._attempts else int(table.sample_starts().sum())
        return n

    def __iter__(self) -> Iterator[list[Cell]]:
        """Yield the rows in order of run, instance, sample and round."""
        for run in self.runs:
            manifest = run.manifest
            facts = [run.name, manifest.get("task", ""), manifest.get("model"), run.simulated]
            for rounds in run.read_samples(_Row):
                last = rounds[-1]
                if not self._attempts:
                    yield [*facts, *self._cells(run, last, rounds[0].request)]
                    continue
                for line in rounds:
                    yield [*facts, *self._cells(run, line, line.request, line is last)]

    def _cells(
        self, run: ExportedRun, line: _Row, request: _Request, is_last: bool | None = None
    ) -> Iterator[Cell]:
        yield from (line.instance, line.sample, line.round)
        if is_last is not None:
            yield is_last
        yield from map(line.groups.get, self._labels)
        row = run.rows.get(line.instance, {})
        for name, kind in self._fields.items():
            yield _field_cell(row.get(name), kind)
        yield from (line.cluster, line.outcome, line.passed)
        for name in self._scores:
            score = line.scores.get(name)
            if score is None:
                yield from (None, None)
                continue
            yield None if score.value is None else float(score.value)
            yield score.reason
        details = {}
        for name, score in line.scores.items():
            if bytes(score.details) != b"{}":
                details[name] = score.details
        yield msgspec.json.encode(details).decode() if details else None
        yield bytes(request.messages).decode() or None
        for name in SCALARS:
            yield getattr(line.usage if name in Usage.__struct_fields__ else line, name, None)


def _field_kinds(rows: Iterable[Mapping[str, object]]) -> dict[str, Kind]:
    """Return the SQL type of each field of the rows."""
    kinds_by_field: dict[str, set[Kind]] = {}
    for row in rows:
        for name, value in row.items():
            kinds = kinds_by_field.setdefault(name, set())
            if isinstance(value, bool):
                kinds.add("BOOLEAN")
            elif isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
                kinds.add("BIGINT")
            elif isinstance(value, float):
                kinds.add("DOUBLE")
            elif value is not None:
                kinds.add("VARCHAR")
    return {name: _common_kind(kinds) for name, kinds in kinds_by_field.items()}


def _common_kind(kinds: set[Kind]) -> Kind:
    """Return the SQL type that holds values of all ``kinds``."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return "DOUBLE" if kinds == {"BIGINT", "DOUBLE"} else "VARCHAR"


def _field_cell(value: object, kind: Kind) -> Cell:
    if value is None:
        return None
    if isinstance(value, str):
        return replace_surrogates(value)
    if kind == "VARCHAR":
        return replace_surrogates(json.dumps(value, ensure_ascii=False, default=str))
    return float(value) if kind == "DOUBLE" else value  # type: ignore[arg-type, return-value]


def _unused(name: str, used_names: Iterable[str]) -> str:
    """Return the name, or a variant such as ``name_2`` if it is taken."""
    name = name.replace("\0", "\ufffd")
    lowered = {used.lower() for used in used_names}
    number = 1
    unused = name
    while unused.lower() in lowered:
        number += 1
        unused = f"{name}_{number}"
    return unused


MAX_ROWS = 20_000  # per row group of a Parquet file
ROW_GROUP_BYTES = 32_000_000  # approximate, uncompressed: readers unpack one group at a time


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
        replace_output(path) as target,
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
            reason = str(error).splitlines()[0][:200]
            full = os.strerror(errno.ENOSPC)
            if full in str(error):
                reason = full
            raise StoreFailed(f"Cannot write {path}: {reason}.", OUTPUT_REMEDY) from None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
