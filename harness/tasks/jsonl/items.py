"""From a row to an item: its conversation, labels and checks, everything known before any call.

>>> item = reader.item({"id": "1", "prompt": "2 + 2?", "target": "4"}, 1)  # doctest: +SKIP
>>> item.messages  # doctest: +SKIP
(Message(role='user', content='2 + 2?'),)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.errors import ConfigError, DataInvalid, nearest
from harness.prompts.template import Template
from harness.records import Instance, Message, encodable
from harness.tasks._rows import Row, rows, text_id, unique
from harness.tasks.jsonl.checks import Checks, RowChecks
from harness.tasks.jsonl.presets import Preset

ROLES = ("system", "user", "assistant")


class Item(Struct, frozen=True):
    """A row as it is asked and checked.

    messages: of round 1, without shots.
    """

    row: Mapping[str, Any]
    messages: tuple[Message, ...]
    checks: RowChecks


class Reader:
    """Reads rows as the run file says.

    labels: fields of rows that are groups.
    """

    def __init__(
        self,
        checks: Checks,
        prompt: Template | None,
        system: Template | None,
        labels: Sequence[str],
        preset: Preset | None,
    ) -> None:
        self._checks, self._labels, self._preset = checks, labels, preset
        self._prompt, self._system = prompt, system

    def read(self, path: Path) -> Iterator[Instance[Item]]:
        """The instances of a file.

        Raises: DataInvalid, naming file, item and field.
        """
        return unique(self._placed(path))

    def _placed(self, path: Path) -> Iterator[tuple[str, Instance[Item]]]:
        for number, (where, row) in enumerate(rows(path), start=1):
            try:
                instance = self.instance(row, number)
            except (DataInvalid, ConfigError) as error:
                raise DataInvalid(f"{where}: {error.message}", error.remedy) from None
            yield where, instance

    def instance(self, row: Row, number: int) -> Instance[Item]:
        """The instance that a row is. Raises: DataInvalid."""
        if self._preset is not None:
            row = self._preset.adapt(row)
        cluster = row.get("cluster")
        if isinstance(cluster, bool) or not isinstance(cluster, str | int | None):
            raise DataInvalid("'cluster' must be text or an integer.")
        return Instance(
            encodable(text_id(row, number, "")),
            Item(row, self._messages(row), self._checks.of(row)),
            self._groups(row),
            None if cluster is None else str(cluster),
        )

    def _messages(self, row: Row) -> tuple[Message, ...]:
        turns: tuple[Message, ...]
        if self._prompt is not None:
            if "messages" in row:
                raise DataInvalid(
                    "there are 'messages', and task.prompt is set too.", "Keep one of them."
                )
            turns = (Message("user", self._prompt.render(row)),)
        elif "messages" in row:
            turns = _turns(row["messages"])
        elif isinstance(row.get("prompt"), str):
            turns = (Message("user", row["prompt"]),)
        else:
            remedy = nearest("prompt", ["messages", *map(str, row)])
            raise DataInvalid(
                "there is neither 'prompt', a text, nor 'messages'.",
                f"{remedy} Or set task.prompt: '{{{{ question }}}}'.",
            )
        if not turns[-1].content.strip():
            raise DataInvalid("the prompt is empty.")
        if self._system is None:
            return turns
        if turns[0].role == "system":
            raise DataInvalid(
                "'messages' begin with a system message, and task.system is set too.",
                "Keep one of them.",
            )
        return (Message("system", self._system.render(row)), *turns)

    def _groups(self, row: Row) -> dict[str, str]:
        own = row.get("groups", {})
        if not isinstance(own, Mapping):
            raise DataInvalid("'groups' must be a mapping of labels to names.")
        found: dict[str, str] = {}
        for label in self._labels:
            if label not in row:
                raise DataInvalid(
                    f"task.groups names {label!r:.60}, which is not there.",
                    nearest(label, map(str, row)),
                )
            found[label] = _name(row[label], label)
        return {**found, **{str(label): _name(value, label) for label, value in own.items()}}


def _name(value: object, label: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return encodable(str(value))
    raise DataInvalid(f"the group {label!r:.60} must be a text, a number, true or false.")


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
            raise DataInvalid(f"{where}: 'content' must be a text.")
        turns.append(Message(role, content))
    if turns[-1].role != "user":
        raise DataInvalid("'messages' must end with the user's turn, which the model answers.")
    return tuple(turns)
