"""What a judge has to offer, and what it may offer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from harness.records import Instance, Question, Reply, Request, Score


@runtime_checkable
class Judge(Protocol):
    """A model that scores answers. Its calls use the same cache, limits and budget as any."""

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return what to ask the judging model about an answer; pure.

        All questions, and all samples of each, are asked at the same time. Without any, the judge
        is not asked about the instance.
        """
        ...

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """Return the scores that the replies give; pure.

        A judge that needs the judged answer declares a keyword parameter ``text``.

        Args:
            instance: The instance that was answered.
            replies: One reply per sample of each question, in the same order. At least one has
                text; a refused or empty reply arrives as empty text: treat it as an abstention.

        Raises:
            harness.errors.Unparseable: The replies hold no verdict. That is never a 0.
        """
        ...


class OtherAnswers(Protocol):
    """The answers that a judge compares with."""

    def has(self, instance: Instance[Any]) -> bool:
        """Return whether there is an answer to an instance."""
        ...

    def text(self, instance: Instance[Any]) -> str | None:
        """Return the answer to an instance, or None."""
        ...

    def fingerprint(self) -> Mapping[str, str]:
        """Return which answers these are, for the manifest."""
        ...


AnswersOf = Callable[[str], OtherAnswers]
"""Look up a run's answers by its name. Raises a `harness.errors.UserError` if that is not valid."""


@runtime_checkable
class HasWarnings(Protocol):
    """A judge that knows before any call which instances it will not be able to judge."""

    def warnings(self, instances: Iterable[Instance[Any]]) -> str:
        """Return what the user should know about these instances; empty for nothing."""
        ...


@runtime_checkable
class Advising(Protocol):
    """A judge that says whether it gives verdicts. A judge without this does."""

    @property
    def verdicts(self) -> bool:
        """False if its scores are reported but never decide what passes."""
        ...


@runtime_checkable
class ByCriteria(Protocol):
    """A judge class that decides on a task's `Judged.criteria`."""

    @property
    def by_criteria(self) -> bool:
        """True if it cannot judge without criteria."""
        ...


def decides_by_criteria(judge: object) -> bool:
    """Return whether a judge, or a judge class, decides on a task's criteria."""
    return isinstance(judge, ByCriteria) and bool(judge.by_criteria)


@runtime_checkable
class Simulatable(Protocol):
    """A judge that can be tried out without a model."""

    def simulated(self, request: Request) -> str:
        """Return what a good model could reply to one of the judge's requests."""
        ...
