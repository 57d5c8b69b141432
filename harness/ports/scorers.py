"""What scores an answer without a model: checkers, metrics, measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from harness.records import Instance, Score


class Checker(Protocol):
    """A rule that scores a text."""

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Score the text: a pure function of its arguments."""
        ...


class Metric(Protocol):
    """A measure of an answer against references: a learned one, say."""

    def fingerprint(self) -> str:
        """What its scores depend on, for the manifest."""
        ...

    def score(self, answer: str, references: Sequence[str]) -> float:
        """A pure function of its arguments."""
        ...


class Measure(Protocol):
    """A number that a constraint may ask for and the grammar has no word for (`op: measure`)."""

    def number(self, units: Sequence[str]) -> int:
        """Of a text's units, marks around them cut off: pure, and quick for any text."""
        ...

    def phrase(self, units: str) -> str:
        """What it is in an instruction.

        units: what they are called ("words").
        """
        ...
