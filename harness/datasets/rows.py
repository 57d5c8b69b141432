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
from harness.datasets.row_formats import may_have_json_texts, read_fields, row_format, to_json_types
from harness.errors import DataInvalid, reraise_as, suggest_name
from harness.records import Message, nesting_depth, replace_surrogates
from harness.wording import join_first

MAX_DEPTH = 100
MAX_LISTED_ITEMS = 8  # in an error message

_DISPLAY_NAMES: dict[Path, str] = {}


def set_display_name(path: Path, name: str) -> None:
    """Set the name that error messages about the rows of a file use instead of its path."""
    _DISPLAY_NAMES[path] = name


def read_rows(path: Path, *, legacy: bool = False) -> Iterator[tuple[str, Row]]:
    """Yield the location and the fields of each row of a file.

    Args:
        path: The file. Its suffix determines the format (JSONL if unknown). It may end in ``.gz``.
        legacy: Read values as version 0.1.0 did (see `legacy_differences`).

    Yields:
        The location for error messages, such as ``tasks.jsonl, item 3``, and the row.

    Raises:
        DataInvalid: If the file is malformed or has no rows.
        DataMissing: If it cannot be read.
        ExtraMissing: If its format needs an extra that is not installed.
    """
    file_format = row_format(path)
    read = file_format.read
    if legacy and file_format.read_legacy is not None:
        read = file_format.read_legacy
    name = _DISPLAY_NAMES.get(path, path)
    number = 0
    for number, row in enumerate(read(path), start=1):
        location = f"{name}, item {number}"
        if nesting_depth(row) > MAX_DEPTH:
            raise DataInvalid(f"{location} is nested more than {MAX_DEPTH} deep.")
        with reraise_as(DataInvalid, f"{location}: "):
            fields = read_fields(to_json_types(row), legacy=legacy)
        yield location, fields
    if not number:
        problem = "contains no items" if path.stat().st_size else "is empty: it contains no items"
        raise DataInvalid(f"{name} {problem}.", file_format.remedy)


def legacy_differences(path: Path) -> dict[int, Row | None]:
    """Return the rows, as read now, that version 0.1.0 read otherwise, by their number from 1.

    That version read numbers in YAML as version 1.1 of YAML does (``12:30`` was 750), and JSON in
    texts, except in ``choices``, as text.
    """
    if row_format(path).read_legacy is None:
        return {}
    if not may_have_json_texts(path):  # saves much time
        return {}
    try:
        return _changed_rows(read_rows(path, legacy=True), read_rows(path))
    except DataInvalid:  # no run of the file exists, or can be continued
        return {}


def rows_sha256(path: Path) -> str:
    """Return the SHA-256 of a file of rows.

    It also covers the rows that version 0.1.0 read otherwise, if there are any.
    """
    digest = sha256(path)
    if changed_rows := legacy_differences(path):
        return hashlib.sha256(digest.encode() + msgspec.json.encode(changed_rows)).hexdigest()
    return digest


def differing_row_numbers(before: Path, after: Path) -> list[int]:
    """Return the numbers (from 1) of the rows that differ between two files."""
    return list(_changed_rows(read_rows(before), read_rows(after)))


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


def item_numbers_text(numbers: Iterable[int]) -> str:
    """Return a text with the first of some rows' numbers, such as "items 1, 2 and 5 more"."""
    texts = list(map(str, numbers))
    noun = "item" if len(texts) == 1 else "items"
    return f"{noun} {join_first(texts, MAX_LISTED_ITEMS)}"


MAX_BYTES_IN_MEMORY = 1 << 24  # size of a file whose rows are kept in memory

_NOT_TEXT_ERROR = re.compile(r"Expected `str.*got `(bool|int|float|null)`")  # of msgspec


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_HasId)
S = TypeVar("S", bound=msgspec.Struct)


class RowSource(Protocol):
    """The source of a task's rows."""

    @property
    def is_large(self) -> bool:
        """Whether the rows must not be kept in memory, but are read again each time."""

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield the location of each row, for error messages, and its fields."""

    def fingerprint(self) -> Mapping[str, str]:
        """Return the name of the data set (``dataset``) and its hashes, for the manifest."""


@dataclass(frozen=True, slots=True)
class RowFile:
    """The rows in a file (see `read_rows`)."""

    path: Path

    @property
    def is_large(self) -> bool:
        """Whether the file is compressed or too large to keep in memory."""
        return self.path.suffix == ".gz" or self.path.stat().st_size > MAX_BYTES_IN_MEMORY

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield the location and the fields of each row (see `read_rows`)."""
        return read_rows(self.path)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the file's name and hash."""
        return {"dataset": self.path.name, "dataset_sha256": rows_sha256(self.path)}


class _Turn(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant"]
    content: str


_TOOL_KEYS = ("tool_calls", "tool_call_id", "function_call")
_TOOL_ROLES = ("tool", "function")


def check_no_tool_calls(turn: object, location: str) -> None:
    """Raise DataInvalid if a turn of a conversation is a tool call or a tool's result."""
    if not isinstance(turn, Mapping):
        return
    keys = [key for key in _TOOL_KEYS if turn.get(key)]
    role = turn.get("role")
    keys += [f"role: {role}"] if role in _TOOL_ROLES else []
    if keys:
        problem = (
            f"{location}: {keys[0]!r} is of a tool call, which a conversation cannot have yet."
        )
        raise DataInvalid(problem, "Leave the row out, or write the call and its result as text.")


def row_messages(row: Row) -> tuple[Message, ...]:
    """Return the conversation in a row's ``messages``, or its ``prompt`` as a user message.

    Raises:
        DataInvalid: If the row has neither, or the conversation cannot be answered.
    """
    if isinstance(row.get("prompt"), str) and "messages" not in row:
        return (Message("user", row["prompt"]),)
    if "messages" not in row:
        remedy = suggest_name("prompt", ["messages", *map(str, row)])
        remedy = f"{remedy} Or set task.prompt: '{{{{ question }}}}'."
        raise DataInvalid("the row has neither 'prompt', as text, nor 'messages'.", remedy)
    messages = row["messages"]
    for number, message in enumerate(messages if isinstance(messages, list) else (), start=1):
        check_no_tool_calls(message, f"'messages', {number}")
    try:
        turns = msgspec.convert(messages, Annotated[list[_Turn], msgspec.Meta(min_length=1)])
    except msgspec.ValidationError as error:
        problem = replace_surrogates(str(error))
        raise DataInvalid(f"'messages' must be a list of {{role, content}}: {problem}.") from None
    if turns[-1].role != "user":
        raise DataInvalid("'messages' must end with the user's turn, which the model answers.")
    return tuple(Message(turn.role, turn.content) for turn in turns)


def read_unique(path: Path, build: Callable[[Row, str], T]) -> Iterator[T]:
    """Yield the item that a task builds from each row of a file.

    Args:
        path: The file.
        build: Builds an item from a row and its location, which is for error messages.

    Raises:
        DataInvalid: If the file is malformed, or an item has the id of an earlier one.
    """
    return iter_unique((location, build(row, location)) for location, row in read_rows(path))


def iter_unique(located_items: Iterable[tuple[str, T]]) -> Iterator[T]:
    """Yield items without their locations, and check that their ids are unique.

    Raises:
        DataInvalid: If an item has the id of an earlier one.
    """
    digests = set[bytes]()  # of all ids, which may be long
    for location, item in located_items:
        digest = blake2b(item.id.encode(errors="surrogatepass"), digest_size=16).digest()
        if digest in digests:
            problem = f"{location}: the id {item.id!r:.80} occurs twice."
            raise DataInvalid(problem, "Give every item a unique id.")
        digests.add(digest)
        yield item


def row_id(row: Row, default: int | str, prefix: str) -> str:
    """Return a row's ``id`` as text.

    Args:
        row: The row.
        default: The id of a row without one.
        prefix: The beginning of the error message.

    Raises:
        DataInvalid: If the id is neither text nor an integer, or is empty.
    """
    identifier = row.get("id", default)
    is_valid = isinstance(identifier, str | int) and not isinstance(identifier, bool)
    if not is_valid or identifier == "":
        raise DataInvalid(f"{prefix}'id' must be text or an integer.")
    return str(identifier)


def convert_row(
    row: Row, kind: type[S], location: str, ignored: Collection[str] | None = None
) -> S:
    """Convert a row to a struct.

    Args:
        row: The row.
        kind: The class of the struct.
        location: The location of the row, for error messages.
        ignored: Keys that the row may have although they are not fields of the struct. None allows
            all keys.

    Raises:
        DataInvalid: If the row has another key, or a value of the wrong type.
    """
    for key in row:
        if ignored is not None and key not in (*kind.__struct_fields__, *ignored):
            remedy = suggest_name(str(key), kind.__struct_fields__)
            raise DataInvalid(f"{location}: unknown key {key!r:.60}.", remedy)
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        problem = replace_surrogates(str(error))
        remedy = "Put it in quotes." if _NOT_TEXT_ERROR.match(problem) else ""
        raise DataInvalid(f"{location}: {problem}.", remedy) from None


SUMMARY_COLUMNS = ("n", "mean", "s.d.", "min", "median", "max")


def summary_statistics(numbers: Sequence[float]) -> tuple[float | None, ...]:
    """Return the statistics in `SUMMARY_COLUMNS`, with None for those that need more numbers."""
    if not numbers:
        return (0, None, None, None, None, None)
    deviation = stdev(numbers) if len(numbers) > 1 else None
    average = float(mean(numbers))
    return (len(numbers), average, deviation, min(numbers), float(median(numbers)), max(numbers))
