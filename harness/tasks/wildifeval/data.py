"""Reads WildIFEval's tasks with their constraints, in either of two formats.

That is rows of plain JSONL, as the examples in the paper's appendix are written; or the public data
set, joined to your own copy of the chats. Only conversation ids are public, with the constraints of
each user's first message (``conversation_id``, ``decomposition``: a list of texts). The messages
themselves are in LMSYS-Chat-1M, which you have to request at its source and must not pass on. The
two are joined by id, as the authors do: the task is the first turn of the conversation. Categories
and domains are CSV files of the authors' repository, joined by text. Conversations that are not
among the chats are reported, never skipped silently.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid, DataMissing
from harness.plugins import import_extra
from harness.tasks._rows import Row, rows, unique

BUILTIN = Path(__file__).with_name("builtin.jsonl")
ENDINGS = (".parquet", ".jsonl", ".jsonl.gz")

LABEL = "category"
"""The label under which a criterion's category is recorded."""

OTHER = "Other"
"""What the classifier puts in none of the eight. The paper's figures exclude it."""

CATEGORIES: Mapping[str, str] = {
    "Style and Tone": "how it is written: register, formality, mood, whose style",
    "Include / Avoid": "what must be in the response, and what must not",
    "Format and Structure": "how the response is arranged: lists, tables, sections, layouts",
    "Length": "how long it is, in words, sentences, lines or by 'short'",
    "Persona and Role": "who speaks: a character, an expert, a point of view",
    "Focus / Emphasis": "what is to be given most room",
    "Ensure Quality": "what the response must be: accurate, coherent, complete, unbiased",
    "Editing": "what becomes of a given text, and what of it must stay",
}
"""Category -> what its constraints are about, in our words (also part of a builder's prompt)."""


def named(category: str) -> str:
    """Return a category as the paper writes it; one of another taxonomy unchanged.

    The authors' file adds a separate title after ``Other:`` for each such constraint.

    >>> named("include/avoid"), named("Other: *Visual Aesthetic*")
    ('Include / Avoid', 'Other')
    """
    text = category.strip()
    known = {_letters(name): name for name in (*CATEGORIES, OTHER)}.get(_letters(text))
    if known is None and re.match(r"\W*other\b\s*[:*]", text, re.IGNORECASE):
        return OTHER
    return known or text


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, text.lower()))


class Constraint(Struct, frozen=True):
    """One thing that a response must satisfy; the category is empty if unknown."""

    text: str
    category: str = ""


class WildIFEvalItem(Struct, frozen=True):
    """A user's instruction and its constraints; the domain is empty if unknown."""

    id: str
    task: str
    constraints: tuple[Constraint, ...]
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Joined:
    """The tasks that both files have, and ids of conversations that are not among the chats."""

    items: tuple[WildIFEvalItem, ...]
    missing: tuple[str, ...]


def read_items(path: Path) -> Iterator[WildIFEvalItem]:
    """Read the tasks of a file in order; one without an id is named by its number."""
    return unique((where, _item(row, where)) for where, row in rows(path))


def _item(row: Row, where: str) -> WildIFEvalItem:
    item = WildIFEvalItem(
        id=str(row.get("id") or where.rpartition(" ")[2]),
        task=_text(row.get("task"), f"{where}: task"),
        constraints=_constraints(row.get("constraints"), where),
        domain=str(row.get("domain") or ""),
    )
    announced = row.get("total_num_constraints")
    if announced is not None and announced != len(item.constraints):
        raise DataInvalid(
            f"{where}: {len(item.constraints)} constraints, but 'total_num_constraints' is "
            f"{announced!r}.",
            "A mapping keeps one of two equal constraints: write them as a list.",
        )
    return item


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataInvalid(f"{where} must be text.")
    return value


def _constraints(value: Any, where: str) -> tuple[Constraint, ...]:
    if isinstance(value, dict):
        value = [{"text": text, "category": category} for text, category in value.items()]
    if not isinstance(value, list) or not value:
        raise DataInvalid(
            f"{where}: constraints must be a mapping of texts to categories, or a list.",
            "Give each task at least one constraint.",
        )
    found = []
    for place, one in enumerate(value, start=1):
        row = one if isinstance(one, dict) else {"text": one}
        category = row.get("category") or ""
        if not isinstance(category, str):
            raise DataInvalid(f"{where}: the category of constraint {place} must be text.")
        text = _text(row.get("text"), f"{where}: constraint {place}")
        found.append(Constraint(text.strip(), named(category)))
    return tuple(found)


def is_public(path: Path) -> bool:
    """Return whether a data set is in the published format, not rows with the task's text."""
    if path.is_dir() or path.suffix == ".parquet":
        return True
    return "decomposition" in next(rows(path), ("", {}))[1]


def join(
    decompositions: Path,
    chats: Path,
    categories: Path | None = None,
    domains: Path | None = None,
) -> Joined:
    """Join the public data set to the chats; each place is a file, or a folder of files.

    Constraints and tasks that the CSV files do not name have no category or domain.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for where, name, found in _columns(decompositions, "decomposition"):
        if name in wanted:
            raise DataInvalid(f"{where}: the conversation {name!r} occurs twice.")
        if not isinstance(found, list) or not found:
            raise DataInvalid(f"{where}: the decomposition must be a list of constraints.")
        wanted[name] = tuple(_text(one, f"{where}: a constraint").strip() for one in found)
    tasks: dict[str, str] = {}
    for where, name, found in _columns(chats, "conversation", wanted):
        tasks.setdefault(name, _first_message(found, where))
    category_of = _table(categories, "constraint", "categories")
    domain_of = _table(domains, "task", "domain")
    items = tuple(
        WildIFEvalItem(
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
    """Return the task, as the authors' ``leave_only_first_request`` does."""
    first = conversation[0] if isinstance(conversation, list) and conversation else None
    content = first.get("content") if isinstance(first, dict) else None
    return _text(content, f"{where}: the first message of the conversation")


def _columns(
    place: Path, column: str, only: Collection[str] | None = None
) -> Iterator[tuple[str, str, Any]]:
    """Yield the place, the conversation id and one column of each row; ``only`` limits the ids."""
    for path in _files(place):
        if path.suffix == ".parquet":
            found = _parquet(path, column, only)
        else:
            found = ((row.get("conversation_id"), row.get(column)) for row in read_jsonl(path))
        for number, (name, value) in enumerate(found, start=1):
            where = f"{path}, item {number}"
            if not isinstance(name, str) or not name:
                raise DataInvalid(f"{where}: it has no conversation_id.")
            if only is None or name in only:
                yield where, name, value


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    every = sorted(path for path in place.rglob("*") if path.is_file())
    for ending in ENDINGS:  # of one format only: a folder may hold the same rows in two
        found = [path for path in every if path.name.endswith(ending)]
        if found:
            return found
    raise DataMissing(
        f"The folder {place} holds no file that ends with {', '.join(ENDINGS)}.",
        "Put the downloaded files there, or name them.",
    )


def _parquet(path: Path, column: str, only: Iterable[str] | None) -> Iterator[tuple[Any, Any]]:
    duckdb = import_extra("duckdb", "exchange")  # heavy, and needed for Parquet alone
    if not path.is_file():
        raise DataMissing(f"There is no file {path}.", "Check the path.")
    connection = duckdb.connect(":memory:", config={"threads": 2, "memory_limit": "500MB"})
    with connection:
        try:
            values: dict[str, Any] = {"path": str(path)}
            condition = ""
            if only is not None:  # of a million conversations only the wanted ones leave the file
                column = f"{column}[1:1]"
                condition = "WHERE conversation_id IN (SELECT unnest($only::VARCHAR[]))"
                values["only"] = list(only)
            query = f"SELECT conversation_id, {column} FROM read_parquet($path) {condition}"  # noqa: S608
            found = connection.execute(query, values)
            while fetched := found.fetchmany(1_000):
                yield from fetched
        except duckdb.Error as error:
            problem = " ".join(str(error).split())
            raise DataInvalid(f"{path}: not the expected Parquet file ({problem:.160}).") from None


def _table(path: Path | None, key: str, value: str) -> dict[str, str]:
    """Map one column of a CSV file to another; empty without a file."""
    table: dict[str, str] = {}
    for _, row in rows(path) if path else ():
        if not {key, value} <= row.keys():
            raise DataInvalid(f"{path}: must have the columns {key} and {value}.")
        table[row[key].strip()] = row[value].strip()
    return table
