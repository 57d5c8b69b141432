"""Files as documents: named by their path below a folder, decoded, of bounded size."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataMissing
from harness.records import Document

SPACES_ALONE = re.compile(r"^[ \t]+$", re.MULTILINE)

LARGEST = 64_000_000
"""Bytes of a document, unpacked."""


class Files:
    """The files below a folder, or one file.

    path: of the folder or file, in the data folder or one of its own.
    patterns: globs below the folder (``**/*.txt``); a file matches one of them. A link that leads
        out of the folder is no document: it is told as unreadable.
    encoding: of the texts; a document in another is told as unreadable.
    """

    def __init__(self, data: DataFolder, path: str, patterns: Sequence[str], encoding: str) -> None:
        self.root = data.place(path)
        self._patterns = patterns
        self._encoding = encoding
        try:
            "".encode(encoding)
        except LookupError:
            raise ConfigError(f"There is no encoding {encoding!r}.", "Such as utf-8.") from None

    def names(self) -> Iterator[str]:
        """The files' paths below the folder, sorted; hidden ones are left out.

        Raises: DataMissing where there is none.
        """
        if self.root.is_file():
            yield self.root.name
            return
        try:
            found = {
                path.relative_to(self.root)
                for pattern in self._patterns
                for path in self.root.glob(pattern)
                if path.is_file()
            }
        except (ValueError, NotImplementedError, OSError) as error:
            raise ConfigError(f"{self._patterns}: no pattern of files ({error}).") from None
        shown = sorted(
            path.as_posix() for path in found if not any(part[0] == "." for part in path.parts)
        )
        if not shown:
            raise DataMissing(
                f"{self.root} has no file {' or '.join(self._patterns)}.",
                "Check the path, or name the files in the source's load section.",
            )
        yield from shown

    def read(self, name: str) -> Document:
        """The document of a name that `names` told, or that a list beside the files has."""
        path = self.root if self.root.is_file() else self.root / name
        text, problem = self._read(path)
        return Document(shown(name), text, problem=problem)

    def _read(self, path: Path) -> tuple[str, str]:
        """The text, or what is wrong."""
        try:
            if not is_below(path, self.root):
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
            text.encode()  # some encodings write half a surrogate pair, which is no character
        except UnicodeError:
            return "", f"not in {self._encoding}"
        return with_plain_ends(text), ""


def with_plain_ends(text: str) -> str:
    """A text whose lines end in ``\\n``, without a byte-order mark and spaces in blank lines."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return SPACES_ALONE.sub("", plain)


def is_below(path: Path, root: Path) -> bool:
    """Whether a path, links followed, is in a folder, or is it.

    Raises: OSError, RuntimeError for a link to itself, ValueError for what is no path.
    """
    return path.resolve().is_relative_to(root.resolve())


def shown(name: str) -> str:
    """A file's name as text: bytes of it that are not UTF-8 as ``\\udc…``."""
    return name.encode("utf-8", "backslashreplace").decode()
