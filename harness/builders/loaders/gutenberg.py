"""Project Gutenberg: a folder of its books, without the licence around each text.

Either the Gutenberg, dammit corpus that the paper used (``gutenberg-metadata.json`` beside the
texts; github.com/aparrish/gutenberg-dammit), or any folder of the project's own files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.builders.loaders._files import FileLoader
from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid
from harness.records import Document

METADATA = "gutenberg-metadata.json"
BEGIN = re.compile(r"^\*\*\* ?START OF TH[^\n]*\n", re.MULTILINE)
END = re.compile(r"^\*\*\* ?END OF TH", re.MULTILINE)


class GutenbergLoader(FileLoader):
    """A document per book, with title and author; of one language, if there is metadata."""

    def __init__(
        self, path: str, language: str = "English", encoding: str = "utf-8", *, data: DataFolder
    ) -> None:
        super().__init__(path, "**/*.txt", encoding, data=data)
        metadata = self._root / METADATA
        self._books = _books(metadata, language) if metadata.is_file() else None

    def names(self) -> Iterator[str]:
        """Yield the books' paths."""
        return super().names() if self._books is None else iter(self._books)

    def _document(self, name: str) -> Document:
        book = super()._document(name)
        return replace(book, text=body(book.text), about=(self._books or {}).get(name, {}))


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
