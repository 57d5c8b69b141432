"""A column of Parquet files, by DuckDB: only the chosen rows are decoded."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from harness.builders.loaders._files import is_below, shown
from harness.builders.loaders._rows import document
from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid
from harness.records import Document

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS = 256
"""Rows that are in memory at a time."""


class ParquetLoader:
    """A document per row, named by its number from 0, the files' rows in the order of their names.

    path: a file, or a folder of ``*.parquet``.
    column: the one that holds the text; the others tell about it.
    """

    def __init__(self, path: str, column: str = "text", *, data: DataFolder) -> None:
        place = data.place(path)
        files = [place] if place.is_file() else sorted(place.glob("**/*.parquet"))
        files = [file for file in files if file.is_file()]
        if not files:
            raise DataInvalid(f"{place} has no file *.parquet.", "Check the path.")
        for file in files:
            if file != place and not is_below(file, place):
                raise DataInvalid(f"{file} leads out of the folder.", "Name the file itself.")
            if shown(file.name) != file.name:
                raise DataInvalid(f"{shown(str(file))} has a name that is not UTF-8.", "Rename it.")
        # DuckDB takes a name as a pattern.
        self._files = [glob.escape(str(file.absolute())) for file in files]
        self._column = column

    def names(self) -> Iterator[str]:
        """The rows' numbers. Raises: DataInvalid."""
        with self._connected() as connection:
            for file in self._files:
                (rows,) = self._asked(connection, "SELECT count(*) FROM read_parquet(?)", [file])[0]
                yield from (self._name(file, number) for number in range(rows))

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """The texts. Raises: DataInvalid."""
        with self._connected() as connection:
            for file in self._files:
                (rows,) = self._asked(connection, "SELECT count(*) FROM read_parquet(?)", [file])[0]
                wanted = [number for number in range(rows) if self._name(file, number) in names]
                for first in range(0, len(wanted), ROWS):
                    yield from self._documents(connection, file, wanted[first : first + ROWS])

    def _documents(
        self, connection: DuckDBPyConnection, file: str, wanted: list[int]
    ) -> Iterator[Document]:
        found = self._asked(
            connection,
            "SELECT * FROM read_parquet(?, file_row_number = true) "
            "WHERE file_row_number BETWEEN ? AND ? AND list_contains(?, file_row_number) "
            "ORDER BY file_row_number",
            [file, wanted[0], wanted[-1], wanted],
        )
        columns = [column[0] for column in connection.description or ()]
        for values in found:
            row = dict(zip(columns, values, strict=True))
            yield document(self._name(file, row.pop("file_row_number")), row, self._column)

    def _name(self, file: str, number: int) -> str:
        return f"{self._files.index(file)}/{number}" if len(self._files) > 1 else str(number)

    def _connected(self) -> DuckDBPyConnection:
        import duckdb

        return duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                "threads": 1,
                "memory_limit": "500MB",
            },
        )

    def _asked(
        self, connection: DuckDBPyConnection, query: str, values: list[Any]
    ) -> list[tuple[Any, ...]]:
        import duckdb

        try:
            return connection.execute(query, values).fetchall()
        except duckdb.Error as error:
            raise DataInvalid(
                f"{values[0]}: not Parquet that can be read ({str(error).splitlines()[0][:160]})."
            ) from None


plugin = ParquetLoader
