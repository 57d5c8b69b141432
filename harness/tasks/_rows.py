"""The rows of tasks: their sources, ids and prompts (`harness.datasets.rows` reads files)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from statistics import mean, median, stdev
from typing import Annotated, Literal, Protocol, TypeVar

import msgspec

from harness.datasets.fields import Row as Row
from harness.datasets.rows import rows as rows
from harness.datasets.rows import rows_sha256
from harness.errors import DataInvalid, nearest
from harness.records import Message, encodable

MOST_KEPT = 1 << 24  # bytes of a file whose rows are kept in memory

_NOT_TEXT = re.compile(r"Expected `str.*got `(bool|int|float|null)`")


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_Identified)
S = TypeVar("S", bound=msgspec.Struct)


class RowSource(Protocol):
    """The source of a task's rows."""

    @property
    def large(self) -> bool:
        """Whether the rows are read again each time, instead of being kept in memory."""

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield (location, row) for each row. The location is for error messages."""

    def fingerprint(self) -> Mapping[str, str]:
        """Return the rows' name (``dataset``) and hashes, for the manifest."""


@dataclass(frozen=True, slots=True)
class RowFile:
    """The rows in a file (see `rows`)."""

    path: Path

    @property
    def large(self) -> bool:
        """Whether the file is compressed or too large to keep in memory."""
        return self.path.suffix == ".gz" or self.path.stat().st_size > MOST_KEPT

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield (location, row) for each row of the file."""
        return rows(self.path)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the file's name and hash."""
        return {"dataset": self.path.name, "dataset_sha256": rows_sha256(self.path)}


class _Turn(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant"]
    content: str


_TOOL_KEYS = ("tool_calls", "tool_call_id", "function_call")
_TOOL_ROLES = ("tool", "function")


def refuse_tool_calls(turn: object, where: str) -> None:
    """Raise DataInvalid if a turn of a conversation is a tool call, or a tool's result."""
    if not isinstance(turn, Mapping):
        return
    keys = [key for key in _TOOL_KEYS if turn.get(key)]
    role = turn.get("role")
    keys += [f"role: {role}"] if role in _TOOL_ROLES else []
    if keys:
        problem = f"{where}: {keys[0]!r} is of a tool call, which a conversation cannot have yet."
        raise DataInvalid(problem, "Leave the row out, or write the call and its result as text.")


def turns_of(row: Row) -> tuple[Message, ...]:
    """Return the conversation in a row's ``messages``, or its ``prompt`` as a user message."""
    if isinstance(row.get("prompt"), str) and "messages" not in row:
        return (Message("user", row["prompt"]),)
    if "messages" not in row:
        remedy = nearest("prompt", ["messages", *map(str, row)])
        remedy = f"{remedy} Or set task.prompt: '{{{{ question }}}}'."
        raise DataInvalid("the row has neither 'prompt', as text, nor 'messages'.", remedy)
    messages = row["messages"]
    for number, message in enumerate(messages if isinstance(messages, list) else (), start=1):
        refuse_tool_calls(message, f"'messages', {number}")
    try:
        turns = msgspec.convert(messages, Annotated[list[_Turn], msgspec.Meta(min_length=1)])
    except msgspec.ValidationError as error:
        problem = encodable(str(error))
        raise DataInvalid(f"'messages' must be a list of {{role, content}}: {problem}.") from None
    if turns[-1].role != "user":
        raise DataInvalid("'messages' must end with the user's turn, which the model answers.")
    return tuple(Message(turn.role, turn.content) for turn in turns)


def read_all(path: Path, item: Callable[[Row, str], T]) -> Iterator[T]:
    """Yield ``item(row, location)`` for each row of a file, refusing repeated ids."""
    return unique((where, item(row, where)) for where, row in rows(path))


def unique(pairs: Iterable[tuple[str, T]]) -> Iterator[T]:
    """Yield the items of (location, item) pairs.

    Raises:
        DataInvalid: If an item has the id of an earlier one.
    """
    digests = set[bytes]()  # of all ids, which may be long
    for where, item in pairs:
        digest = blake2b(item.id.encode(errors="surrogatepass"), digest_size=16).digest()
        if digest in digests:
            problem = f"{where}: the id {item.id!r:.80} occurs twice."
            raise DataInvalid(problem, "Give every item a unique id.")
        digests.add(digest)
        yield item


def text_id(row: Row, default: int | str, where: str) -> str:
    """Return a row's ``id`` (or ``default``) as text."""
    name = row.get("id", default)
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        raise DataInvalid(f"{where}'id' must be text or an integer.")
    return str(name)


def converted(row: Row, kind: type[S], where: str, ignored: Collection[str] | None = None) -> S:
    """Convert a row to the struct ``kind``.

    Keys that are not fields of ``kind`` are accepted if they are in ``ignored`` (None: all).
    """
    for key in row:
        if ignored is not None and key not in (*kind.__struct_fields__, *ignored):
            remedy = nearest(str(key), kind.__struct_fields__)
            raise DataInvalid(f"{where}: unknown key {key!r:.60}.", remedy)
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        said = encodable(str(error))
        remedy = "Put it in quotes." if _NOT_TEXT.match(said) else ""
        raise DataInvalid(f"{where}: {said}.", remedy) from None


SUMMARY = ("n", "mean", "s.d.", "min", "median", "max")


def summary(numbers: Sequence[float]) -> tuple[float | None, ...]:
    """Return the statistics in `SUMMARY`, with None for those that need more numbers."""
    if not numbers:
        return (0, *[None] * 5)
    deviation = stdev(numbers) if len(numbers) > 1 else None
    middle = float(mean(numbers)), deviation, min(numbers), float(median(numbers))
    return len(numbers), *middle, max(numbers)
