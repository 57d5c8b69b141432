"""A column of a JSONL file; packed by gzip, too."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from harness.builders.json_lines import json_object
from harness.builders.loaders._rows import document
from harness.datasets.folder import DataFolder, numbered_lines
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
        return (str(number) for number, _ in numbered_lines(self._path))

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """The texts. Raises: DataInvalid, DataMissing."""
        for number, line in numbered_lines(self._path):
            if str(number) in names:
                try:
                    row = json_object(line)
                except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                    yield Document(str(number), "", problem=f"not a JSON object ({error})")
                    continue
                yield document(str(number), row, self._column)


plugin = JsonlLoader
