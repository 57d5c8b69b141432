"""Paths in a schema: what is a keyword there, and where a part of it stands.

Owns what the engines leave open of where a violated keyword is: they speak of parts behind a
reference as if these began a schema of their own.

>>> keyword_at(["properties", "items", "items", 0, "type"])
'type'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from harness.scoring.validators.violations import follow

Path = tuple[str | int, ...]

_NAMED = frozenset(
    {
        "$defs",
        "definitions",
        "dependencies",
        "dependentSchemas",
        "patternProperties",
        "properties",
    }
)
"""Keywords whose members have names of the user's."""


def keyword_at(path: Sequence[str | int]) -> str | None:
    """The keyword that a path ends in; None where it ends in a member's name or an index."""
    keyword: str | None = None
    for token in path:
        keyword = None if keyword in _NAMED or isinstance(token, int) else token
    return keyword


def parts(schema: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each object within a schema and the path to it, itself first."""
    stack: list[tuple[Path, Any]] = [((), schema)]
    while stack:
        path, one = stack.pop()
        if isinstance(one, dict):
            yield path, one
            stack.extend(((*path, key), below) for key, below in one.items())
        elif isinstance(one, list):
            stack.extend(((*path, index), below) for index, below in enumerate(one))


def embedded(schema: Any) -> list[tuple[Path, str]]:
    """The parts that have an ``$id`` of their own: their paths, and the last of their names."""
    return [
        (path, _last(name))
        for path, one in parts(schema)
        if path and isinstance(name := one.get("$id", one.get("id")), str)
    ]


def within(
    schema: Any, path: Sequence[str | int], inside: Sequence[tuple[Path, str]], location: str | None
) -> Path:
    """A path from the schema's root, of one that may begin at an embedded part.

    inside: the `embedded` parts.
    location: the keyword's URI, where the engine knows it; else the first part that has such a
        path is taken for it.
    """
    named = _last((location or "").partition("#")[0])
    starts = [start for start, name in inside if location and name == named]
    for start in (*starts, (), *(start for start, _ in inside)):
        if leads((*start, *path), schema):
            return (*start, *path)
    return tuple(path)


def referred(reference: str, target: Any, schema: Any) -> Path | None:
    """The path to what a reference leads to; None where that is not within the schema.

    target: what it leads to.
    """
    if reference.startswith("#"):
        tokens = unquote(reference[1:]).split("/")[1:]
        path = _followed([token.replace("~1", "/").replace("~0", "~") for token in tokens], schema)
        if path is not None and follow(schema, path) is target:
            return path
    return next((path for path, one in parts(schema) if one is target), None)


def leads(path: Sequence[str | int], schema: Any) -> bool:
    """Whether there is anything at a path."""
    if not path:
        return True
    above = follow(schema, path[:-1])
    if isinstance(above, dict):
        return path[-1] in above
    return isinstance(above, list) and isinstance(path[-1], int) and path[-1] < len(above)


def _followed(tokens: Sequence[str], schema: Any) -> Path | None:
    path: list[str | int] = []
    for token in tokens:
        if isinstance(schema, dict) and token in schema:
            path.append(token)
        elif isinstance(schema, list) and token.isdecimal() and int(token) < len(schema):
            path.append(int(token))
        else:
            return None
        schema = schema[path[-1]]
    return tuple(path)


def _last(name: str) -> str:
    return name.removesuffix("#").rstrip("/").rsplit("/", 1)[-1]
