"""Plain text: a folder of files, or one file; packed with gzip or not."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from harness.builders.loaders._documents import Files
from harness.datasets.folder import DataFolder
from harness.records import Document


class TextLoader:
    """A document per file.

    Args:
        path: A folder or a file.
        files: A glob below the folder.
        encoding: Encoding of the texts.
    """

    def __init__(
        self, path: str, files: str = "**/*", encoding: str = "utf-8", *, data: DataFolder
    ) -> None:
        self._files = Files(data, path, files, encoding)

    def names(self) -> Iterator[str]:
        """Yield the files' paths.

        Raises:
            DataMissing: There are none.
        """
        return self._files.names()

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Return the files' texts."""
        return self._files.read_chosen(names)


plugin = TextLoader
