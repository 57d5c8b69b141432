"""A growing table of numbers, as columns."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 1 << 14  # of rows that are packed before they are added to the columns

Columns: TypeAlias = Mapping[str, NDArray[Any]]


class Rows:
    """A growing table of numbers. ``fields`` maps columns to format characters of `struct`.

    Columns can be taken out of the table, so that a large table is never in memory twice.
    """

    def __init__(self, **fields: str) -> None:
        packing = struct.Struct("=" + "".join(fields.values()))
        self.fields = fields
        self._dtype = np.dtype([(name, "=" + code) for name, code in fields.items()])
        self._pack: Callable[..., bytes] = packing.pack
        self._columns = {name: array(code) for name, code in fields.items()}
        self._block = bytearray()  # rows that are not in the columns yet
        self.n = 0  # rows

    def __reduce__(self) -> tuple[Callable[..., Rows], tuple[dict[str, str], Columns]]:
        return _unpickled, (self.fields, {name: self.column(name) for name in self.fields})

    def append(self, *row: float) -> None:
        """Append a row.

        Raises:
            struct.error: If a number does not fit into its column.
        """
        self._block += self._pack(*row)
        self.n += 1
        if len(self._block) >= BLOCK_BYTES:
            self._unpack()

    def extend(self, columns: Columns) -> None:
        """Append rows, given as columns of this table's types."""
        self._unpack()
        for name, column in self._columns.items():
            column.frombytes(columns[name].tobytes())
        self.n += len(next(iter(columns.values()), ()))

    def _unpack(self) -> None:
        if not self._block:
            return
        rows = np.frombuffer(self._block, self._dtype)
        self._block = bytearray()
        for name, column in self._columns.items():
            column.frombytes(rows[name].tobytes())

    def last(self, name: str) -> float:
        """Return the last value of a column. There must be at least one row."""
        self._unpack()
        return float(self._columns[name][-1])

    def column(self, name: str) -> NDArray[Any]:
        """Return a copy of the named column."""
        self._unpack()
        return np.array(self._columns[name], self._dtype[name])

    def taken(self, name: str) -> NDArray[Any]:
        """Return the named column, as an (n,) array, and remove it.

        No row can be added afterwards.
        """
        self._unpack()
        return np.frombuffer(self._columns.pop(name), self._dtype[name])


def _unpickled(fields: dict[str, str], columns: Columns) -> Rows:
    rows = Rows(**fields)
    rows.extend(columns)
    return rows
