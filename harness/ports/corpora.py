"""What a build reads a corpus with: loaders, filters, post-processors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from harness.records import Document


class Loader(Protocol):
    """Where the documents of a corpus come from."""

    def names(self) -> Iterator[str]:
        """The name of each document, always in the same order, as cheaply as it can be told.

        Raises: `harness.errors.UserError`.
        """
        ...

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """The documents of these names, in the order of `names`.

        Raises: `harness.errors.UserError`; a document that cannot be read says so itself.
        """
        ...


class Filter(Protocol):
    """Says which paragraphs and sentences of a corpus are no natural text."""

    def __call__(self, text: str) -> bool:
        """Whether it is left out: pure, and in bounded time for any text."""
        ...


class PostProcessor(Protocol):
    """Cleans the paragraphs of a corpus that its filters have let through."""

    def __call__(self, text: str) -> str:
        """The text without what is no part of it: pure, and in bounded time for any text."""
        ...
