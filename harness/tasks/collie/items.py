"""Reads COLLIE's data: one constraint per line of JSONL, or per item of a YAML list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from harness.errors import DataInvalid
from harness.scoring.constraints.grammar import Level, Specification, read
from harness.scoring.constraints.render import instruction
from harness.tasks._rows import Row, converted, rows, unique

BUILTIN = Path(__file__).with_name("builtin.jsonl")

IGNORED = ("group", "metadata", "oneshot_prompt", "near_misses")
"""Keys of the published and built-in files that are not used here."""

LEVELS: dict[str, Level] = {
    "word": "word",
    "sent": "sentence",
    "para": "paragraph",
    "pass": "passage",
}
"""First letters of a structure's name -> the level of its texts.

The published constraints do not say their level; the structure's name (``sent03``) does.
"""


class CollieItem(Struct, frozen=True):
    """A constraint with its prompt, and an example that satisfies it or None."""

    id: str
    specification: Specification
    prompt: str
    example: str | None
    structure: str
    source: str


class _Row(Struct):
    id: Annotated[str, Meta(min_length=1)]
    level: Any = None
    constraint: Any = None
    targets: Any = None
    prompt: str | None = None
    example: str | None = None
    structure: str | None = None
    source: str | None = None


def read_items(path: Path) -> Iterator[CollieItem]:
    """Read the items of a file, in order."""
    return unique((where, _item(row, where)) for where, row in rows(path))


def _item(raw: Row, where: str) -> CollieItem:
    row = converted(raw, _Row, where, IGNORED)
    level = row.level or LEVELS.get((row.structure or "")[:4])
    if level is None:
        raise DataInvalid(
            f"{where}: 'level' is missing.",
            "Name the level of the text to generate: word, sentence, paragraph or passage.",
        )
    form: dict[str, Any] = {key: raw[key] for key in ("constraint", "targets") if key in raw}
    specification = read({**form, "level": level}, where)
    return CollieItem(
        row.id,
        specification,
        row.prompt or instruction(specification),
        row.example,
        row.structure or "own",
        row.source or "own",
    )
