"""JSON pointers (RFC 6901): into values, and into the texts that the values were read from.

Each format's module makes a tree of `Node` from a text; `Node.at` follows a pointer through it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote

from harness.records import encodable
from harness.scoring.validators.limits import DEEPEST

Span = tuple[int, int]

_INDEX = re.compile("0|[1-9][0-9]{0,9}", re.ASCII)


def pointer(path: Iterable[str | int]) -> str:
    """Join a path to a JSON pointer."""
    return encodable(
        "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
    )


def tokens(path: str) -> list[str] | None:
    """Split a pointer into tokens; None if it is not one, or is deeper than any document."""
    if not path:
        return []
    if not path.startswith("/") or path.count("/") > DEEPEST + 2:
        return None
    return [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]


def follow(value: Any, path: Sequence[Any], missing: Any = None) -> Any:
    """Return the part of a document at a path of keys and indices; ``missing`` without one."""
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return missing
    return value


def resolve(fragment: str, schema: Any) -> tuple[str | int, ...] | None:
    """Resolve a reference's fragment (``/definitions/a``) to a path; None if it leads nowhere."""
    path: list[str | int] = []
    for part in unquote(fragment).split("/")[1:]:
        token = part.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, dict) and token in schema:
            path.append(token)
        elif isinstance(schema, list) and token.isdecimal() and int(token) < len(schema):
            path.append(int(token))
        else:
            return None
        schema = schema[path[-1]]
    return tuple(path)


@dataclass(slots=True)
class Node:
    """The position of a value in a text: the offsets of its first character, and after its last.

    It has items if it can be a list, and members if it can be an object.
    """

    start: int
    end: int
    items: list[Node] | None = None
    members: dict[str, Node] | None = None

    def at(self, path: Sequence[str]) -> Node | None:
        """Follow the tokens of a pointer to a value; None if they lead nowhere."""
        node: Node | None = self
        for token in path:
            node = node._below(token) if node else None
        return node

    def _below(self, token: str) -> Node | None:
        if self.items is not None and _INDEX.fullmatch(token):
            return self.items[int(token)] if int(token) < len(self.items) else None
        members = self.members or {}
        for key in reversed(members):
            if key == token or (not key.isascii() and encodable(key) == token):
                return members[key]
        return None


def third(offset: int, length: int) -> Literal["first", "middle", "last"]:
    """Return the third of a text of this length that an offset is in."""
    if 3 * offset < length or length <= 0:
        return "first"
    return "middle" if 3 * offset < 2 * length else "last"
