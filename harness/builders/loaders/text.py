"""Plain text: a folder of files, or one file; packed by gzip, too."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from harness.builders.loaders._files import Files
from harness.datasets.folder import DataFolder
from harness.records import Document


class TextLoader:
    """A document per file.

    path: a folder or a file.
    files: which files below the folder.
    encoding: of the texts.
    """

    def __init__(
        self, path: str, files: str = "**/*", encoding: str = "utf-8", *, data: DataFolder
    ) -> None:
        self._files = Files(data, path, (files,), encoding)

    def names(self) -> Iterator[str]:
        """The files' paths. Raises: DataMissing where there is none."""
        return self._files.names()

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """The files' texts."""
        return (self._files.read(name) for name in self._files.names() if name in names)


plugin = TextLoader
