"""Tasks with their constraints, as rows of plain JSONL.

    {"id": "poem", "task": "Write me a poem …", "domain": "Creative Writing",
     "constraints": {"The poem should be 16 lines long.": "Length"}}

That is the form of the examples in the paper's appendix. ``constraints`` may be a list, too, of
texts or of ``{"text": …, "category": …}``. What is foreign is refused with file and item named.

>>> [item.id for item in read_items(BUILTIN)][:1]
['puppet']
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.datasets.folder import read_jsonl
from harness.errors import DataInvalid
from harness.tasks.wildifeval.categories import named

BUILTIN = Path(__file__).with_name("builtin.jsonl")


class Constraint(Struct, frozen=True):
    """One thing that a response must satisfy.

    category: empty where nobody has said.
    """

    text: str
    category: str = ""


class Item(Struct, frozen=True):
    """A user's instruction and what it asks for.

    domain: empty where nobody has said.
    """

    id: str
    task: str
    constraints: tuple[Constraint, ...]
    domain: str = ""


def read_items(path: Path) -> Iterator[Item]:
    """The tasks of a file, in its order; one without an id has its number for one.

    Raises: DataInvalid, naming file and item; DataMissing where it cannot be read.
    """
    seen = set[str]()
    for number, row in enumerate(read_jsonl(path), start=1):
        where = f"{path}, item {number}"
        item = Item(
            id=str(row.get("id") or number),
            task=text_of(row.get("task"), f"{where}: task"),
            constraints=_constraints(row.get("constraints"), where),
            domain=str(row.get("domain") or ""),
        )
        said = row.get("total_num_constraints")
        if said is not None and said != len(item.constraints):
            raise DataInvalid(
                f"{where}: {len(item.constraints)} constraints, where it says {said!r}.",
                "A constraint that stands there twice is read once: write them as a list.",
            )
        if item.id in seen:
            raise DataInvalid(f"{where}: the id {item.id!r} is that of an earlier item.")
        seen.add(item.id)
        yield item
    if not seen:
        raise DataInvalid(f"{path} holds no items.", "Write a JSON object on each line.")


def text_of(value: Any, where: str) -> str:
    """A text that says something. Raises: DataInvalid."""
    if not isinstance(value, str) or not value.strip():
        raise DataInvalid(f"{where} must be a text.")
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
            raise DataInvalid(f"{where}: the category of constraint {place} must be a text.")
        text = text_of(row.get("text"), f"{where}: constraint {place}")
        found.append(Constraint(text.strip(), named(category)))
    return tuple(found)
