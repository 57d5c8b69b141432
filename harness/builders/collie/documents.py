"""The documents of a source that a build takes: drawn by a hash of their names, read in batches."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator
from typing import Any

import msgspec

from harness.builders.collie.source import Source
from harness.datasets.folder import DataFolder
from harness.plugins import calling, kind
from harness.ports import Loader
from harness.records import Document

MOST_DOCUMENTS = 256
MOST_CHARACTERS = 1_000_000
"""Of a batch, but a document is never parted."""


class Documents:
    """The chosen documents of a source.

    available: how many there are to choose from.
    chosen: how many were.

    Raises: a `harness.errors.UserError` where the source has none, or cannot be read.
    """

    def __init__(self, source: Source, seed: int, data: DataFolder) -> None:
        name, options = source.loader()
        self._called = f"The loader {name!r} of {source.name}"
        with calling(self._called):
            self._loader: Loader = kind("loaders").build(name, options, data=data)
        self._digest = hashlib.sha256()
        self.available = 0
        key = f"{seed} documents".encode()

        def hashed(name: str) -> bytes:
            content = name.encode("utf-8", "surrogatepass")  # a file's name may be no UTF-8
            return hashlib.blake2b(content, key=key, digest_size=8).digest()

        def counted() -> Iterator[str]:
            with calling(self._called):
                for name in self._loader.names():
                    self.available += 1
                    yield name

        most = source.documents
        self._names = set(counted() if most is None else heapq.nsmallest(most, counted(), hashed))
        self.chosen = len(self._names)

    @property
    def sha256(self) -> str:
        """Of the names and texts of those that were read so far."""
        return self._digest.hexdigest()

    def batches(self) -> Iterator[list[Document]]:
        """The chosen documents in the order of the source, some at a time.

        Raises: as the source's loader; ConfigError where that fails.
        """
        batch: list[Document] = []
        characters = 0
        for document in self._read():
            if batch and (
                len(batch) >= MOST_DOCUMENTS or characters + len(document.text) > MOST_CHARACTERS
            ):
                yield batch
                batch, characters = [], 0
            batch.append(document)
            characters += len(document.text)
        if batch:
            yield batch

    def _read(self) -> Iterator[Document]:
        with calling(self._called):
            for document in self._loader.read(self._names):
                self._digest.update(f"{document.name}\0{len(document.text)}\0".encode())
                self._digest.update(document.text.encode())
                msgspec.json.encode(document.about)  # is kept with each instance
                yield document


def described(source: Source) -> dict[str, Any]:
    """A source as plain data, as its file could have it."""
    return source.model_dump(mode="json", by_alias=True)
