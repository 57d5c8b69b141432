"""What a judge must offer, and may."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from harness.records import Instance, Question, Reply, Request, Score


class Judge(Protocol):
    """A model that scores a text, through the same call stack as any model."""

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """What to ask the judging model about this answer: a pure function.

        All questions, and all samples of each, are asked at the same time. None are asked if the
        judge has nothing to say about the instance.
        """
        ...

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """What the replies say, in the order of the questions and their samples.

        At least one says something; one that was refused or is empty has an empty text: where
        several were asked for, that one abstains.

        One that has a keyword parameter ``text`` is given the judged text, too.

        Pure. Raises: `harness.errors.Unparseable` where they hold no verdict: that is never a 0.
        """
        ...


class OtherAnswers(Protocol):
    """Answers that a judge compares with."""

    def has(self, instance: Instance[Any]) -> bool:
        """Whether there is one to an instance."""
        ...

    def text(self, instance: Instance[Any]) -> str | None:
        """The one to an instance; None where there is none."""
        ...

    def fingerprint(self) -> Mapping[str, str]:
        """Which answers these are, for the manifest."""
        ...


AnswersOf = Callable[[str], OtherAnswers]
"""Those of a run by its name. Raises: `harness.errors.UserError` where it cannot be compared."""


class Foretelling(Protocol):
    """A judge that can tell, before it is asked, of what it will not be able to judge."""

    def foretold(self, instances: Iterable[Instance[Any]]) -> str:
        """What the user is to know of these instances; empty where there is nothing."""
        ...


class Advising(Protocol):
    """A judge that says whether it decides with the rules on what passed. Without this, it does."""

    @property
    def verdicts(self) -> bool:
        """False: its scores stand beside the verdict, whatever they say."""
        ...


class ByCriteria(Protocol):
    """A judge that decides on what a task's `criteria` say. The class's, as of `Claiming`."""

    @property
    def by_criteria(self) -> bool:
        """True: it can decide on nothing without."""
        ...


class Simulatable(Protocol):
    """A judge that can be tried out without a model."""

    def simulated(self, request: Request) -> str:
        """What a good model could reply to one of its requests, for the simulated backend."""
        ...
