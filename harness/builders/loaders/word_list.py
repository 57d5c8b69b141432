"""A list of words, one per line (Debian: ``/usr/share/dict/words``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from harness.builders.loaders._files import FileLoader
from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid
from harness.records import Document

WORDS_A_DOCUMENT = 1000


class WordListLoader(FileLoader):
    """A document per thousand words, one word a line, named by the number of its first word."""

    def __init__(self, path: str, encoding: str = "utf-8", *, data: DataFolder) -> None:
        super().__init__(str(data.file(path)), "", encoding, data=data)

    def names(self) -> Iterator[str]:
        """Yield the documents' names."""
        return (document.name for document in self._documents())

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the words."""
        return (document for document in self._documents() if document.name in names)

    def _documents(self) -> Iterator[Document]:
        whole = self._document(self._root.name)
        if whole.problem:
            raise DataInvalid(f"{self._root} is not a word list: {whole.problem}.")
        words = list(filter(None, map(str.strip, whole.text.splitlines())))
        for first in range(0, len(words), WORDS_A_DOCUMENT):
            yield Document(str(first + 1), "\n".join(words[first : first + WORDS_A_DOCUMENT]))


plugin = WordListLoader
