"""A column of Parquet files, read by DuckDB: only the chosen rows are decoded."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator
from typing import Any

from harness.builders.loaders._files import is_below, printable, row_document
from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid
from harness.plugins import import_extra
from harness.records import Document

ROWS_IN_MEMORY = 256


class ParquetLoader:
    """A document per row, named by its number from 0.

    For several files, sorted by name, a row's name is ``FILE/ROW``, both from 0.

    Args:
        path: A file, or a folder of ``*.parquet``.
        column: The column of the text; short values of the others are kept as facts.
    """

    def __init__(self, path: str, column: str = "text", *, data: DataFolder) -> None:
        place = data.place(path)
        found = [place] if place.is_file() else sorted(place.glob("**/*.parquet"))
        files = [file for file in found if file.is_file()]
        if not files:
            raise DataInvalid(f"{place} has no file *.parquet.", "Check the path.")
        for file in files:
            if file != place and not is_below(file, place):
                raise DataInvalid(f"{file} leads out of the folder.", "Name the file itself.")
            if printable(file.name) != file.name:
                raise DataInvalid(
                    f"The name of {printable(str(file))} is not UTF-8.", "Rename the file."
                )
        # DuckDB takes a name as a pattern.
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
                columns, rows = _query(
                    "SELECT * FROM read_parquet(?, file_row_number = true) "
                    "WHERE file_row_number BETWEEN ? AND ? AND list_contains(?, file_row_number) "
                    "ORDER BY file_row_number",
                    [file, some[0], some[-1], some],
                )
                for values in rows:
                    row = dict(zip(columns, values, strict=True))
                    yield row_document(own[row.pop("file_row_number")], row, self._column)

    def _names_by_file(self) -> Iterator[tuple[str, list[str]]]:
        for number, file in enumerate(self._files):
            _, [(size,)] = _query("SELECT count(*) FROM read_parquet(?)", [file])
            prefix = f"{number}/" if len(self._files) > 1 else ""
            yield file, [f"{prefix}{row}" for row in range(size)]


def _query(query: str, values: list[Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the columns, and the rows; ``values[0]`` is the file."""
    duckdb = import_extra("duckdb", "build")
    config = {"autoinstall_known_extensions": "false", "threads": 1, "memory_limit": "500MB"}
    try:
        with duckdb.connect(":memory:", config=config) as connection:
            rows = connection.execute(query, values).fetchall()
            return [column[0] for column in connection.description or ()], rows
    except duckdb.Error as error:
        raise DataInvalid(
            f"{values[0]}: not readable as Parquet ({str(error).splitlines()[0][:160]})."
        ) from None


plugin = ParquetLoader
