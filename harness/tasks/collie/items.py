"""Reading COLLIE's data: one constraint per line of JSONL, or per item of a YAML list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid, nearest
from harness.scoring.constraints.form import read
from harness.scoring.constraints.grammar import Specification
from harness.scoring.constraints.render import instruction
from harness.tasks.collie.structures import level_of

BUILTIN = Path(__file__).with_name("builtin.jsonl")

READ = {"id", "level", "constraint", "targets", "prompt", "example", "structure", "source"}
IGNORED = {"group", "metadata", "oneshot_prompt", "near_misses"}
"""In published or built-in files, and not needed here."""


class Item(Struct, frozen=True):
    """What COLLIE needs to know of an instance.

    example: an answer that satisfies the constraint, None where none is given.
    """

    id: str
    specification: Specification
    prompt: str
    example: str | None
    structure: str
    source: str


def read_items(path: Path) -> Iterator[Item]:
    """The items of a file, in order.

    Raises: DataInvalid, naming the place, for what is malformed or an id that comes twice.
    """
    seen: set[str] = set()
    for where, raw in _raw(path):
        item = _item(raw, where)
        if item.id in seen:
            raise DataInvalid(f"{where}: the id {item.id!r} comes twice.")
        seen.add(item.id)
        yield item


def _raw(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if path.suffix not in (".yaml", ".yml"):
        for number, line in enumerate(read_jsonl(path), start=1):
            yield f"{path}, item {number}", line
        return
    try:
        items = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise DataInvalid(f"{path}: not YAML ({error}).") from None
    if not isinstance(items, list):
        raise DataInvalid(f"{path}: must be a list of constraints.")
    for number, item in enumerate(items, start=1):
        where = f"{path}, item {number}"
        if not isinstance(item, dict):
            raise DataInvalid(f"{where}: must be a mapping.")
        yield where, item


def _item(raw: dict[str, Any], where: str) -> Item:
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
            "Write the level of the text to generate: word, sentence, paragraph or passage.",
        )
    form: dict[str, Any] = {key: raw[key] for key in ("constraint", "targets") if key in raw}
    specification = read({**form, "level": level}, where)
    return Item(
        id=_text(raw, "id", where) or "",
        specification=specification,
        prompt=_text(raw, "prompt", where) or instruction(specification),
        example=_text(raw, "example", where),
        structure=structure or "own",
        source=_text(raw, "source", where) or "own",
    )


def _text(raw: dict[str, Any], key: str, where: str) -> str | None:
    value = raw.get(key)
    if value is None or isinstance(value, str):
        return value
    raise DataInvalid(f"{where}: {key!r} must be a text, not {type(value).__name__}.")
