"""Conversations: the user's turns are scripted or played, and each turn has separate checks.

A run's rounds are then turns. They continue regardless of verdicts, until an answer is empty or
refused, or until a played user ends the conversation.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Protocol

from msgspec import convert

from harness.engine.assessment import AnswerVerdict, Assessment, assess
from harness.ports import Task
from harness.records import Attempt, Instance, Message, Reply, Score, UserRole


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
        for one in before:
            messages = continued(messages, one.text or "", one.feedback or "")
        return task.at_played_turn(instance, messages, last=attempt.turns == attempt.round)
    return as_of(task, instance, [one.text or "" for one in before])


def user_turn(task: Task[Any], instance: Instance[Any], answers: Sequence[str]) -> str:
    """Return the user's scripted turn after ``answers``."""
    return task.messages(as_of(task, instance, answers), ())[-1].content


def continued(messages: Messages, answer: str, turn: str, state: str | None = None) -> Messages:
    """Return the messages followed by the answer, unless it is blank, and the user's turn."""
    said = (Message("assistant", answer, state),) if answer.strip() else ()
    return (*messages, *said, Message("user", turn))


def turn_verdicts(attempt: Attempt, found: AnswerVerdict) -> list[bool | None]:
    """Return a list with a turn's verdict (None: missing), or [] if nothing gives a verdict."""
    scores = [*attempt.scores.values()]
    for one in found.judgements:
        scores += one.scores.values() if one.outcome == "ok" else [Score(None)]
    known = not found.pending and all(score.value is not None for score in scores)
    return [] if known and found.passed is None else [found.passed]


def verdict_on_all(turns: Sequence[bool | None]) -> bool | None:
    """Return whether all turns pass, or None if a verdict is missing or there are no turns."""
    return None if not turns or None in turns else all(turns)


def answers_by_id(
    task: Task[Any] | None,
    instances: Iterable[Instance[Any]],
    answer: Callable[[Instance[Any]], str | None] | None,
) -> Callable[..., str | None]:
    """Return ``answer`` as a function of an instance's id and the earlier answers."""
    found = cache(lambda: {one.id: answer(one) for one in instances} if answer else {})
    held = cache(lambda: {one.id: one for one in instances})

    def answer_to(name: str, before: Sequence[str] = ()) -> str | None:
        if not before or answer is None or task is None:
            return found().get(name)
        return answer(as_of(task, held()[name], before))

    return answer_to


def assessed_references(
    task: Task[Any], instances: Iterable[Instance[Any]]
) -> Iterator[tuple[str, Assessment]]:
    """Yield the assessment of each reference answer that rules can score, and what it answers.

    This is an instance's id, with the turn if there are several.
    """
    for instance in instances:
        given: list[str] = []
        for turn in range(turns := task.turns(instance)):
            asked = as_of(task, instance, given)
            reference = task.expected_answer(asked)
            given.append(reference or "")
            if reference is None:
                continue
            found = assess(task, asked, Reply(reference, "stop"))
            if found.passed is None and not found.scores:  # no rule applies: only judges decide
                continue
            yield instance.id if turns == 1 else f"{instance.id}, turn {turn + 1}", found
