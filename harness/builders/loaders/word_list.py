"""A list of words, one per line (Debian: ``/usr/share/dict/words``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

from harness.builders.loaders._files import Files
from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid
from harness.records import Document

BLOCK = 1000
"""Words of a document: the list is worked on in pieces."""


class WordListLoader:
    """A document per thousand words, each word in a line of its own.

    path: the file.
    encoding: of the file.
    """

    def __init__(self, path: str, encoding: str = "utf-8", *, data: DataFolder) -> None:
        self._path = data.file(path)
        self._files = Files(data, str(self._path), (), encoding)

    def names(self) -> Iterator[str]:
        """ "1" for the words from the first one on, and so on. Raises: DataInvalid."""
        return (document.name for document in self._documents())

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """The words. Raises: DataInvalid."""
        return (document for document in self._documents() if document.name in names)

    def _documents(self) -> Iterator[Document]:
        whole = self._files.read(self._path.name)
        if whole.problem:
            raise DataInvalid(f"{self._path} is no word list: {whole.problem}.")
        words = (line.strip() for line in whole.text.splitlines())
        kept = (word for word in words if word)
        first = 1
        while block := list(islice(kept, BLOCK)):
            yield Document(str(first), "\n".join(block))
            first += len(block)


plugin = WordListLoader
