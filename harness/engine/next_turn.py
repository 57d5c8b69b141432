"""The user's next turn after an answer: feedback on it, a script's turn, or a played user's.

Each strategy also has the answer scored, at the point at which it knows what the answer is to. A
played user speaks before: an answer that ends a conversation has other checks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.config.sections import UserSection
from harness.engine.assessment import UNANSWERED, AnswerVerdict, Assessment
from harness.engine.models import Model
from harness.engine.session import BoundModel
from harness.engine.turns import Messages, user_turn
from harness.ports import Task
from harness.prompts import Template
from harness.records import Instance, Message, Origin, Reply, Request, UserRole

FindFeedback = Callable[[Instance[Any], Reply, Assessment, AnswerVerdict], Awaitable[str | None]]
"""A function that returns feedback on an answer, or None if there is none."""


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


class TurnStrategy(Protocol):
    """A strategy that finds the user's next turn in a sample."""

    async def next_turn(self, answer: AnsweredTurn) -> str | None:
        """Have an answer scored, and return the user's next turn, or None to end the sample.

        Raises:
            UserTurnMissing: If the model that plays the user fails.
        """


class PlayedUser(Protocol):
    """The configured model that plays the user in conversations.

    A package declares, as ``user`` of its `section_builders`, a function that returns one, given
    the section, the run's `ModelBuilder` and its seed.
    """

    @property
    def section(self) -> UserSection:
        """The section of the run file."""

    @property
    def model(self) -> Model:
        """The model."""

    @property
    def prompt(self) -> Template:
        """The prompt."""

    def request(self, role: UserRole, messages: Sequence[Message], origin: Origin) -> Request:
        """Return the request for the user's next turn in a conversation."""

    def turns(self, task: Task[Any], bound: BoundModel, instance: Instance[Any]) -> TurnStrategy:
        """Return the strategy for an instance, given the model with its call stack."""


@dataclass(frozen=True, slots=True)
class FeedbackTurns:
    """Gives feedback, until an answer passes if ``stop_on_pass``."""

    find: FindFeedback
    stop_on_pass: bool

    async def next_turn(self, answer: AnsweredTurn) -> str | None:
        """Return feedback on an answer, unless it is the last one, passes or cannot be scored."""
        assessment, verdict = await answer.score(answer.instance)
        passed = verdict.passed is True and self.stop_on_pass
        if answer.last or passed or assessment.unscored:
            return None
        return await self.find(answer.instance, answer.reply, assessment, verdict)


@dataclass(frozen=True, slots=True)
class ScriptedTurns:
    """Continues with the turns of an instance's script."""

    task: Task[Any]
    instance: Instance[Any]

    async def next_turn(self, answer: AnsweredTurn) -> str | None:
        """Return the script's next turn, unless there is none or an answer is missing."""
        assessment, _ = await answer.score(answer.instance)
        if answer.last or assessment.outcome in UNANSWERED:
            return None
        return user_turn(self.task, self.instance, answer.answers)
