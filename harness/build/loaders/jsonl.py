"""A column of a JSONL file; packed by gzip, too."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count

from harness.build.loaders._rows import document
from harness.datasets.folder import DataFolder, read_jsonl
from harness.records import Document


class JsonlLoader:
    """A document per line, named by its number from 1.

    path: the file.
    column: the key that holds the text; the others tell about it.
    """

    def __init__(self, path: str, column: str = "text", *, data: DataFolder) -> None:
        self._path = data.file(path)
        self._column = column

    def names(self) -> Iterator[str]:
        """The lines' numbers, blank ones left out. Raises: DataInvalid, DataMissing."""
        return (str(number) for number, _ in zip(count(1), read_jsonl(self._path), strict=False))

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """The texts. Raises: DataInvalid where a line is not JSON; DataMissing."""
        for number, row in enumerate(read_jsonl(self._path), start=1):
            if str(number) in names:
                yield document(str(number), row, self._column)


plugin = JsonlLoader
