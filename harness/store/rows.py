"""A growing table of numbers, as columns."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 1 << 14  # of rows that are packed before they are added to the columns


class Rows:
    """A growing table of numbers. ``fields`` maps columns to format characters of `struct`.

    Columns can be taken out of the table, so that a large table is never in memory twice.
    """

    def __init__(self, **fields: str) -> None:
        packing = struct.Struct("=" + "".join(fields.values()))
        self.fields = fields
        self._dtype = np.dtype([(name, "=" + code) for name, code in fields.items()])
        self._pack: Callable[..., bytes] = packing.pack
        self._restored: dict[str, memoryview] = {}
        self._columns = {name: array(code) for name, code in fields.items()}
        self._block = bytearray()  # rows that are not in the columns yet
        self.n = 0  # rows

    def restore(self, n: int, take: Callable[[int], memoryview]) -> None:
        """Begin a table with n saved rows. ``take`` returns their bytes, which are not copied."""
        self.n = n
        self._restored = {name: take(n * self._dtype[name].itemsize) for name in self.fields}

    def __reduce__(self) -> tuple[Callable[..., Rows], tuple[dict[str, str], int, bytes]]:
        return _restored, (self.fields, self.n, b"".join(self.parts))

    def append(self, *row: float) -> None:
        """Append a row.

        Raises:
            struct.error: If a number does not fit into its column.
        """
        self._block += self._pack(*row)
        self.n += 1
        if len(self._block) >= BLOCK_BYTES:
            self._unpack()

    def extend(self, columns: Mapping[str, NDArray[Any]]) -> None:
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

    @property
    def parts(self) -> Iterator[memoryview]:
        """Yield the bytes of all columns, for `restore`."""
        self._unpack()
        for name, column in self._columns.items():
            yield self._restored.get(name, memoryview(b""))
            yield memoryview(column)

    def last(self, name: str) -> float:
        """Return the last value of a column. There must be at least one row."""
        self._unpack()
        values = self._columns[name] or np.frombuffer(self._restored[name], self._dtype[name])
        return float(values[-1])

    def column(self, name: str) -> NDArray[Any]:
        """Return a copy of the named column."""
        self._unpack()
        parts = self._restored.get(name, b""), self._columns[name]
        return np.concatenate([np.frombuffer(part, self._dtype[name]) for part in parts])

    def taken(self, name: str) -> NDArray[Any]:
        """Return the named column, as an (n,) array, and remove it unless the table was restored.

        No row can be added afterwards.
        """
        self._unpack()
        if name in self._restored:
            return self.column(name)
        return np.frombuffer(self._columns.pop(name), self._dtype[name])


def _restored(fields: dict[str, str], n: int, saved: bytes) -> Rows:
    rows, parts = Rows(**fields), BytesIO(saved)
    rows.restore(n, lambda size: memoryview(parts.read(size)))
    return rows
