"""The checks for tasks look at every turn of a conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from harness.plugin import Task
from harness.plugins.testing import check_task
from harness.records import Instance, Message, Score


class Talks(Task[Any]):
    """A task with conversations of two turns: a number, and the number after it."""

    on_truncated = "fail"

    def instances(self) -> Iterator[Instance[Any]]:
        yield from (Instance(str(n), (n, ())) for n in (3, 5))

    def fingerprint(self) -> dict[str, str]:
        return {"dataset": "talks"}

    def messages(self, instance: Instance[Any], shots: Any) -> tuple[Message, ...]:
        number, answers = instance.data
        said = [Message("user", f"Say {number}.")]
        for answer in answers:
            said += [Message("assistant", answer), Message("user", "And the next?")]
        return tuple(said)

    def turns(self, instance: Instance[Any]) -> int:
        return 2

    def at_turn(self, instance: Instance[Any], answers: Sequence[str]) -> Instance[Any]:
        return replace(instance, data=(instance.data[0], tuple(answers)))

    def reference(self, instance: Instance[Any]) -> str:
        return str(instance.data[0] + len(instance.data[1]))

    def score(self, instance: Instance[Any], text: str) -> dict[str, Score]:
        right = text == self.reference(instance)
        return {"right": Score(right, right)}

    def feedback(self, instance: Instance[Any], text: str, scores: Any) -> str:
        return "No."


class ScoresFirstTurn(Talks):
    """The second answer is scored like the first."""

    def score(self, instance: Instance[Any], text: str) -> dict[str, Score]:
        right = text == str(instance.data[0])
        return {"right": Score(right, right)}


class Forgets(Talks):
    """The second turn does not have the first answer."""

    def messages(self, instance: Instance[Any], shots: Any) -> tuple[Message, ...]:
        first, *later = super().messages(instance, shots)
        return (first, *later[1:])


class Stays(Talks):
    """The second turn is the first."""

    def at_turn(self, instance: Instance[Any], answers: Sequence[str]) -> Instance[Any]:
        return instance


def test_every_turn_of_a_conversation_is_checked() -> None:
    assert check_task(Talks()) == []


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        (ScoresFirstTurn(), "reference '4' of '3' does not pass."),
        (Forgets(), "at_turn does not repeat the conversation so far, with the latest answer,"),
        (Stays(), "at_turn does not repeat the conversation so far"),
    ],
)
def test_a_mistake_in_a_later_turn_is_found(task: Talks, problem: str) -> None:
    assert any(problem in one for one in check_task(task))
