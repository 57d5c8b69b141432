"""A column of a JSONL file; packed with gzip or not.

>>> json_object(b'{"text": "half a smile: \\\\ud83d"}')
{'text': 'half a smile: \ufffd'}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.builders.loaders._files import row_document
from harness.datasets.folder import DataFolder, numbered_lines
from harness.records import Document, encodable


class JsonlLoader:
    """A document per line, named by its number from 1.

    Args:
        column: The key of the text; short values of the others are kept as facts.
    """

    def __init__(self, path: str, column: str = "text", *, data: DataFolder) -> None:
        self._path = data.file(path)
        self._column = column

    def names(self) -> Iterator[str]:
        """Yield the numbers of the lines that are not blank."""
        return (str(number) for number, _ in numbered_lines(self._path))

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the texts."""
        for number, row in json_rows(self._path, names):
            if isinstance(row, str):
                yield Document(str(number), "", problem=row)
            else:
                yield row_document(str(number), row, self._column)


def json_rows(
    path: Path, names: Collection[str] | None = None
) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Read a JSONL file in which some lines may be broken.

    Args:
        names: Numbers of the lines to read; by default all that are not blank.

    Yields:
        Each line's number, from 1, with its object, or with a description of what is wrong.
    """
    for number, line in numbered_lines(path):
        if names is None or str(number) in names:
            try:
                yield number, json_object(line)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                yield number, f"not a JSON object ({error})"


def json_object(line: bytes) -> dict[str, Any]:
    """Decode an object; half of a surrogate pair, as of a cut emoji, becomes U+FFFD."""
    line = line.removeprefix(b"\xef\xbb\xbf")  # some programs begin a file with a byte-order mark
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        plain = encodable(json.dumps(json.loads(line), ensure_ascii=False))
        return msgspec.json.decode(plain, type=dict[str, Any])


plugin = JsonlLoader
