"""A table of attempts as Parquet, by DuckDB.

Owns what that costs in memory: rows go to DuckDB in batches, each batch to a file of its own
beside the wanted one, and these into that one. An in-memory database would hold all the texts.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.errors import StoreFailed
from harness.exchange.attempt_rows import AttemptRows, Cell, Kind
from harness.store.files import output_file

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_ROWS = 20_000
MOST_CHARACTERS = 32_000_000
"""Of a batch, and about so many of a row group: readers decompress one at a time."""

SQL: dict[Kind, str] = {
    "text": "CAST({0} AS VARCHAR)",
    "integer": "CAST(CASE WHEN isnan({0}) THEN NULL ELSE {0} END AS BIGINT)",
    "number": "CASE WHEN isnan({0}) THEN NULL ELSE {0} END",
    "flag": "CASE WHEN {0} < 0 THEN NULL ELSE {0} = 1 END",
}


def write_parquet(rows: AttemptRows, path: Path) -> None:
    """Write the table; scores are DOUBLE (true is 1), times seconds since the epoch.

    Raises: a `harness.errors.HarnessError`; the file is then as it was.
    """
    import duckdb

    with output_file(path) as temporary, _beside(path) as folder:
        connection = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "memory_limit": "300MB",
                "temp_directory": folder,
                "threads": 2,
                "pandas_analyze_sample": 0,  # columns of objects are texts, whatever comes first
            },
        )
        try:
            with connection:
                _write(connection, rows, Path(folder), temporary)
        except duckdb.Error as error:
            full = os.strerror(errno.ENOSPC)
            reason = full if full in str(error) else str(error).splitlines()[0][:200]
            raise StoreFailed(
                f"Cannot write {path}: {reason}.",
                "Make room or mend the permissions, or name another file.",
            ) from None


def _beside(path: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(
        prefix=".harness-", dir=path.resolve().parent, ignore_cleanup_errors=True
    )


def _write(connection: DuckDBPyConnection, rows: AttemptRows, folder: Path, path: Path) -> None:
    parts: list[str] = []
    batch: list[tuple[Cell, ...]] = []
    texts = [n for n, kind in enumerate(rows.columns.values()) if kind == "text"]
    characters = total = 0

    def flush() -> None:
        parts.append(str(folder / f"{len(parts)}.parquet"))
        _copy_batch(connection, batch, rows.columns, parts[-1])
        batch.clear()

    for row in rows:
        batch.append(row)
        size = sum(len(cell) for n in texts if isinstance(cell := row[n], str))
        characters += size
        total += size
        if len(batch) >= MOST_ROWS or characters >= MOST_CHARACTERS:
            flush()
            characters = 0
    if batch or not parts:
        flush()
    group = MOST_ROWS * MOST_CHARACTERS // max(total * MOST_ROWS // max(len(rows), 1), 1)
    connection.execute(
        f"COPY (SELECT * FROM read_parquet(?)) TO {_quoted(str(path))} "  # noqa: S608 (quoted)
        f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {min(MOST_ROWS, max(2048, group))})",
        [parts],
    )


def _copy_batch(
    connection: DuckDBPyConnection,
    batch: Sequence[tuple[Cell, ...]],
    columns: dict[str, Kind],
    path: str,
) -> None:
    cells = zip(*batch, strict=True) if batch else ((),) * len(columns)
    arrays = {
        f"c{number}": _array(column, kind)
        for number, (column, kind) in enumerate(zip(cells, columns.values(), strict=True))
    }
    chosen = ", ".join(
        f'{SQL[kind].format(f"c{number}")} AS "{name.replace(chr(34), chr(34) * 2)}"'
        for number, (name, kind) in enumerate(columns.items())
    )
    connection.register("batch", arrays)
    connection.execute(
        f"COPY (SELECT {chosen} FROM batch) TO {_quoted(path)} (FORMAT parquet)"  # noqa: S608
    )
    connection.unregister("batch")


def _array(cells: Sequence[Cell], kind: Kind) -> np.ndarray[Any, Any]:
    """Cells as DuckDB takes them; a number that is None is not a number, a flag is -1."""
    if kind == "text":
        found = np.empty(len(cells), dtype=object)
        found[:] = cells
        return found
    if kind == "flag":
        return np.array([-1 if cell is None else cell for cell in cells], dtype=np.int8)
    return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
