"""Project Gutenberg: a folder of its texts, without the licence around each.

Two layouts: that of the Gutenberg, dammit corpus, which the paper used (``gutenberg-metadata.json``
beside the texts; github.com/aparrish/gutenberg-dammit), or any folder of the project's own files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.builders.loaders._files import Files
from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid
from harness.records import Document

METADATA = "gutenberg-metadata.json"
BEGIN = re.compile(r"^\*\*\* ?START OF TH[^\n]*\n", re.MULTILINE)
END = re.compile(r"^\*\*\* ?END OF TH", re.MULTILINE)
FACTS = ("Title", "Author")


class GutenbergLoader:
    """A document per book.

    path: the folder.
    language: of the books, where the metadata tells it.
    encoding: of the texts.
    """

    def __init__(
        self,
        path: str,
        language: str = "English",
        encoding: str = "utf-8",
        *,
        data: DataFolder,
    ) -> None:
        self._files = Files(data, path, ("**/*.txt",), encoding)
        self._language = language
        metadata = self._files.root / METADATA
        self._books = self._read_metadata(metadata) if metadata.is_file() else None

    def names(self) -> Iterator[str]:
        """The books' paths. Raises: DataMissing where there is none."""
        return self._files.names() if self._books is None else iter(self._books)

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """The books' texts."""
        for name in self.names():
            if name in names:
                about = (self._books or {}).get(name, {})
                book = self._files.read(name)
                yield Document(book.name, body(book.text), about, book.problem)

    def _read_metadata(self, path: Path) -> dict[str, dict[str, Any]]:
        """Path -> facts of the books in the language, in the order of the file."""
        try:
            rows = msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OSError) as error:
            raise DataInvalid(f"{path}: not a list of books ({error}).") from None
        found = {}
        for row in rows:
            name = row.get("gd-path")
            if not isinstance(name, str) or self._language not in (row.get("Language") or []):
                continue
            found[name] = {fact: row[fact] for fact in FACTS if fact in row}
        if not found:
            raise DataInvalid(f"{path} has no book in {self._language}.")
        return found


def body(text: str) -> str:
    """A book between the marks that part it from the project's licence."""
    begin = BEGIN.search(text)
    text = text[begin.end() :] if begin else text
    end = END.search(text)
    return text[: end.start()] if end else text


plugin = GutenbergLoader
