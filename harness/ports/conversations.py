"""Optional members of tasks with conversations of several turns."""

from collections.abc import Sequence
from typing import Protocol, TypeVar, runtime_checkable

from harness.records import Instance, Message, UserRole

D = TypeVar("D")


@runtime_checkable
class Scripted(Protocol[D]):
    """A task with conversations in which the user's turns are known before the model's answers."""

    def turns(self, instance: Instance[D]) -> int:
        """Return the number of the user's turns: 1, or more for a scripted conversation."""

    def at_turn(self, instance: Instance[D], answers: Sequence[str]) -> Instance[D]:
        """Return an instance as of a turn. ``answers`` has the answers to all earlier turns.

        The result's messages are the conversation so far, ending with the user's turn; its scores,
        criteria and reference are those of this turn's answer. Without answers, it is ``instance``.
        """


@runtime_checkable
class Played(Protocol[D]):
    """A task with conversations in which a second model plays the user after the first turn."""

    def user_role(self, instance: Instance[D]) -> UserRole | None:
        """Return the user that a model is to play, or None if no model plays the user."""

    def at_played_turn(
        self, instance: Instance[D], messages: Sequence[Message], last: bool
    ) -> Instance[D]:
        """Return an instance as of a turn of its conversation.

        ``messages`` is the conversation so far, ending with the user's turn. ``last`` says whether
        the model's next answer is its last one. The result has the scores and criteria of the next
        answer, ``instance`` those of the last answer.
        """
