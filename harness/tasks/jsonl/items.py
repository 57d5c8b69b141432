"""Converts a row to a conversation and groups, before any call; and the presets of well-known rows.

GSM8K: Cobbe et al. 2021, arXiv 2110.14168. BIG-bench Hard: Suzgun et al. 2022, arXiv 2210.09261.
The prompts ask for the structure that is parsed: "the answer is".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from harness.errors import DataInvalid, nearest
from harness.prompts import Template
from harness.records import Message, encodable
from harness.scoring.checks import Check
from harness.scoring.patterns import numbers
from harness.tasks._rows import Row
from harness.tasks.jsonl.judging import JudgeCheck


class JsonlItem(Struct, frozen=True):
    """A row with the messages of round 1, and its checks by rules and by judges."""

    row: Row
    messages: tuple[Message, ...]
    rules: tuple[Check, ...] = ()
    judges: tuple[JudgeCheck, ...] = ()


class _Turn(Struct, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant"]
    content: str


_Turns = Annotated[list[_Turn], Meta(min_length=1)]


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

    def messages(self, row: Row) -> tuple[Message, ...]:
        """Return a row's conversation."""
        turns: tuple[Message, ...]
        if self.prompt is not None and "messages" in row:
            raise DataInvalid(
                "the row has 'messages', but task.prompt is set too.", "Keep one of them."
            )
        if self.prompt is not None:
            turns = (Message("user", self.prompt.render(row)),)
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
        if self.system is None:
            return turns
        if turns[0].role == "system":
            raise DataInvalid(
                "'messages' begin with a system message, and task.system is set too.",
                "Keep one of them.",
            )
        return (Message("system", self.system.render(row)), *turns)

    def groups(self, row: Row) -> dict[str, str]:
        """Return a row's groups: the fields that are labels, and its own."""
        own = row.get("groups", {})
        if not isinstance(own, Mapping):
            raise DataInvalid("'groups' must be a mapping of labels to names.")
        for label in self.labels:
            if label not in row:
                raise DataInvalid(
                    f"task.groups names {label!r:.60}, which the row does not have.",
                    nearest(label, map(str, row)),
                )
        labelled = {**{label: row[label] for label in self.labels}, **own}
        return {str(label): _name(value, label) for label, value in labelled.items()}


def _name(value: object, label: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return encodable(str(value))
    raise DataInvalid(f"the group {label!r:.60} must be text, a number, true or false.")


def _turns(raw: object) -> tuple[Message, ...]:
    try:
        turns = msgspec.convert(raw, _Turns)
    except msgspec.ValidationError as error:
        raise DataInvalid(
            f"'messages' must be a list of {{role, content}}: {encodable(str(error))}."
        ) from None
    if turns[-1].role != "user":
        raise DataInvalid("'messages' must end with the user's turn, which the model answers.")
    return tuple(Message(turn.role, turn.content) for turn in turns)


@dataclass(frozen=True, slots=True)
class ParserPreset:
    """Defaults for a run file; ``adapt`` adds the ``target`` to a row."""

    prompt: str
    extract: Mapping[str, Any]
    checks: tuple[Any, ...]
    gold: str
    adapt: Callable[[Row], Row]


def _gsm8k(row: Row) -> Row:
    answer = row.get("answer", row.get("target"))
    said = re.search(r"####\s*(.+?)\s*$", answer) if isinstance(answer, str) else None
    found = numbers(said[1]) if said else []
    if len(found) != 1:
        raise DataInvalid("'answer' must end in '#### ' and a number.")
    return {**row, "target": format(found[0], "f")}


def _shuffled_objects(row: Row) -> Row:
    target = row.get("target", row.get("answer"))
    letter = re.fullmatch(r"\(?([A-Za-z])\)?", target.strip()) if isinstance(target, str) else None
    if letter is None:
        raise DataInvalid("'target' must be a letter in brackets, like '(B)'.")
    return {**row, "target": f"({letter[1].upper()})"}


PRESETS: Mapping[str, ParserPreset] = {
    "gsm8k": ParserPreset(
        prompt="{{ question }}\n\nThink step by step. Then end with one line of this form:\n"
        "The answer is <number>",
        extract={
            "regex": r"answer is:? *\**([-+]?\$?[-+]?[0-9][0-9,]*(?:\.[0-9]+)?)",
            "take": "last",
            "ignore_case": True,
        },
        checks=("numeric_match",),
        gold="The answer is {{ target }}",
        adapt=_gsm8k,
    ),
    "shuffled_objects": ParserPreset(
        prompt="{{ input }}\n\nThink step by step. Then end with one line of this form:\n"
        "The answer is (<letter>)",
        extract={"regex": r"answer is:? *\**(\([A-Z]\))", "take": "last", "ignore_case": True},
        checks=({"exact_match": {"ignore_case": True}},),
        gold="The answer is {{ target }}",
        adapt=_shuffled_objects,
    ),
}
