"""Reads COLLIE's data: one constraint per line of JSONL, or per item of a YAML list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.errors import DataInvalid, nearest
from harness.scoring.constraints.grammar import Specification, read
from harness.scoring.constraints.render import instruction
from harness.tasks._rows import Row, rows, unique
from harness.tasks.collie.structures import level_of

BUILTIN = Path(__file__).with_name("builtin.jsonl")

READ = {"id", "level", "constraint", "targets", "prompt", "example", "structure", "source"}
IGNORED = {"group", "metadata", "oneshot_prompt", "near_misses"}
"""Keys of the published and built-in files that are not used here."""


class CollieItem(Struct, frozen=True):
    """A constraint with its prompt.

    Attributes:
        example: An answer that satisfies the constraint, or None.
    """

    id: str
    specification: Specification
    prompt: str
    example: str | None
    structure: str
    source: str


def read_items(path: Path) -> Iterator[CollieItem]:
    """Read the items of a file, in order.

    Raises:
        DataInvalid: An item is malformed, or its id occurs twice; the message names the place.
    """
    return unique((where, _item(row, where)) for where, row in rows(path))


def _item(raw: Row, where: str) -> CollieItem:
    for key in raw:
        if key not in READ and key not in IGNORED:
            raise DataInvalid(f"{where}: unknown key {key!r}.", nearest(str(key), READ))
    if not _text(raw, "id", where):
        raise DataInvalid(f"{where}: 'id' is missing.")
    structure = _text(raw, "structure", where)
    level = raw.get("level") or level_of(structure or "")
    if level is None:
        raise DataInvalid(
            f"{where}: 'level' is missing.",
            "Name the level of the text to generate: word, sentence, paragraph or passage.",
        )
    form: dict[str, Any] = {key: raw[key] for key in ("constraint", "targets") if key in raw}
    specification = read({**form, "level": level}, where)
    return CollieItem(
        id=_text(raw, "id", where) or "",
        specification=specification,
        prompt=_text(raw, "prompt", where) or instruction(specification),
        example=_text(raw, "example", where),
        structure=structure or "own",
        source=_text(raw, "source", where) or "own",
    )


def _text(raw: Row, key: str, where: str) -> str | None:
    value = raw.get(key)
    if value is None or isinstance(value, str):
        return value
    raise DataInvalid(f"{where}: {key!r} must be text, not {type(value).__name__}.")
