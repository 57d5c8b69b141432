"""The user of a conversation, played by a second model with a goal.

The model sees the conversation from the user's side, with the roles exchanged and without the
system message of the evaluated model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from harness.calls.keys import provider_seed
from harness.config.sections import UserSection
from harness.datasets.folder import DataFolder
from harness.engine.assessment import UNANSWERED, reply_outcome
from harness.engine.models import Model, ModelBuilder
from harness.engine.session import BoundModel
from harness.engine.turns import AnsweredTurn, UserTurnMissing, user_role
from harness.errors import CallError, ConfigError, FatalCallError, suggest_name
from harness.ports import Task
from harness.prompts import (
    SUFFIX,
    Template,
    prompt_names,
    read_builtin,
    read_file,
    render_conversation,
)
from harness.records import (
    Decoding,
    Instance,
    Message,
    Origin,
    PlayedTurn,
    Request,
    Role,
    UserRole,
    messages_hash,
)

INVERTED: dict[Role, Role] = {"assistant": "user", "user": "assistant"}
SIMULATED_TURNS = 2  # that a simulated user writes before it ends the conversation


@dataclass(frozen=True, slots=True)
class UserModel:
    """The configured model that plays the user, with its prompt."""

    section: UserSection
    model: Model
    prompt: Template
    seed: int | None = None  # of the run

    def request(self, role: UserRole, messages: Sequence[Message], origin: Origin) -> Request:
        """Return the request for the user's next turn in a conversation."""
        decoding = self.model.supported_decoding(
            Decoding(self.section.temperature, self.section.max_tokens),
            "The played user",
            "Choose another model.",
        )
        fields = {"goal": role.goal, "persona": role.persona, "stop": self.section.stop}
        sent = render_conversation(self.prompt, fields)
        for message in messages:
            if message.role != "system":
                sent = (*sent, Message(INVERTED[message.role], message.content))
        seed: int | None = None
        unsent_seed = self.seed
        if self.seed is not None and "seed" in self.model.backend.features:
            seed = provider_seed(self.seed, messages_hash(sent), origin.sample)
            unsent_seed = None
        name = self.model.section.name
        return Request(name, sent, decoding, origin.sample, origin, seed, unsent_seed=unsent_seed)

    def turns(self, task: Task[Any], bound: BoundModel, instance: Instance[Any]) -> PlayedTurns:
        """Return the user's turns for an instance, given the model with its call stack."""
        role = user_role(task, instance)
        assert role is not None, "checked when the run was planned"
        return PlayedTurns(self, task, bound, instance, role)


@dataclass(frozen=True, slots=True)
class PlayedTurns:
    """Has a model play the user of an instance."""

    user: UserModel
    task: Task[Any]
    bound: BoundModel  # the user's model
    instance: Instance[Any]
    role: UserRole

    async def next_turn(self, answer: AnsweredTurn) -> str | None:
        """Return the played user's next turn, unless the user or the answer ends the conversation.

        Raises:
            FatalCallError: If the failure of the call ends the run.
            UserTurnMissing: If the model that plays the user fails.
        """
        turn: str | None = None
        fields: dict[str, Any] = {}
        if not answer.last and reply_outcome(answer.reply) not in UNANSWERED:
            messages = (*answer.messages, Message("assistant", answer.reply.text))
            turn, record = await self._ask(messages, answer.origin)
            fields["user"] = (record,)
        over = turn is None
        fields["feedback"] = turn
        fields["turns"] = answer.origin.round + (not over)
        at_turn = self.task.at_played_turn(self.instance, answer.messages, last=over)
        await answer.score(at_turn, **fields)
        return turn

    async def _ask(
        self, messages: Sequence[Message], origin: Origin
    ) -> tuple[str | None, PlayedTurn]:
        """Return the next turn, or None if the user ends the conversation, and its record."""
        request = self.user.request(self.role, messages, origin)
        try:
            call = await self.bound.call(request)
        except FatalCallError:
            raise
        except CallError as error:
            problem = f"The played user: {type(error).__name__}: {error}"
            raise UserTurnMissing(problem, {"user": UNSET}) from None
        reply = call.reply
        cost = self.bound.model.cost(reply)
        record = PlayedTurn(call.id, reply.usage, cost, call.cached)
        outcome = reply_outcome(reply)
        if outcome in UNANSWERED:
            problem = f"The played user's turn is {outcome}."
            raise UserTurnMissing(problem, {"user": (record,)})
        text = reply.text.strip()
        if self.user.section.stop in reply.text:
            return None, replace(record, ends=text)
        return text, record


def build_user(section: UserSection, builder: ModelBuilder, seed: int | None) -> UserModel:
    """Build the model that plays the user, from its section and the run's ``seed``."""

    def simulated(request: Request) -> str:
        n_written = sum(message.role == "assistant" for message in request.messages)
        if n_written > SIMULATED_TURNS:
            return section.stop
        return f"Please go on. ({n_written})"

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
    prompt = _prompt(section.prompt, builder)
    prompt.check_fields({"goal", "persona", "stop"})
    user = UserModel(section, model, prompt, seed)
    user.request(UserRole("goal"), (), Origin("", 0, 1))  # checks the decoding parameters
    return user


def _prompt(name: str, builder: ModelBuilder) -> Template:
    if "/" in name or name.endswith(SUFFIX):
        data = DataFolder(builder.resources.settings.data_dir, builder.run_file_folder)
        return read_file(Path(data.next_to_run_file(name)), "user.prompt")
    names = [path.removeprefix("user/") for path in prompt_names("user")]
    if name in names:
        return read_builtin(f"user/{name}")
    problem = f"user.prompt: there is no prompt {name!r:.60}. A path needs a slash."
    raise ConfigError(problem, suggest_name(name, names))
