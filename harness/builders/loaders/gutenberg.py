"""Project Gutenberg: a folder of its books, without the licence around each text.

Either the Gutenberg, dammit corpus that the paper used (``gutenberg-metadata.json`` beside the
texts; github.com/aparrish/gutenberg-dammit), or any folder of the project's own files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.builders.loaders._documents import Files
from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid
from harness.records import Document

METADATA = "gutenberg-metadata.json"
BEGIN = re.compile(r"^\*\*\* ?START OF TH[^\n]*\n", re.MULTILINE)
END = re.compile(r"^\*\*\* ?END OF TH", re.MULTILINE)


class GutenbergLoader:
    """A document per book.

    Args:
        path: The folder.
        language: Language of the books to use, if there is metadata.
        encoding: Encoding of the texts.
    """

    def __init__(
        self, path: str, language: str = "English", encoding: str = "utf-8", *, data: DataFolder
    ) -> None:
        self._files = Files(data, path, "**/*.txt", encoding)
        metadata = self._files.root / METADATA
        self._books = _books(metadata, language) if metadata.is_file() else None

    def names(self) -> Iterator[str]:
        """Yield the books' paths.

        Raises:
            DataMissing: There are none.
        """
        return self._files.names() if self._books is None else iter(self._books)

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the books' texts, with title and author."""
        for name in self.names():
            if name in names:
                book = self._files.read(name)
                facts = (self._books or {}).get(name, {})
                yield Document(book.name, body(book.text), facts, book.problem)


def _books(metadata: Path, language: str) -> dict[str, dict[str, Any]]:
    """Map the paths of the books in a language to title and author, in the order of the file."""
    try:
        rows = msgspec.json.decode(metadata.read_bytes(), type=list[dict[str, Any]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise DataInvalid(f"{metadata}: not a list of books ({error}).") from None
    found: dict[str, dict[str, Any]] = {
        name: {fact: row[fact] for fact in ("Title", "Author") if fact in row}
        for row in rows
        if isinstance(name := row.get("gd-path"), str) and language in (row.get("Language") or [])
    }
    if not found:
        raise DataInvalid(f"{metadata} has no book in {language}.")
    return found


def body(text: str) -> str:
    """Return a book without the project's licence before and after it."""
    begin = BEGIN.search(text)
    text = text[begin.end() :] if begin else text
    end = END.search(text)
    return text[: end.start()] if end else text


plugin = GutenbergLoader
