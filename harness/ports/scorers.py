"""What checkers, metrics, measures of constraints and the readers of a corpus have to offer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from harness.records import Document, Instance, Score


@runtime_checkable
class Checker(Protocol):
    """A rule that scores a text."""

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Score a text; a pure function of its arguments."""
        ...


@runtime_checkable
class Metric(Protocol):
    """A score of an answer against references, such as a learned metric."""

    def fingerprint(self) -> str:
        """Everything its scores depend on, for the manifest."""
        ...

    def score(self, answer: str, references: Sequence[str]) -> float:
        """Score an answer; a pure function of its arguments."""
        ...


@runtime_checkable
class Measure(Protocol):
    """A number that a constraint uses and the grammar has no operator for (``op: measure``)."""

    def number(self, units: Sequence[str]) -> int:
        """Return the number for a text's units, without the marks around them; pure and fast."""
        ...

    def phrase(self, units: str) -> str:
        """Return what the number is called in an instruction.

        Args:
            units: The plural of the unit ("words").
        """
        ...


@runtime_checkable
class Loader(Protocol):
    """A source of documents."""

    def names(self) -> Iterator[str]:
        """Yield the documents' names in a fixed order, without reading the documents.

        Raises:
            harness.errors.UserError: The source cannot be read.
        """
        ...

    def read(self, names: Collection[str]) -> Iterator[Document]:
        """Yield the documents with these names, in the order of `names`.

        A document that cannot be read says so in its ``problem``.

        Raises:
            harness.errors.UserError: The source cannot be read.
        """
        ...


@runtime_checkable
class Filter(Protocol):
    """Decides which paragraphs and sentences of a corpus are not natural text."""

    def __call__(self, text: str) -> bool:
        """Return whether the text is dropped; pure, and in bounded time for any text."""
        ...


@runtime_checkable
class PostProcessor(Protocol):
    """Cleans the paragraphs of a corpus that passed its filters."""

    def __call__(self, text: str) -> str:
        """Return whether to drop the text; pure, and in bounded time for any text."""
        ...
