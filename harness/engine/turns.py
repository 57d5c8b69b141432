"""Conversations: the user's turns are scripted or played, and each turn has separate checks.

A run's rounds are then turns. They continue regardless of verdicts, until an answer is empty or
refused, or until a played user ends the conversation.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol

from msgspec import convert

from harness.engine.assessment import AnswerVerdict, Assessment
from harness.ports import Task
from harness.records import (
    Attempt,
    Instance,
    Message,
    Origin,
    Reply,
    Rewriting,
    Score,
    UserRole,
    extend_conversation,
)


class RecordedRounds(Protocol):
    """Recorded attempts, such as an `AttemptIndex`."""

    def rounds(self, instance: str, sample: int, before: int) -> list[Attempt]:
        """Return a sample's attempts in the rounds before ``before``."""


Messages = tuple[Message, ...]


def user_role(task: Task[Any], instance: Instance[Any]) -> UserRole | None:
    """Return the user that a model plays in an instance, or None."""
    role = task.user_role(instance)
    return None if role is None or role.max_turns == 1 else role


def most_turns(task: Task[Any], instance: Instance[Any]) -> int:
    """Return the highest possible number of the user's turns."""
    role = user_role(task, instance)
    return task.turns(instance) if role is None else role.max_turns


def as_of(task: Task[Any], instance: Instance[Any], answers: Sequence[str]) -> Instance[Any]:
    """Return an instance as of the turn after ``answers``, or unchanged if it is not scripted."""
    if not answers or task.turns(instance) == 1:
        return instance
    return task.at_turn(instance, answers)


def answered(
    task: Task[Any], instance: Instance[Any], attempt: Attempt, recorded: RecordedRounds
) -> Instance[Any]:
    """Return an instance as of the turn that a recorded attempt answers."""
    role = user_role(task, instance)
    if role is None and (attempt.round == 1 or task.turns(instance) == 1):
        return instance
    before = recorded.rounds(attempt.instance, attempt.sample, before=attempt.round)
    if role is not None:
        messages = convert((before or [attempt])[0].request["messages"], Messages)
        for earlier in before:
            messages = extend_conversation(messages, earlier.text or "", earlier.feedback or "")
        return task.at_played_turn(instance, messages, last=attempt.turns == attempt.round)
    return as_of(task, instance, [earlier.text or "" for earlier in before])


def user_turn(task: Task[Any], instance: Instance[Any], answers: Sequence[str]) -> str:
    """Return the user's scripted turn after ``answers``."""
    return task.messages(as_of(task, instance, answers), ())[-1].content


def turn_verdicts(attempt: Attempt, verdict: AnswerVerdict) -> list[bool | None]:
    """Return a list with a turn's verdict (None: missing), or [] if nothing gives a verdict."""
    if verdict.passed is not None or verdict.pending:
        return [verdict.passed]
    scores = [*attempt.scores.values()]
    for judgement in verdict.judgements:
        scores += judgement.scores.values() if judgement.outcome == "ok" else [Score(None)]
    is_missing = any(score.value is None for score in scores)
    return [None] if is_missing else []


def verdict_on_all(turns: Sequence[bool | None]) -> bool | None:
    """Return whether all turns pass, or None if a verdict is missing or there are no turns."""
    return None if not turns or None in turns else all(turns)


def answers_by_id(
    task: Task[Any] | None,
    instances: Iterable[Instance[Any]],
    answer: Callable[[Instance[Any]], str | None] | None,
) -> Callable[..., str | None]:
    """Return ``answer`` as a function of an instance's id and the earlier answers."""

    @cache
    def answers() -> dict[str, str | None]:
        return {instance.id: answer(instance) for instance in instances} if answer else {}

    @cache
    def by_id() -> dict[str, Instance[Any]]:
        return {instance.id: instance for instance in instances}

    def answer_to(name: str, before: Sequence[str] = ()) -> str | None:
        if not before or answer is None or task is None:
            return answers().get(name)
        return answer(as_of(task, by_id()[name], before))

    return answer_to


# A played user speaks before an answer is scored: one that ends a conversation has other checks.

ScoreAnswer = Callable[..., Awaitable[tuple[Assessment, AnswerVerdict]]]
"""A function that has an answer scored, as one to the given instance as of a turn.

Further arguments, by name, are fields of the attempt.
"""


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """An answer of a sample, which is not scored yet."""

    instance: Instance[Any]  # as of its turn
    messages: Messages  # that it answers
    reply: Reply
    origin: Origin
    last: bool  # whether no further answer may follow
    answers: Sequence[str]  # of the sample so far, including this one
    score: ScoreAnswer


class UserTurnMissing(Exception):
    """The model that plays the user has failed, so that the answer cannot be scored either."""

    def __init__(self, problem: str, fields: dict[str, Any]) -> None:
        super().__init__(problem)
        self.problem = problem
        self.fields = fields  # of the attempt


class UserTurns(Protocol):
    """The turns of a played user in a sample."""

    async def next_turn(self, answer: AnsweredTurn) -> str | None:
        """Have an answer scored, and return the user's next turn, or None to end the sample.

        Raises:
            UserTurnMissing: If the model that plays the user fails.
        """


class Rewriter(Protocol):
    """Rewrites a run's instructions and feedback."""

    async def rewrite(
        self,
        text: str,
        kind: Literal["instruction", "feedback"],
        instance: Instance[Any],
        origin: Origin,
    ) -> tuple[str, Rewriting]:
        """Return the paraphrase, or else the original text, and a record of the call."""
