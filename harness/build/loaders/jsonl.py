"""A column of a JSONL file; packed by gzip, too."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from harness.build.loaders._rows import document
from harness.datasets.folder import DataFolder, numbered_lines
from harness.records import Document

MARK = b"\xef\xbb\xbf"
"""Of byte order, as some programs begin a file with."""
HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, as of an emoji that was cut in two: no character."""


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


def json_object(line: bytes) -> dict[str, Any]:
    """An object of JSON; half a surrogate pair in it becomes U+FFFD.

    Raises: MsgspecError, ValueError, RecursionError.
    """
    line = line.removeprefix(MARK)
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        plain = HALF.sub("\ufffd", json.dumps(json.loads(line), ensure_ascii=False))
        return msgspec.json.decode(plain, type=dict[str, Any])


plugin = JsonlLoader
