"""Conversations: the user's turns are scripted or played by a model, and have separate checks.

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
    """Return the role of the user that a model plays in an instance, or None if there is none."""
    role = task.user_role(instance)
    return None if role is None or role.max_turns == 1 else role


def max_turns(task: Task[Any], instance: Instance[Any]) -> int:
    """Return the maximum number of the user's turns in an instance."""
    role = user_role(task, instance)
    return task.turns(instance) if role is None else role.max_turns


def instance_at_turn(
    task: Task[Any], instance: Instance[Any], answers: Sequence[str]
) -> Instance[Any]:
    """Return the instance of the scripted turn after ``answers``.

    An instance without a script is returned unchanged.
    """
    if not answers or task.turns(instance) == 1:
        return instance
    return task.at_turn(instance, answers)


def instance_of_attempt(
    task: Task[Any], instance: Instance[Any], attempt: Attempt, recorded: RecordedRounds
) -> Instance[Any]:
    """Return the instance of the turn that a recorded attempt answers.

    Args:
        task: The task.
        instance: The instance of the whole conversation.
        attempt: The attempt.
        recorded: The run's recorded attempts.
    """
    role = user_role(task, instance)
    if role is None and (attempt.round == 1 or task.turns(instance) == 1):
        return instance
    earlier_attempts = recorded.rounds(attempt.instance, attempt.sample, before=attempt.round)
    if role is None:
        answers = [earlier.text or "" for earlier in earlier_attempts]
        return instance_at_turn(task, instance, answers)
    first = earlier_attempts[0] if earlier_attempts else attempt
    messages = convert(first.request["messages"], Messages)
    for earlier in earlier_attempts:
        messages = extend_conversation(messages, earlier.text or "", earlier.feedback or "")
    return task.at_played_turn(instance, messages, last=attempt.turns == attempt.round)


def scripted_turn(task: Task[Any], instance: Instance[Any], answers: Sequence[str]) -> str:
    """Return the user's scripted turn after ``answers``."""
    return task.messages(instance_at_turn(task, instance, answers), ())[-1].content


def turn_verdicts(attempt: Attempt, verdict: AnswerVerdict) -> list[bool | None]:
    """Return the verdict on a turn in a list: None if it is missing, [] if nothing decides."""
    if verdict.passed is not None or verdict.pending:
        return [verdict.passed]
    scores = [*attempt.scores.values()]
    for judgement in verdict.judgements:
        scores += judgement.scores.values() if judgement.outcome == "ok" else [Score(None)]
    is_missing = any(score.value is None for score in scores)
    return [None] if is_missing else []


def conversation_verdict(turns: Sequence[bool | None]) -> bool | None:
    """Return whether all turns pass, or None if a verdict is missing or there are no turns."""
    if not turns or None in turns:
        return None
    return all(turns)


def answer_lookup(
    task: Task[Any] | None,
    instances: Iterable[Instance[Any]],
    answer: Callable[[Instance[Any]], str | None] | None,
) -> Callable[..., str | None]:
    """Return a function that returns a known answer, such as the reference, or None.

    The function takes an instance's id and the earlier answers of the conversation.

    Args:
        task: The task, or None without one.
        instances: The task's instances, which are read on the first call.
        answer: Returns the answer to an instance of a turn. None: no answer is known.
    """

    @cache
    def first_answers() -> dict[str, str | None]:
        return {instance.id: answer(instance) for instance in instances} if answer else {}

    @cache
    def instances_by_id() -> dict[str, Instance[Any]]:
        return {instance.id: instance for instance in instances}

    def look_up(instance_id: str, earlier_answers: Sequence[str] = ()) -> str | None:
        if not earlier_answers or answer is None or task is None:
            return first_answers().get(instance_id)
        return answer(instance_at_turn(task, instances_by_id()[instance_id], earlier_answers))

    return look_up


# A played user speaks before an answer is scored, because the checks of the last answer of a
# conversation differ.

ScoreAnswer = Callable[..., Awaitable[tuple[Assessment, AnswerVerdict]]]
"""Scores an answer to the instance of a turn. Keyword arguments are fields of the attempt."""


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """An answer of a sample, which is not scored yet."""

    instance: Instance[Any]  # of its turn
    messages: Messages  # the conversation before the answer
    reply: Reply
    origin: Origin
    last: bool  # whether no further answer may follow
    answers: Sequence[str]  # of the sample so far, including this one
    score: ScoreAnswer


class UserTurnMissing(Exception):
    """The model that plays the user has failed, so the answer cannot be scored either.

    Args:
        problem: What failed.
        fields: Fields of the attempt, by name.
    """

    def __init__(self, problem: str, fields: dict[str, Any]) -> None:
        super().__init__(problem)
        self.problem = problem
        self.fields = fields


class UserTurns(Protocol):
    """The turns of a played user in a sample."""

    async def next_turn(self, answer: AnsweredTurn) -> str | None:
        """Score an answer, and return the user's next turn, or None to end the sample.

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
        """Return a paraphrase of ``text``, or ``text`` if that fails, and a record of the call."""
