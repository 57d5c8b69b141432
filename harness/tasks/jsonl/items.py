"""Converts a row to an instance: its conversation, groups and checks, all before any call.

>>> instance = reader.instance({"id": "1", "prompt": "2 + 2?", "target": "4"}, 1)  # doctest: +SKIP
>>> instance.data.messages  # doctest: +SKIP
(Message(role='user', content='2 + 2?'),)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from harness.errors import ConfigError, DataInvalid, nearest
from harness.prompts.template import Template
from harness.records import Instance, Message, encodable
from harness.scoring.checks import Check, Rules, checks_of
from harness.tasks._rows import Row, rows, text_id, unique
from harness.tasks.jsonl.judging import JudgeCheck, JudgeChecks

ROLES = ("system", "user", "assistant")
MOST_PACKED = 1 << 27
"""Bytes of packed instances that are kept in memory; a larger file is read again for each pass."""


class JsonlItem(Struct, frozen=True):
    """A row with its conversation and checks.

    Attributes:
        messages: The messages of round 1, without shots.
        rules: The checks by rules, their options taken from the row.
        judges: The checks by judges.
    """

    row: Mapping[str, Any]
    messages: tuple[Message, ...]
    rules: tuple[Check, ...] = ()
    judges: tuple[JudgeCheck, ...] = ()


@dataclass(frozen=True, slots=True)
class RowForm:
    """How a row becomes a conversation.

    Attributes:
        prompt, system: Templates over the row's fields; None if the rows have prompts.
        labels: Fields of the rows that become groups.
        adapt: A preset's conversion of each row.
    """

    prompt: Template | None = None
    system: Template | None = None
    labels: Sequence[str] = ()
    adapt: Callable[[Row], Row] | None = None


class Reader:
    """Reads the instances of a file.

    A run passes over them several times: the first complete pass packs them, and later ones only
    unpack.

    Args:
        path: The file.
        form: How a row becomes a conversation.
        shared: The checks of the run file.
        rules: Builds checkers.
        judges: The judges that checks name.
    """

    def __init__(
        self,
        path: Path,
        form: RowForm,
        shared: Sequence[Check],
        rules: Rules,
        judges: JudgeChecks,
    ) -> None:
        self._path, self._form, self._shared = path, form, shared
        self._rules, self._judges = rules, judges
        self._decoder = msgspec.msgpack.Decoder(Instance[JsonlItem])
        self._packed: list[bytes] | None = None

    def read(self) -> Iterator[Instance[JsonlItem]]:
        """Yield the instances in file order.

        Raises:
            DataInvalid: A row is malformed; the message names file, item and field.
        """
        if self._packed is not None:
            yield from map(self._decoder.decode, self._packed)
            return
        packed: list[bytes] | None = []
        size = 0
        for instance in unique(self._placed()):
            if packed is not None:
                one = self._pack(instance)
                size += len(one or b"")
                if one is None or size > MOST_PACKED:
                    packed = None
                else:
                    packed.append(one)
            yield instance
        self._packed = packed

    def _pack(self, instance: Instance[JsonlItem]) -> bytes | None:
        """Encode an instance as bytes; None for values of YAML that would come back changed."""
        try:
            packed = msgspec.msgpack.encode(instance)
            return packed if self._decoder.decode(packed) == instance else None
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):
            return None

    def _placed(self) -> Iterator[tuple[str, Instance[JsonlItem]]]:
        for number, (where, row) in enumerate(rows(self._path), start=1):
            try:
                yield where, self.instance(row, number)
            except (DataInvalid, ConfigError) as error:
                raise DataInvalid(f"{where}: {error.message}", error.remedy) from None

    def instance(self, row: Row, number: int) -> Instance[JsonlItem]:
        """Convert a row to an instance.

        Raises:
            DataInvalid: The row is malformed.
        """
        if self._form.adapt is not None:
            row = self._form.adapt(row)
        name = text_id(row, number, "")
        cluster = row.get("cluster")
        if isinstance(cluster, bool) or not isinstance(cluster, str | int | None):
            raise DataInvalid("'cluster' must be text or an integer.")
        messages = self._messages(row)
        checks = checks_of(row, self._shared)
        rules, judges = self._rules.of(checks, row), self._judges.of(checks, row)
        return Instance(
            encodable(name),
            JsonlItem(row, messages, rules, judges),
            self._groups(row),
            None if cluster is None else str(cluster),
        )

    def _messages(self, row: Row) -> tuple[Message, ...]:
        turns: tuple[Message, ...]
        if self._form.prompt is not None:
            if "messages" in row:
                raise DataInvalid(
                    "the row has 'messages', but task.prompt is set too.", "Keep one of them."
                )
            turns = (Message("user", self._form.prompt.render(row)),)
        elif "messages" in row:
            turns = _turns(row["messages"])
        elif isinstance(row.get("prompt"), str):
            turns = (Message("user", row["prompt"]),)
        else:
            remedy = nearest("prompt", ["messages", *map(str, row)])
            raise DataInvalid(
                "the row has neither 'prompt', as text, nor 'messages'.",
                f"{remedy} Or set task.prompt: '{{{{ question }}}}'.",
            )
        if not turns[-1].content.strip():
            raise DataInvalid("the prompt is empty.")
        if self._form.system is None:
            return turns
        if turns[0].role == "system":
            raise DataInvalid(
                "'messages' begin with a system message, and task.system is set too.",
                "Keep one of them.",
            )
        return (Message("system", self._form.system.render(row)), *turns)

    def _groups(self, row: Row) -> dict[str, str]:
        own = row.get("groups", {})
        if not isinstance(own, Mapping):
            raise DataInvalid("'groups' must be a mapping of labels to names.")
        found: dict[str, str] = {}
        for label in self._form.labels:
            if label not in row:
                raise DataInvalid(
                    f"task.groups names {label!r:.60}, which the row does not have.",
                    nearest(label, map(str, row)),
                )
            found[label] = _name(row[label], label)
        return {**found, **{str(label): _name(value, label) for label, value in own.items()}}


def _name(value: object, label: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return encodable(str(value))
    raise DataInvalid(f"the group {label!r:.60} must be text, a number, true or false.")


def _turns(raw: object) -> tuple[Message, ...]:
    if not isinstance(raw, list) or not raw:
        raise DataInvalid("'messages' must be a list of {role, content}.")
    turns = []
    for number, turn in enumerate(raw, start=1):
        where = f"'messages', turn {number}"
        if not isinstance(turn, Mapping) or turn.keys() != {"role", "content"}:
            raise DataInvalid(f"{where}: must have 'role' and 'content', and nothing else.")
        role, content = turn["role"], turn["content"]
        if role not in ROLES:
            raise DataInvalid(f"{where}: there is no role {role!r:.40}.", nearest(str(role), ROLES))
        if not isinstance(content, str):
            raise DataInvalid(f"{where}: 'content' must be text.")
        turns.append(Message(role, content))
    if turns[-1].role != "user":
        raise DataInvalid("'messages' must end with the user's turn, which the model answers.")
    return tuple(turns)
