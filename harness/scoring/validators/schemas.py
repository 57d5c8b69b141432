"""Schemas: their draft, their limits, and where in them a violated keyword is.

A schema is an object or a boolean of JSON's types. The limits bound the engines' work and stack;
the largest of 200 real schemas has 277 values and a depth of 13.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from harness.errors import DataInvalid, HarnessError
from harness.scoring.validators.limits import DEEPEST, UnparseableDocument, check_json
from harness.scoring.validators.paths import follow, resolve

Draft = Literal["4", "6", "7", "2019-09", "2020-12"]
DRAFTS: tuple[Draft, ...] = ("4", "6", "7", "2019-09", "2020-12")
Path = tuple[str | int, ...]

MOST_VALUES = 50_000
"""Values in a schema."""

_URIS: dict[str, Draft] = {
    "json-schema.org/draft-04/schema": "4",
    "json-schema.org/draft-06/schema": "6",
    "json-schema.org/draft-07/schema": "7",
    "json-schema.org/draft/2019-09/schema": "2019-09",
    "json-schema.org/draft/2020-12/schema": "2020-12",
}
_MAPS = frozenset(
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


class Undecided(HarnessError):
    """Whether a document is valid cannot be decided in bounded time: no verdict, and not 0."""


def draft_of(schema: Any, default: Draft) -> Draft:
    """The draft that ``$schema`` names, else the default.

    Raises:
        DataInvalid: It names a draft that is not supported.

    >>> draft_of({"$schema": "http://json-schema.org/draft-07/schema#"}, "2020-12")
    '7'
    """
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if uri is None:
        return default
    if isinstance(uri, str):
        bare = uri.strip().removesuffix("#").removeprefix("https://").removeprefix("http://")
        if bare in _URIS:
            return _URIS[bare]
    raise DataInvalid(
        f"The schema's $schema is {str(uri)[:80]!r}, which is not a supported draft.",
        f"Supported are drafts {', '.join(DRAFTS)}; without $schema the configured one applies.",
    )


def check_schema(schema: Any) -> int:
    """Count a schema's values.

    Raises:
        DataInvalid: It is not a schema, or exceeds the limits.
    """
    problem = ""
    if not isinstance(schema, (dict, bool)):
        problem = f"it is a {type(schema).__name__}, not an object or a boolean"
    else:
        try:
            count = check_json(schema)
            if count > MOST_VALUES:
                problem = f"it has more than {MOST_VALUES:,} values"
        except UnparseableDocument as error:
            problem = str(error)
    if problem:
        raise DataInvalid(f"This is not a JSON Schema: {problem}.", "Fix the schema.")
    return count


def measured(value: Any) -> tuple[int, int, int]:
    """A document's number of values, its characters and its depth."""
    nodes, characters, depth = 0, 0, 0
    level: list[Any] = [value]
    while level:
        nodes += len(level)
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                characters += len(one)
            elif isinstance(one, dict):
                below.extend(one.values())
                characters += sum(len(key) for key in one if isinstance(key, str))
            elif isinstance(one, (list, tuple)):
                below.extend(one)
        level, depth = below, depth + 1
        if depth > 2 * DEEPEST:
            raise Undecided(f"The document is nested deeper than {2 * DEEPEST} levels.")
    return nodes, characters, depth - 1


def keyword_at(path: Sequence[str | int]) -> str | None:
    """The keyword that a path ends in; None if it ends in a member's name or an index.

    >>> keyword_at(["properties", "items", "items", 0, "type"])
    'type'
    """
    keyword: str | None = None
    for token in path:
        keyword = None if keyword in _MAPS or isinstance(token, int) else token
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


def last_name(uri: str) -> str:
    """The last part of a URI, without the fragment's mark."""
    return uri.removesuffix("#").rstrip("/").rsplit("/", 1)[-1]


def embedded(schema: Any) -> list[tuple[Path, str]]:
    """The parts with an ``$id`` of their own: their paths, and the last part of their names."""
    return [
        (path, last_name(uri))
        for path, one in parts(schema)
        if path and isinstance(uri := one.get("$id", one.get("id")), str)
    ]


def path_within(
    schema: Any, path: Sequence[str | int], inside: Sequence[tuple[Path, str]], uri: str | None
) -> Path:
    """A keyword's path from the root: engines begin paths at the embedded part that it is in.

    Args:
        schema: The whole schema.
        path: The engine's path.
        inside: The `embedded` parts.
        uri: The keyword's URI, if the engine gives it; else the first part with such a path is it.
    """
    name = last_name((uri or "").partition("#")[0])
    starts = [start for start, own in inside if uri and own == name]
    for start in (*starts, (), *(start for start, _ in inside)):
        whole = (*start, *path)
        above = follow(schema, whole[:-1])
        is_member = isinstance(above, dict) and bool(whole) and whole[-1] in above
        is_item = isinstance(above, list) and isinstance(whole[-1], int) and whole[-1] < len(above)
        if not whole or is_member or is_item:
            return whole
    return tuple(path)


def path_referred(reference: str, target: Any, schema: Any) -> Path | None:
    """The path to the target of a reference; None if it is not within the schema."""
    if reference.startswith("#"):
        path = resolve(reference[1:], schema)
        if path is not None and follow(schema, path) is target:
            return path
    return next((path for path, one in parts(schema) if one is target), None)
