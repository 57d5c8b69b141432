"""Reads conversations from rows: the user's written turns, and users whom a model plays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace
from typing_extensions import override

from harness.datasets.rows import Row, converted, refuse_tool_calls
from harness.errors import ConfigError, DataInvalid, raised_as
from harness.ports import Task
from harness.prompts import Template
from harness.records import Instance, Message, UserRole
from harness.scoring.checks import FROM_ROW
from harness.tasks.jsonl.items import CRITERIA, JsonlItem

One: TypeAlias = Instance[JsonlItem]

# Fields of a row with several turns that belong to the last one.
OF_LAST = ("checks", CRITERIA, "gold", *FROM_ROW)
_OF_USER = UserRole.__struct_fields__
_TEMPLATES = ("goal", "persona")  # options of a task's user


def turn_rows(row: Row) -> list[Row]:
    """Return one row for each of a row's ``turns``, or just the row if it has none.

    Each has the fields of the turn and of the row, but only the last has the row's `OF_LAST`.
    """
    if "turns" not in row:
        return [row]
    turns = row["turns"]
    if not isinstance(turns, list) or not turns:
        raise DataInvalid("'turns' must be a list of the user's turns.", "Begin with one.")
    if also := [key for key in ("messages", "prompt") if row.get(key) not in (None, "")]:
        raise DataInvalid(f"the row has 'turns' and {also[0]!r}.", "Keep one.")
    common = {key: value for key, value in row.items() if key != "turns"}
    found = []
    for number, turn in enumerate(turns, start=1):
        refuse_tool_calls(turn, f"'turns', {number}")
        own = {"content": turn} if isinstance(turn, str) else turn
        content = own.get("content") if isinstance(own, Mapping) else None
        if not isinstance(content, str) or not content.strip():
            remedy = "Write a text, or a mapping with the text as its 'content'."
            raise DataInvalid(f"'turns', {number}: the user's turn has no text.", remedy)
        if (role := own.get("role", "user")) != "user":
            problem = f"'turns', {number}: the role is {role!r:.40}, and all turns are the user's."
            raise DataInvalid(problem, "The model answers each: leave its answers out.")
        if number == len(turns):
            if both := [key for key in OF_LAST if key in common and key in own]:
                problem = f"'turns', {number}: the last turn and the row both have {both[0]!r}."
                raise DataInvalid(problem, "Keep one: the row's own are those of the last turn.")
            found.append({**common, **own})
        else:
            found.append({**{k: v for k, v in common.items() if k not in OF_LAST}, **own})
    return found


def chained(turns: Sequence[JsonlItem]) -> JsonlItem:
    """Return the item of a conversation's first turn, with the other turns' items in ``later``."""
    *before, item = turns
    for turn in reversed(before):
        item = replace(turn, later=(item, *item.later))
    return item


class Users:
    """The users that a model plays: those that rows describe, with defaults from ``task.user``."""

    def __init__(self, shared: Mapping[str, Any] | None) -> None:
        self._shared = dict(shared or {})
        if self._shared:
            with raised_as(ConfigError):
                _role({"goal": "-", **self._shared}, "task.user")
        self._templates = {
            name: Template(text, f"task.user.{name}")
            for name in _TEMPLATES
            if (text := self._shared.get(name)) is not None
        }

    def of(self, row: Row) -> tuple[UserRole, Row] | None:
        """Return a row's user and the row to use before the last answer, or None without a user.

        A field ``user`` without any key of a played user is a field like any other.
        """
        user_field = row.get("user")
        description = (
            user_field
            if isinstance(user_field, Mapping) and user_field.keys() & {*_OF_USER}
            else {}
        )
        if not self._shared and not description:
            return None
        if also := [key for key in ("turns", "choices") if key in row]:
            raise DataInvalid(f"the row has 'user' and {also[0]!r}.", "Keep one.")
        rendered = {k: t.render(row) for k, t in self._templates.items() if k not in description}
        user = {**self._shared, **rendered, **description}
        common = {key: value for key, value in row.items() if key not in (*OF_LAST, "user")}
        return _role(user, "'user'"), common | {key: user[key] for key in OF_LAST if key in user}


def _role(user: Mapping[str, Any], where: str) -> UserRole:
    return converted(dict(user), UserRole, where, ignored=OF_LAST)


class Conversations(Task[JsonlItem]):
    """The members of a task that concern turns (`Scripted`, `Played` and `NamesScores`)."""

    @override
    def turns(self, instance: One) -> int:
        """Return the number of the user's turns in a row's ``turns``, or 1 if it has none."""
        return 1 + len(instance.data.later)

    @override
    def at_turn(self, instance: One, answers: Sequence[str]) -> One:
        """Return a row as of the turn after ``answers``: the conversation and the turn's checks."""
        return replace(instance, data=instance.data.after(answers))

    @override
    def score_names(self, instance: One) -> Collection[str]:
        """Return the names of a row's checks in all turns."""
        item = instance.data
        turns = [item, *item.later, *([] if item.before is None else [item.before])]
        return {rule.name for turn in turns for rule in turn.rules}

    @override
    def user_role(self, instance: One) -> UserRole | None:
        """Return the user that a model plays in a row, or None if no model plays the user."""
        return instance.data.role

    @override
    def at_played_turn(self, instance: One, messages: Sequence[Message], last: bool) -> One:
        """Return a row as of a turn: the conversation so far, and the checks of the next answer."""
        item = instance.data if last else instance.data.before or instance.data
        return replace(instance, data=replace(item, messages=tuple(messages)))
