"""The keywords of a schema that an instance can break, and the way to where each is broken.

Not those within ``contains``: an item that does not match it breaks ``contains`` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from harness.builders.concodeeval.valid import draw, other_name
from harness.builders.draws import Draws
from harness.tasks.concodeeval.representations.schema import Schema, pointer

Step = tuple[Literal["property", "item", "additional"], str]
UNBREAKABLE = frozenset({"properties", "items"})
"""Keywords that are never broken themselves: what they hold is."""


@dataclass(frozen=True, slots=True)
class Target:
    """A keyword to break.

    schema_path: JSON Pointer of the keyword in the schema.
    schema: the part of the schema that has the keyword.
    route: how an instance gets from its root to what that part speaks of.
    """

    keyword: str
    schema_path: str
    schema: Schema
    route: tuple[Step, ...]


def targets(schema: Schema, at: str = "", route: tuple[Step, ...] = ()) -> Iterator[Target]:
    """All of them, outer ones first."""
    for keyword, value in schema.items():
        allows_all = keyword == "additionalProperties" and value is not False
        if keyword not in UNBREAKABLE and not allows_all:
            yield Target(keyword, pointer(at, keyword), schema, route)
    inner: list[tuple[Any, str, Step]] = [
        (each, pointer(at, "properties", name), ("property", name))
        for name, each in schema.get("properties", {}).items()
    ]
    inner.append((schema.get("items"), pointer(at, "items"), ("item", "")))
    extra = schema.get("additionalProperties")
    inner.append((extra, pointer(at, "additionalProperties"), ("additional", "")))
    for each, place, step in inner:
        if isinstance(each, dict):
            yield from targets(each, place, (*route, step))


def replaced(
    value: Any,
    schema: Schema,
    route: tuple[Step, ...],
    by: Callable[[Any], Any],
    draws: Draws,
) -> tuple[Any, str]:
    """The instance with what is at the end of a route replaced, and the pointer to there.

    What the route leads through is drawn where the instance has not got it.

    Raises: NoInstanceError where that cannot be drawn.
    """
    if not route:
        return by(value), ""
    (kind, name), *rest = route
    if kind == "item":
        items = list(value)
        inner = schema["items"]
        if not items:
            items.append(draw(inner, draws))
        key: Any = draws.integer(0, len(items) - 1)
        new, below = replaced(items[key], inner, tuple(rest), by, draws)
        items[key] = new
        return items, pointer("", key) + below
    members = dict(value)
    if kind == "property":
        inner, key = schema["properties"][name], name
    else:
        inner, key = schema["additionalProperties"], other_name(schema, members, draws)
    old = members[key] if key in members else draw(inner, draws)
    members[key], below = replaced(old, inner, tuple(rest), by, draws)
    return members, pointer("", key) + below
