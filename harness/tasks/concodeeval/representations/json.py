"""A schema as JSON, indented by four as the paper's are.

Reading refuses what JSON has not (NaN, infinities) and members that come twice.

>>> render({"type": "string"}).text
'{\\n    "type": "string"\\n}'
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from harness.errors import DataInvalid
from harness.tasks.concodeeval.representations.marked import Marked, joined, marked
from harness.tasks.concodeeval.representations.schema import Schema, as_schema, pointer

INDENT = " " * 4


def render(schema: Schema) -> Marked:
    """The text that ``json.dumps(schema, indent=4, ensure_ascii=False)`` gives."""
    return _value(schema, "", "")


def read(text: str) -> dict[str, Any]:
    """The schema.

    Raises: DataInvalid where the text is not JSON, or no object.
    """
    try:
        found = json.loads(text, object_pairs_hook=_members, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DataInvalid(f"The schema is not JSON: {error}.", "Check its text.") from None
    return as_schema(found, "JSON")


def _value(value: Any, indent: str, at: str) -> Marked:
    """A value; the names of all members are marked, which of them are keywords or not."""
    inner = indent + INDENT
    if isinstance(value, dict) and value:
        lines = []
        for name, member in value.items():
            place = pointer(at, name)
            quoted = json.dumps(name, ensure_ascii=False)[1:-1]
            word = joined([f'{inner}"', marked(quoted, at=place), '": '])
            lines.append(word + _value(member, inner, place))
        return joined(["{\n", joined(lines, ",\n"), f"\n{indent}}}"])
    if isinstance(value, list) and value:
        items = (_value(item, inner, pointer(at, place)) for place, item in enumerate(value))
        return joined(
            ["[\n", joined((joined([inner, item]) for item in items), ",\n"), f"\n{indent}]"]
        )
    return Marked(json.dumps(value, ensure_ascii=False))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a member twice")
    return members


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
