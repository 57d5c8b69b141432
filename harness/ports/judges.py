"""Judges, which score answers by asking a model, and their optional members."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from harness.records import Instance, Question, Reply, Request, Score


@runtime_checkable
class Judge(Protocol):
    """A scorer of answers that asks a model. Its calls use the run's cache, limits and budget."""

    def questions(self, instance: Instance[Any], text: str) -> Sequence[Question]:
        """Return the questions to ask the judge's model about an answer. Must be a pure function.

        If there are no questions, `parse` gets no replies, and may still return scores.
        """

    def parse(self, instance: Instance[Any], replies: Sequence[Reply]) -> Mapping[str, Score]:
        """Return the scores in the replies, by name. Must be a pure function.

        There is one reply per sample of each question, in the same order. Unless there are no
        questions, at least one reply has text. A refused or empty reply arrives as empty text,
        which should be treated as an abstention. If the replies contain no verdict, raise
        `harness.errors.Unparseable`, and never score 0. A judge that needs the judged answer
        declares a further parameter, ``text``.
        """


@runtime_checkable
class Conversing(Protocol):
    """A judge whose further questions depend on the replies, as in a conversation."""

    def next_questions(
        self, instance: Instance[Any], text: str, replies: Sequence[Reply]
    ) -> Sequence[Question]:
        """Return the questions that follow these replies, or () if `parse` can read the replies.

        Must be a pure function. There is one reply per sample of each question so far, in order. If
        a call fails, nothing more is asked.
        """


class OtherAnswers(Protocol):
    """Another run's answers, which a judge compares with those of this run."""

    def has(self, instance: Instance[Any]) -> bool:
        """Return whether there is an answer to an instance."""

    def text(self, instance: Instance[Any]) -> str | None:
        """Return the answer to an instance, or None if there is none."""

    def fingerprint(self) -> Mapping[str, str]:
        """Return hashes that identify these answers, by name."""


AnswersOf = Callable[[str], OtherAnswers]
"""A function that maps a run's name to its answers. It raises a `UserError` if it cannot."""


@runtime_checkable
class HasWarnings(Protocol):
    """A judge that can tell, before any call, which instances it cannot judge."""

    def warnings(self, instances: Iterable[Instance[Any]]) -> str:
        """Return warnings about these instances for the user, or "" if there are none."""


@runtime_checkable
class Advising(Protocol):
    """A judge that declares whether it gives verdicts. Judges without this member give verdicts."""

    @property
    def verdicts(self) -> bool:
        """Whether the judge's scores decide which answers pass."""


@runtime_checkable
class ByCriteria(Protocol):
    """A judge class that gives verdicts on the criteria of a task (`Judged.criteria`)."""

    @property
    def by_criteria(self) -> bool:
        """Whether the judge needs a task with criteria."""


def decides_by_criteria(judge: object) -> bool:
    """Return whether a judge or judge class gives verdicts on a task's criteria."""
    return isinstance(judge, ByCriteria) and bool(judge.by_criteria)


@runtime_checkable
class Simulatable(Protocol):
    """A judge that can write its model's replies itself, for simulated runs."""

    def simulated(self, request: Request) -> str:
        """Return a reply that a good model could give to a request of this judge."""
