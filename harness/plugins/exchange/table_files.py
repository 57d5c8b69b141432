"""Writes tables of samples or attempts as CSV and Parquet files."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness.errors import StoreFailed, import_extra
from harness.plugins.exchange.exported_run import Cell, ExportedRows
from harness.store.files import OUTPUT_REMEDY, output_file

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

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
