"""The public data set, joined to the user's own copy of the chats it was taken from.

What is public are ids of conversations and, for each, the constraints of the user's first message
(``conversation_id``, ``decomposition``: a list of texts). The messages themselves are those of
LMSYS-Chat-1M, which everybody has to ask for at its source and nobody may pass on; so the two are
joined here, by the id, as the authors do: the task is the first turn of the conversation.
Categories and domains are CSV files of the authors' repository (``constraint,categories,Other``;
``task,domain``), joined by the text.

Either file may be Parquet or JSONL (also ``.gz``), or a folder with several. A conversation that
is not among the chats is told, never passed over in silence.

>>> join(Path("wild-if-eval"), Path("lmsys-chat-1m")).missing  # doctest: +SKIP
()
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid, DataMissing
from harness.tasks.wildifeval.categories import named
from harness.tasks.wildifeval.items import Constraint, Item, text_of

ENDINGS = (".parquet", ".jsonl", ".jsonl.gz")


@dataclass(frozen=True, slots=True)
class Joined:
    """The tasks that both files have, in the order of the decompositions.

    missing: ids of conversations that are not among the chats.
    """

    items: tuple[Item, ...]
    missing: tuple[str, ...]


def is_public(path: Path) -> bool:
    """Whether a data set is of the public form, and not rows with the task's text in them.

    Raises: as `join`.
    """
    if path.is_dir() or path.suffix == ".parquet":
        return True
    return "decomposition" in next(iter(read_jsonl(path)), {})


def join(
    decompositions: Path,
    chats: Path,
    categories: Path | None = None,
    domains: Path | None = None,
) -> Joined:
    """The tasks with their texts.

    decompositions, chats: a file, or a folder of files.
    categories, domains: CSV files; what they do not name has no category, or no domain.

    Raises: DataInvalid; DataMissing.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for where, name, found in _rows(decompositions, "decomposition"):
        if name in wanted:
            raise DataInvalid(f"{where}: the conversation {name!r} is there twice.")
        if not isinstance(found, list) or not found:
            raise DataInvalid(f"{where}: the decomposition must be a list of constraints.")
        wanted[name] = tuple(text_of(one, f"{where}: a constraint").strip() for one in found)
    tasks: dict[str, str] = {}
    for where, name, found in _rows(chats, "conversation", wanted):
        tasks.setdefault(name, _first_message(found, where))
    category_of = _table(categories, "constraint", "categories")
    domain_of = _table(domains, "task", "domain")
    items = tuple(
        Item(
            name,
            tasks[name],
            tuple(Constraint(text, named(category_of.get(text, ""))) for text in constraints),
            domain_of.get(tasks[name].strip(), ""),
        )
        for name, constraints in wanted.items()
        if name in tasks
    )
    return Joined(items, tuple(name for name in wanted if name not in tasks))


def _first_message(conversation: Any, where: str) -> str:
    """The task, as in the authors' ``leave_only_first_request``."""
    first = conversation[0] if isinstance(conversation, list) and conversation else None
    said = first.get("content") if isinstance(first, dict) else None
    return text_of(said, f"{where}: the first message of the conversation")


def _rows(
    place: Path, column: str, only: Collection[str] | None = None
) -> Iterator[tuple[str, str, Any]]:
    """What a message calls a row's place, its conversation's id, and a column of it.

    only: the ids that are wanted; None for all.
    """
    for path in _files(place):
        found = _parquet(path, column, only) if path.suffix == ".parquet" else _lines(path, column)
        for number, (name, value) in enumerate(found, start=1):
            where = f"{path}, item {number}"
            if not isinstance(name, str) or not name:
                raise DataInvalid(f"{where}: it must have a conversation_id.")
            if only is None or name in only:
                yield where, name, value


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    every = sorted(path for path in place.rglob("*") if path.is_file())
    for ending in ENDINGS:  # of one form: a folder may hold the same rows in two
        found = [path for path in every if path.name.endswith(ending)]
        if found:
            return found
    raise DataMissing(
        f"The folder {place} holds no file that ends with {', '.join(ENDINGS)}.",
        "Put the downloaded files there, or name them.",
    )


def _lines(path: Path, column: str) -> Iterator[tuple[Any, Any]]:
    for row in read_jsonl(path):
        yield row.get("conversation_id"), row.get(column)


def _parquet(path: Path, column: str, only: Iterable[str] | None) -> Iterator[tuple[Any, Any]]:
    import duckdb

    if not path.is_file():
        raise DataMissing(f"There is no file {path}.", "Check the path.")
    connection = duckdb.connect(":memory:", config={"threads": 2, "memory_limit": "500MB"})
    with connection:
        try:
            # Of a million conversations only those that are wanted leave the file.
            if only is None:
                query = f"SELECT conversation_id, {column} FROM read_parquet(?)"  # noqa: S608
                found = connection.execute(query, [str(path)])
            else:
                query = (
                    f"SELECT conversation_id, {column}[1:1] FROM read_parquet(?) "  # noqa: S608
                    "WHERE conversation_id IN (SELECT unnest(?::VARCHAR[]))"
                )
                found = connection.execute(query, [str(path), list(only)])
            while rows := found.fetchmany(1_000):
                yield from rows
        except duckdb.Error as error:
            said = " ".join(str(error).split())
            raise DataInvalid(f"{path}: not the Parquet file it should be ({said:.160}).") from None


def _table(path: Path | None, key: str, value: str) -> dict[str, str]:
    """Two columns of a CSV file; empty without one."""
    if path is None:
        return {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            if not {key, value} <= set(reader.fieldnames or ()):
                raise DataInvalid(f"{path}: must have the columns {key} and {value}.")
            return {(row[key] or "").strip(): (row[value] or "").strip() for row in reader}
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataInvalid(f"{path}: not CSV ({error}).") from None
    except OSError as error:
        raise DataMissing(f"Cannot read {path}: {error.strerror}.", "Check the path.") from None
