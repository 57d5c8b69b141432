"""Documents from files and from rows of tables: decoded, of bounded size."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataMissing, nearest
from harness.records import Document

BLANK_LINE_SPACES = re.compile(r"^[ \t]+$", re.MULTILINE)

LARGEST = 64_000_000
"""Maximum bytes of a document, unpacked."""
MOST_FACTS = 8
"""Maximum number of facts kept about a row."""
LONGEST_FACT = 200
"""Maximum characters of a fact."""


class FileLoader:
    """A document per file, gzipped or not.

    Args:
        files: A glob below the folder. A link out of the folder counts as unreadable.
        encoding: Encoding of the texts. A document in another encoding is unreadable.
    """

    def __init__(
        self, path: str, files: str = "**/*", encoding: str = "utf-8", *, data: DataFolder
    ) -> None:
        self._root = data.place(path)
        self._pattern = files
        self._encoding = encoding
        try:
            "".encode(encoding)
        except LookupError:
            raise ConfigError(f"There is no encoding {encoding!r}.", "Such as utf-8.") from None

    def names(self) -> Iterator[str]:
        """Yield the paths below the folder, sorted, without hidden files."""
        if self._root.is_file():
            yield self._root.name
            return
        try:
            files = [path for path in self._root.glob(self._pattern) if path.is_file()]
        except (ValueError, NotImplementedError, OSError) as error:
            raise ConfigError(f"{self._pattern!r} is not a valid file pattern ({error}).") from None
        paths = {path.relative_to(self._root) for path in files}
        names = sorted(p.as_posix() for p in paths if not any(part[0] == "." for part in p.parts))
        if not names:
            raise DataMissing(
                f"{self._root} has no file {self._pattern}.",
                "Check the path, or name the files in the source's load section.",
            )
        yield from names

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the documents of the chosen names, in order."""
        return (self._document(name) for name in self.names() if name in names)

    def _document(self, name: str) -> Document:
        path = self._root if self._root.is_file() else self._root / name
        text, problem = self._text_or_problem(path)
        return Document(printable(name), text, problem=problem)

    def _text_or_problem(self, path: Path) -> tuple[str, str]:
        try:
            if not is_below(path, self._root):
                return "", "leads out of the folder"
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                content = file.read(LARGEST + 1)
        except (OSError, EOFError, RuntimeError, ValueError, zlib.error) as error:
            return "", f"cannot be read ({getattr(error, 'strerror', None) or error})"
        if len(content) > LARGEST:
            return "", f"more than {LARGEST:,} bytes"
        if b"\0" in content and "16" not in self._encoding and "32" not in self._encoding:
            return "", "not a text"
        try:
            text = content.decode(self._encoding)
            text.encode()  # some encodings decode half a surrogate pair, which is not a character
        except UnicodeError:
            return "", f"not in {self._encoding}"
        return _normalised(text), ""


def row_document(name: str, row: Mapping[str, Any], column: str) -> Document:
    """Return a row as a document: the text of a column, and short facts from the others."""
    if column not in row:
        remedy = nearest(column, map(str, row))
        return Document(name, "", problem=f"has no column {column!r}. {remedy}".strip())
    text = row[column]
    facts = [
        (key, value)
        for key, value in row.items()
        if key != column and isinstance(value, str | int) and len(str(value)) <= LONGEST_FACT
    ]
    about = dict(facts[:MOST_FACTS])
    if not isinstance(text, str):
        return Document(name, "", about, f"{column!r} is no text")
    if len(text) > LARGEST:
        return Document(name, "", about, f"more than {LARGEST:,} characters")
    return Document(name, _normalised(text), about)


def _normalised(text: str) -> str:
    """Normalise a text: ``\\n`` as line end, no byte-order mark, and empty blank lines."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return BLANK_LINE_SPACES.sub("", plain)


def is_below(path: Path, root: Path) -> bool:
    """Return whether a path, with links resolved, is a folder or below it."""
    return path.resolve().is_relative_to(root.resolve())


def printable(name: str) -> str:
    """Return a file's name as text; bytes that are not UTF-8 become ``\\udc…``."""
    return name.encode("utf-8", "backslashreplace").decode()
