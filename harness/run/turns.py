"""Scripted conversations: the user's turns are known, and each answer has checks of its own.

A run's rounds are then turns. They are asked whatever the verdicts are, until an answer is empty
or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Protocol, cast

from harness.ports import Scripted, Task
from harness.records import Attempt, Instance, Score
from harness.run.assessment import AnswerVerdict


class RecordedRounds(Protocol):
    """Recorded attempts, such as an `AttemptIndex`."""

    def rounds(self, instance: str, sample: int, before: int) -> list[Attempt]:
        """Return a sample's attempts in the rounds before ``before``."""


@cache
def _scripts(task: type[Any]) -> bool:
    return issubclass(task, Scripted)  # takes 10 microseconds


def script_of(task: Task[Any]) -> Scripted[Any] | None:
    """Return the task if some of its conversations may be scripted, else None."""
    return cast("Scripted[Any]", task) if _scripts(type(task)) else None


def turns_of(task: Task[Any], instance: Instance[Any]) -> int:
    """Return the number of the user's turns in an instance: 1 unless they are scripted."""
    script = script_of(task)
    return 1 if script is None else script.turns(instance)


def as_of(task: Task[Any], instance: Instance[Any], answers: Sequence[str]) -> Instance[Any]:
    """Return an instance as of the turn after ``answers``, or as it is if no turns are scripted."""
    script = script_of(task)
    if script is None or not answers or script.turns(instance) == 1:
        return instance
    return script.at_turn(instance, answers)


def answered(
    task: Task[Any], instance: Instance[Any], attempt: Attempt, recorded: RecordedRounds
) -> Instance[Any]:
    """Return an instance as of the turn that a recorded attempt answers."""
    if attempt.round == 1 or turns_of(task, instance) == 1:
        return instance
    before = recorded.rounds(attempt.instance, attempt.sample, before=attempt.round)
    return as_of(task, instance, [one.text or "" for one in before])


def user_turn(task: Task[Any], instance: Instance[Any], answers: Sequence[str]) -> str:
    """Return the user's turn after ``answers`` in a scripted conversation."""
    return task.messages(as_of(task, instance, answers), ())[-1].content


def turn_verdicts(attempt: Attempt, found: AnswerVerdict) -> list[bool | None]:
    """Return the verdict on a turn's answer (None if it is missing), or [] if nothing gives one."""
    scores = [*attempt.scores.values()]
    for one in found.judgements:
        scores += one.scores.values() if one.outcome == "ok" else [Score(None)]
    known = not found.pending and all(score.value is not None for score in scores)
    return [] if known and found.passed is None else [found.passed]


def verdict_on_all(turns: Sequence[bool | None]) -> bool | None:
    """Return whether a conversation passes, given the verdicts on its turns."""
    return None if not turns or None in turns else all(turns)


def answers_by_id(
    task: Task[Any] | None,
    instances: Iterable[Instance[Any]],
    answer: Callable[[Instance[Any]], str | None] | None,
) -> Callable[..., str | None]:
    """Return a function from an instance's id to an answer.

    Its second argument has the answers to the earlier turns of a scripted conversation.
    """
    found = cache(lambda: {one.id: answer(one) for one in instances} if answer else {})
    held = cache(lambda: {one.id: one for one in instances})

    def answer_to(name: str, before: Sequence[str] = ()) -> str | None:
        if not before or answer is None or task is None:
            return found().get(name)
        return answer(as_of(task, held()[name], before))

    return answer_to
