"""Reads rows from files. The same rows give the same dicts, whatever format they are in.

Malformed, empty or oversized data is refused before any call; errors name the file and item.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from statistics import mean, median, stdev
from typing import Annotated, Literal, Protocol, TypeVar

import msgspec

from harness.datasets.folder import sha256
from harness.datasets.row_formats import Row as Row
from harness.datasets.row_formats import may_have_json_texts, plain, read_fields, row_format
from harness.errors import DataInvalid, reraise_as, suggest_name
from harness.records import Message, nesting_depth, replace_surrogates
from harness.wording import join_first

MAX_DEPTH = 100
MAX_LISTED = 8  # items that an error message lists

_NAMES: dict[Path, str] = {}


def name_rows(path: Path, name: str) -> None:
    """Use ``name`` instead of a file's own name in error messages about its rows."""
    _NAMES[path] = name


def rows(path: Path, *, earlier: bool = False) -> Iterator[tuple[str, Row]]:
    """Yield (location, row) for each row of a file.

    Args:
        path: The file. Its suffix names the format (JSONL if unknown). It may end in ``.gz``.
        earlier: Read values as version 0.1.0 did (see `reread_rows`).

    Yields:
        The location, such as ``tasks.jsonl, item 3``, which is for error messages, and the row.

    Raises:
        DataInvalid: If the file is malformed or has no rows.
        DataMissing: If it cannot be read.
        ExtraMissing: If its format needs an extra that is not installed.
    """
    file_format = row_format(path)
    read = file_format.read
    if earlier and file_format.read_earlier is not None:
        read = file_format.read_earlier
    name = _NAMES.get(path, path)
    number = 0
    for number, row in enumerate(read(path), start=1):
        where = f"{name}, item {number}"
        if nesting_depth(row) > MAX_DEPTH:
            raise DataInvalid(f"{where} is nested more than {MAX_DEPTH} deep.")
        with reraise_as(DataInvalid, f"{where}: "):
            fields = read_fields(plain(row), earlier=earlier)
        yield where, fields
    if not number:
        problem = "contains no items" if path.stat().st_size else "is empty: it contains no items"
        raise DataInvalid(f"{name} {problem}.", file_format.remedy)


def reread_rows(path: Path) -> dict[int, Row | None]:
    """Return the rows that version 0.1.0 read otherwise, by their number from 1.

    That version read numbers in YAML as version 1.1 of YAML does (``12:30`` was 750), and JSON in
    texts, except in ``choices``, as text.
    """
    if row_format(path).read_earlier is None:
        return {}
    if not may_have_json_texts(path):  # saves much time
        return {}
    try:
        return _changed_rows(rows(path, earlier=True), rows(path))
    except DataInvalid:  # so that it has no run, or cannot be continued
        return {}


def rows_sha256(path: Path) -> str:
    """Return the SHA-256 of a file of rows and of its rows that version 0.1.0 read otherwise."""
    digest = sha256(path)
    if changed := reread_rows(path):
        return hashlib.sha256(digest.encode() + msgspec.json.encode(changed)).hexdigest()
    return digest


def differing_rows(before: Path, after: Path) -> list[int]:
    """Return the numbers (from 1) of the rows that differ between two files."""
    return list(_changed_rows(rows(before), rows(after)))


def _changed_rows(
    before: Iterator[tuple[str, Row]], after: Iterator[tuple[str, Row]]
) -> dict[int, Row | None]:
    """Return the rows of ``after`` that differ from those of ``before``, by their number from 1.

    A row that is missing in ``after`` is None.
    """
    changed = {}
    pairs = zip_longest((row for _, row in before), (row for _, row in after))
    for number, (old_row, row) in enumerate(pairs, start=1):
        if msgspec.json.encode(old_row) != msgspec.json.encode(row):
            changed[number] = row
    return changed


def items(numbers: Iterable[int]) -> str:
    """Return a list of the first numbers of rows, such as "items 1, 2 and 5 more"."""
    numbers = list(numbers)
    return f"item{'s' * (len(numbers) != 1)} {join_first(list(map(str, numbers)), MAX_LISTED)}"


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
        remedy = suggest_name("prompt", ["messages", *map(str, row)])
        remedy = f"{remedy} Or set task.prompt: '{{{{ question }}}}'."
        raise DataInvalid("the row has neither 'prompt', as text, nor 'messages'.", remedy)
    messages = row["messages"]
    for number, message in enumerate(messages if isinstance(messages, list) else (), start=1):
        refuse_tool_calls(message, f"'messages', {number}")
    try:
        turns = msgspec.convert(messages, Annotated[list[_Turn], msgspec.Meta(min_length=1)])
    except msgspec.ValidationError as error:
        problem = replace_surrogates(str(error))
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
            remedy = suggest_name(str(key), kind.__struct_fields__)
            raise DataInvalid(f"{where}: unknown key {key!r:.60}.", remedy)
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        problem = replace_surrogates(str(error))
        remedy = "Put it in quotes." if _NOT_TEXT.match(problem) else ""
        raise DataInvalid(f"{where}: {problem}.", remedy) from None


SUMMARY = ("n", "mean", "s.d.", "min", "median", "max")


def summary(numbers: Sequence[float]) -> tuple[float | None, ...]:
    """Return the statistics in `SUMMARY`, with None for those that need more numbers."""
    if not numbers:
        return (0, *[None] * 5)
    deviation = stdev(numbers) if len(numbers) > 1 else None
    middle = float(mean(numbers)), deviation, min(numbers), float(median(numbers))
    return len(numbers), *middle, max(numbers)
