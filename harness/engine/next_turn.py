"""The user's next turn after an answer: feedback on it, a script's turn, or a played user's.

Each strategy also has the answer scored, at the point at which it knows what the answer is to. A
played user speaks before: an answer that ends a conversation has other checks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec import UNSET
from msgspec.structs import replace

from harness.calls.keys import provider_seed
from harness.config.sections import UserSection
from harness.datasets.folder import DataFolder
from harness.engine.assessment import UNANSWERED, AnswerVerdict, Assessment, reply_outcome
from harness.engine.models import Model, ModelBuilder
from harness.engine.session import BoundModel
from harness.engine.turns import Messages, user_role, user_turn
from harness.errors import CallError, ConfigError, FatalCallError, nearest
from harness.ports import Task
from harness.prompts import ENDING, Template, conversation, named, read, read_file
from harness.records import (
    Decoding,
    Instance,
    Message,
    Origin,
    PlayedTurn,
    Reply,
    Request,
    Role,
    UserRole,
    messages_hash,
)

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
        """Have an answer scored, and return the user's next turn, or None to end the sample."""


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


@dataclass(frozen=True, slots=True)
class PlayedTurns:
    """Has a model play the user."""

    task: Task[Any]
    instance: Instance[Any]
    user: PlayedUser

    async def next_turn(self, answer: AnsweredTurn) -> str | None:
        """Return the played user's next turn, unless the user or the answer ends the conversation.

        Raises:
            UserTurnMissing: If the model that plays the user fails.
        """
        turn: str | None = None
        fields: dict[str, Any] = {}
        if not answer.last and reply_outcome(answer.reply) not in UNANSWERED:
            conversation = (*answer.messages, Message("assistant", answer.reply.text))
            turn, record, problem = await self.user.next_turn(
                self.instance, conversation, answer.origin
            )
            fields["user"] = UNSET if record is None else (record,)
            if problem:
                raise UserTurnMissing(problem, fields)
        ends = turn is None
        fields |= {"feedback": turn, "turns": answer.origin.round + (not ends)}
        turn_instance = self.task.at_played_turn(self.instance, answer.messages, last=ends)
        await answer.score(turn_instance, **fields)
        return turn


# The user of a conversation, played by a second model with a goal.
# The model sees the conversation from the user's side, with the roles exchanged and without the
# system message of the evaluated model.

INVERTED: dict[Role, Role] = {"assistant": "user", "user": "assistant"}
SIMULATED_TURNS = 2  # that a simulated user writes before it ends the conversation


class NextTurn(NamedTuple):
    """The user's turn after an answer, without text if the conversation has ended or failed."""

    text: str | None = None
    record: PlayedTurn | None = None  # None if the call failed
    problem: str = ""  # why the user's turn is missing


class UserModel(NamedTuple):
    """The configured model that plays the user, with its prompt."""

    section: UserSection
    model: Model
    prompt: Template
    seed: int | None = None  # of the run

    def request(self, role: UserRole, messages: Sequence[Message], origin: Origin) -> Request:
        """Return the request for the user's next turn in a conversation."""
        fields = {"goal": role.goal, "persona": role.persona, "stop": self.section.stop}
        sent = [*conversation(self.prompt, fields)]
        for message in messages:
            if message.role != "system":
                sent.append(Message(INVERTED[message.role], message.content))
        decoding = Decoding(self.section.temperature, self.section.max_tokens)
        decoding = self.model.supported(decoding, "The played user", "Choose another model.")
        seed = None
        unsent_seed = self.seed
        if unsent_seed is not None and "seed" in self.model.backend.features:
            seed = provider_seed(unsent_seed, messages_hash(sent), origin.sample)
            unsent_seed = None
        return Request(
            self.model.section.name,
            tuple(sent),
            decoding,
            origin.sample,
            origin,
            seed,
            unsent_seed=unsent_seed,
        )


def build_user(section: UserSection, builder: ModelBuilder, seed: int | None) -> UserModel:
    """Build the model that plays the user, from its section and the run's ``seed``."""

    def simulated(request: Request) -> str:
        n = sum(message.role == "assistant" for message in request.messages)
        return f"Please go on. ({n})" if n <= SIMULATED_TURNS else section.stop

    task = builder.task
    if task is None or not any(user_role(task, instance) for instance in builder.instances):
        problem = "user is set, but no instance has a user that a model plays."
        remedy = "Give rows a user with a goal (harness docs jsonl), or remove user."
        raise ConfigError(problem, remedy)
    model = builder.build(section.model, "user.model", simulated)
    if model.backend.cacheable and not section.model.name:
        raise ConfigError("user.model.name is missing.", "Name the model that plays the user.")
    if "conversation" not in model.backend.features:
        problem = f"user.model: the backend {section.model.backend!r} accepts a single prompt."
        raise ConfigError(problem, "Use a backend with a chat API (harness docs providers).")
    if "/" in section.prompt or section.prompt.endswith(ENDING):
        data = DataFolder(builder.resources.settings.data_dir, builder.beside)
        prompt = read_file(Path(data.own(section.prompt)), "user.prompt")
    elif f"user/{section.prompt}" in named("user"):
        prompt = read(f"user/{section.prompt}")
    else:
        prompts = [name.removeprefix("user/") for name in named("user")]
        problem = f"user.prompt: there is no prompt {section.prompt!r:.60}. A path needs a slash."
        raise ConfigError(problem, nearest(section.prompt, prompts))
    prompt.refuse_unknown({"goal", "persona", "stop"})
    user = UserModel(section, model, prompt, seed)
    user.request(UserRole("goal"), (), Origin("", 0, 1))
    return user


class PlayedUser:
    """A model that writes the user's turns in the conversations of a run."""

    def __init__(self, task: Task[Any], user: UserModel, bound: BoundModel) -> None:
        self._task = task
        self._user = user
        self._bound = bound

    async def next_turn(
        self, instance: Instance[Any], messages: Sequence[Message], origin: Origin
    ) -> NextTurn:
        """Return the user's next turn in a conversation whose last message is an answer.

        Raises:
            FatalCallError: If the failure of the call ends the run.
        """
        role = user_role(self._task, instance)
        assert role is not None, "checked when the run was planned"
        try:
            call = await self._bound.call(self._user.request(role, messages, origin))
        except FatalCallError:
            raise
        except CallError as error:
            return NextTurn(problem=f"The played user: {type(error).__name__}: {error}")
        reply = call.reply
        cost = self._bound.model.cost(reply)
        record = PlayedTurn(call.id, reply.usage, cost, call.cached)
        if (outcome := reply_outcome(reply)) in UNANSWERED:
            return NextTurn(None, record, f"The played user's turn is {outcome}.")
        if self._user.section.stop in reply.text:
            ends = reply.text.strip()
            return NextTurn(None, replace(record, ends=ends))
        return NextTurn(reply.text.strip(), record)
