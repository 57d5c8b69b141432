"""A list of words, one per line (Debian: ``/usr/share/dict/words``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

from harness.builders.loaders._documents import Files
from harness.datasets.folder import DataFolder
from harness.errors import DataInvalid
from harness.records import Document

WORDS_A_DOCUMENT = 1000


class WordListLoader:
    """A document per thousand words, one word a line, named by the number of its first word.

    Args:
        path: The file.
        encoding: Encoding of the file.
    """

    def __init__(self, path: str, encoding: str = "utf-8", *, data: DataFolder) -> None:
        self._path = data.file(path)
        self._files = Files(data, str(self._path), "", encoding)

    def names(self) -> Iterator[str]:
        """Yield the documents' names.

        Raises:
            DataInvalid: The file cannot be read.
        """
        return (document.name for document in self._documents())

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the words.

        Raises:
            DataInvalid: The file cannot be read.
        """
        return (document for document in self._documents() if document.name in names)

    def _documents(self) -> Iterator[Document]:
        whole = self._files.read(self._path.name)
        if whole.problem:
            raise DataInvalid(f"{self._path} is no word list: {whole.problem}.")
        words = filter(None, map(str.strip, whole.text.splitlines()))
        first = 1
        while block := list(islice(words, WORDS_A_DOCUMENT)):
            yield Document(str(first), "\n".join(block))
            first += len(block)


plugin = WordListLoader
