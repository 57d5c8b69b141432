"""A column of Parquet files, read by DuckDB: only the chosen rows are decoded."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator
from typing import Any

from harness.builders.loaders._files import is_below, row_document
from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid
from harness.plugins import import_extra
from harness.records import Document

ROWS_IN_MEMORY = 256
CONFIG = {"autoinstall_known_extensions": "false", "threads": 1, "memory_limit": "500MB"}


class ParquetLoader:
    """A document per row, named by its number from 0.

    For several files, sorted by name, a row's name is ``FILE/ROW``, both from 0.

    Args:
        path: A file, or a folder of ``*.parquet``.
        column: The column of the text; short values of the others are kept as facts.
    """

    def __init__(self, path: str, column: str = "text", *, data: DataFolder) -> None:
        place = data.place(path)
        files = [place] if place.is_file() else sorted(place.glob("**/*.parquet"))
        if not files:
            raise DataInvalid(f"{place} has no file *.parquet.", "Check the path.")
        for file in files:
            if file != place and not is_below(file, place):
                raise DataInvalid(f"{file} leads out of the folder.", "Name the file itself.")
        # DuckDB reads a name as a pattern.
        self._files = [glob.escape(str(file.absolute())) for file in files]
        self._column = column

    def names(self) -> Iterator[str]:
        """Yield the rows' names."""
        return (name for _, names in self._names_by_file() for name in names)

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the texts."""
        for file, own in self._names_by_file():
            wanted = [number for number, name in enumerate(own) if name in names]
            for first in range(0, len(wanted), ROWS_IN_MEMORY):
                some = wanted[first : first + ROWS_IN_MEMORY]
                rows = _query(
                    "SELECT * FROM read_parquet(?, file_row_number = true) "
                    "WHERE file_row_number BETWEEN ? AND ? AND list_contains(?, file_row_number) "
                    "ORDER BY file_row_number",
                    [file, some[0], some[-1], some],
                )
                for row in rows:
                    yield row_document(own[row.pop("file_row_number")], row, self._column)

    def _names_by_file(self) -> Iterator[tuple[str, list[str]]]:
        for number, file in enumerate(self._files):
            [found] = _query("SELECT count(*) AS size FROM read_parquet(?)", [file])
            prefix = f"{number}/" if len(self._files) > 1 else ""
            yield file, [f"{prefix}{row}" for row in range(found["size"])]


def _query(query: str, values: list[Any]) -> list[dict[str, Any]]:
    """Return rows by their columns; ``values[0]`` is the file."""
    duckdb = import_extra("duckdb", "build")
    try:
        with duckdb.connect(":memory:", config=CONFIG) as connection:
            rows = connection.execute(query, values).fetchall()
            columns = [column[0] for column in connection.description]
    except duckdb.Error as error:
        raise DataInvalid(
            f"{values[0]}: not readable as Parquet ({str(error).splitlines()[0][:160]})."
        ) from None
    return [dict(zip(columns, row, strict=True)) for row in rows]


plugin = ParquetLoader
