"""Reads the data files of tasks: JSONL (also ``.gz``), JSON, YAML, CSV and TSV.

Malformed, empty or oversized data is refused before any call; errors name the file and item.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from itertools import chain
from pathlib import Path
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar

import msgspec
import yaml

from harness.config.loading import parse_yaml
from harness.datasets.folder import cannot_read, not_utf8, read_jsonl, sha256
from harness.errors import DataInvalid, nearest
from harness.records import Message, encodable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_DEPTH = 100
MOST_KEPT = 1 << 24  # bytes of a file whose rows are kept in memory
MOST_IDS = 100_000  # ids that are kept as text
TABLES = {".csv": ",", ".tsv": "\t"}
_TABLE = "Write the names of the columns in the first line, and one item in each line below it."
_LIST = "Write a list of mappings, one per item."
_FORMS = {".csv": _TABLE, ".tsv": _TABLE, ".json": _LIST, ".yaml": _LIST, ".yml": _LIST}

Row = dict[str, Any]

_NOT_TEXT = re.compile(r"Expected `str.*got `(bool|int|float|null)`")


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_Identified)
S = TypeVar("S", bound=msgspec.Struct)


_NAMES: dict[Path, str] = {}


def name_rows(path: Path, name: str) -> None:
    """Use ``name`` instead of a file's own name in error messages about its rows."""
    _NAMES[path] = name


def rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield (location, row) for each row of a file.

    The location, such as ``tasks.jsonl, item 3``, is for error messages.
    """
    suffix = path.suffix.lower()
    if suffix in (".yaml", ".yml", ".json"):
        found = _listed(path)
    elif suffix in TABLES:
        found = _table(path, TABLES[suffix])
    else:
        found = read_jsonl(path)
    number, shown = 0, _NAMES.get(path, path)
    for number, row in enumerate(found, start=1):
        where = f"{shown}, item {number}"
        _refuse_depth(row, where)
        yield where, row
    if not number:
        what = "contains no items" if path.stat().st_size else "is empty: it contains no items"
        raise DataInvalid(f"{shown} {what}.", _FORMS.get(suffix, "Write one JSON object per line."))


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
        return {"dataset": self.path.name, "dataset_sha256": sha256(self.path)}


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


def unique(found: Iterable[tuple[str, T]]) -> Iterator[T]:
    """Yield the items of (location, item) pairs, and check that their ids are unique.

    The error for a repeated id may come up to `MOST_IDS` items late.
    """
    last: dict[str, str] = {}  # the location of each of the last ids
    before: list[NDArray[np.int64]] = []  # sorted hashes of earlier ids, the largest array first
    for where, item in found:
        if item.id in last:
            raise _occurs_twice(where, item.id)
        last[item.id] = where
        yield item
        if len(last) == MOST_IDS:
            _add_ids(before, last)
            last.clear()
    if before:
        _add_ids(before, last)


def _add_ids(before: list[NDArray[np.int64]], last: Mapping[str, str]) -> None:
    import numpy as np  # takes 0.2 s

    from harness.store.columns import name_digest

    added = np.array([name_digest(name) for name in last], np.int64)
    for known in before:
        place = np.minimum(np.searchsorted(known, added), len(known) - 1)
        for number in np.flatnonzero(known[place] == added)[:1].tolist():
            name, where = list(last.items())[number]
            raise _occurs_twice(where, name)
    while before and len(before[-1]) <= len(added):
        added = np.concatenate([before.pop(), added])
    before.append(np.sort(added))


def _occurs_twice(where: str, name: str) -> DataInvalid:
    said = f"{where}: the id {name!r:.80} occurs twice."
    return DataInvalid(said, "Give every item a unique id.")


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


def _listed(path: Path) -> Iterator[Row]:
    content, kind = _text(path), "JSON" if path.suffix.lower() == ".json" else "YAML"
    if not content.strip():
        return
    try:
        json = kind == "JSON"
        tree = msgspec.json.decode(content) if json else parse_yaml(content, _loader())
    except (msgspec.MsgspecError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise DataInvalid(f"{path}: not {kind} ({' '.join(str(error).split()):.300}).") from None
    if isinstance(tree, dict) and isinstance(tree.get("examples"), list):
        tree = tree["examples"]
    if not isinstance(tree, list):
        raise DataInvalid(f"{path}: must be a list of items.", "Begin each item with '- '.")
    for number, row in enumerate(tree, start=1):
        if not isinstance(row, dict) or not all(isinstance(key, str) for key in row):
            raise DataInvalid(f"{path}, item {number}: must be a mapping of names to values.")
        yield row


@cache
def _loader() -> Any:
    """Return a YAML loader that reads yes, no and dates as text: they may be answers."""
    plain = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {  # noqa: RUF012 (a table of PyYAML's)
            first: [(tag, regexp) for tag, regexp in found if tag not in plain]
            for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), [*"tTfF"]
    )
    return Loader


def _table(path: Path, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(StringIO(_text(path), newline=""), delimiter=delimiter, strict=True)
    try:
        names = next(reader, [])
        if other := next((one for one in ";\t" if len(names) == 1 and one in names[0]), ""):
            problem = f"{path}, line 1: the columns are separated by {other!r}, not {delimiter!r}."
            raise DataInvalid(problem, "Save it with commas, or as .tsv with tabs.")
        if len(set(names)) < len(names) or not all(names):
            raise DataInvalid(f"{path}, line 1: every column needs a unique name.")
        for values in filter(None, reader):
            if len(values) != len(names):
                n, m = len(values), len(names)
                said = f"{n} value{'s' * (n != 1)} for {m} column{'s' * (m != 1)}"
                raise DataInvalid(f"{path}, line {reader.line_num}: {said}.")
            yield dict(zip(names, values, strict=True))
    except csv.Error as error:
        raise DataInvalid(f"{path}, line {reader.line_num}: {error}.") from None


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        return content.decode("utf-8-sig")  # spreadsheets write a byte order mark
    except UnicodeDecodeError:
        raise not_utf8(path, content) from None
    except OSError as error:
        raise cannot_read(path, error) from None


def _refuse_depth(row: Row, where: str) -> None:
    values: list[Any] = [row]
    for _ in range(MAX_DEPTH):
        nested = (value for value in values if isinstance(value, dict | list))
        parts = (value.values() if isinstance(value, dict) else value for value in nested)
        if not (values := list(chain.from_iterable(parts))):
            return
    raise DataInvalid(f"{where} is nested more than {MAX_DEPTH} deep.")


SUMMARY = ("n", "mean", "s.d.", "min", "median", "max")


def summary(numbers: Sequence[float]) -> tuple[float | None, ...]:
    """Return the statistics in `SUMMARY`, with None for those that need more numbers."""
    if not numbers:
        return (0, *[None] * 5)
    deviation = stdev(numbers) if len(numbers) > 1 else None
    middle = float(mean(numbers)), deviation, min(numbers), float(median(numbers))
    return len(numbers), *middle, max(numbers)
