"""Schemas: their draft, their limits, the positions of keywords, and the types they expect.

A schema is an object or a boolean of JSON's types. The limits bound the engines' work and stack;
the largest of 200 real schemas has 277 values and a depth of 13.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from harness.errors import DataInvalid, HarnessError
from harness.scoring.validators import limits
from harness.scoring.validators.limits import UnparseableDocument, follow, resolve

Draft = Literal["4", "6", "7", "2019-09", "2020-12"]
DRAFTS: tuple[Draft, ...] = ("4", "6", "7", "2019-09", "2020-12")
Path = tuple[str | int, ...]

MOST_VALUES = 50_000
"""Values in a schema."""

_URIS: dict[str, Draft] = {
    f"json-schema.org/{'draft-0' if len(draft) == 1 else 'draft/'}{draft}/schema": draft
    for draft in DRAFTS
}
_MAPS = frozenset(
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"]
)
"""Keywords whose members have names of the user's."""
_NOTHING = object()


class Undecided(HarnessError):
    """Whether a document is valid cannot be decided in bounded time: no verdict, and not 0."""


def draft_of(schema: Any, default: Draft) -> Draft:
    """Return the draft that ``$schema`` names, else the default."""
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
    """Count a schema's values; refuse what is not a schema, or exceeds the limits."""
    try:
        if not isinstance(schema, (dict, bool)):
            raise UnparseableDocument(
                f"it is a {type(schema).__name__}, not an object or a boolean"
            )
        count = limits.check_json(schema)
        if count > MOST_VALUES:
            raise UnparseableDocument(f"it has more than {MOST_VALUES:,} values")
    except UnparseableDocument as error:
        raise DataInvalid(f"This is not a JSON Schema: {error}.", "Fix the schema.") from None
    return count


def check_work(values: int, value: Any, most: int) -> None:
    """Raise Undecided if comparing each value of a schema with each of a document takes too long.

    Sixteen characters of the document count as one value.
    """
    largest = limits.MOST_NODES + limits.MOST_CHARACTERS // 16
    if values * largest <= most:  # however large the document is
        return
    nodes, characters, _ = measured(value)
    if values * (nodes + characters // 16) > most:
        raise Undecided(
            f"A document of {nodes:,} values and {characters:,} characters is too much for a"
            f" schema of {values:,} values."
        )


def measured(value: Any) -> tuple[int, int, int]:
    """Return a document's number of values, its characters and its depth."""
    nodes = characters = depth = 0
    for depth, level in enumerate(limits.levels(value, math.inf)):
        if depth > 2 * limits.DEEPEST:
            raise Undecided(f"The document is nested deeper than {2 * limits.DEEPEST} levels.")
        nodes += len(level)
        for one in level:
            if isinstance(one, (str, dict)):
                texts = [one] if isinstance(one, str) else one
                characters += sum(len(text) for text in texts if isinstance(text, str))
    return nodes, characters, depth


def keyword_at(path: Sequence[str | int]) -> str | None:
    """Return the keyword at the end of a path; None for a member's name or an index.

    >>> keyword_at(["properties", "items", "items", 0, "type"])
    'type'
    """
    keyword: str | None = None
    for token in path:
        keyword = None if keyword in _MAPS or isinstance(token, int) else token
    return keyword


def parts(schema: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each object within a schema with its path, the schema itself first."""
    stack: list[tuple[Path, Any]] = [((), schema)]
    while stack:
        path, one = stack.pop()
        if isinstance(one, dict):
            yield path, one
            stack.extend(((*path, key), below) for key, below in one.items())
        elif isinstance(one, list):
            stack.extend(((*path, index), below) for index, below in enumerate(one))


def last_name(uri: str) -> str:
    """Return the last part of a URI, without the fragment's mark."""
    return uri.removesuffix("#").rstrip("/").rsplit("/", 1)[-1]


def embedded(schema: Any) -> list[tuple[Path, str]]:
    """The parts that have an ``$id``: their paths, and the last part of their names."""
    found = ((path, one.get("$id", one.get("id"))) for path, one in parts(schema) if path)
    return [(path, last_name(uri)) for path, uri in found if isinstance(uri, str)]


def path_within(
    schema: Any, path: Sequence[str | int], inside: Sequence[tuple[Path, str]], uri: str | None
) -> Path:
    """Return a keyword's path from the root: engines begin paths at the embedded part it is in.

    That part is known from the keyword's URI, if the engine gives it; else it is the first one of
    those ``inside`` in which there is such a path.
    """
    name = last_name((uri or "").partition("#")[0])
    starts = [start for start, own in inside if uri and own == name]
    places = ((*start, *path) for start in (*starts, (), *(start for start, _ in inside)))
    found = (one for one in places if follow(schema, one, missing=_NOTHING) is not _NOTHING)
    return next(found, tuple(path))


def path_referred(reference: str, target: Any, schema: Any) -> Path | None:
    """Return the path to the target of a reference, or None if it is outside the schema."""
    if reference.startswith("#"):
        path = resolve(reference[1:], schema)
        if path is not None and follow(schema, path) is target:
            return path
    return next((path for path, one in parts(schema) if one is target), None)


# XML has only text: whether <all>5</all> is the number 5 or the string "5" follows from the schema:
# from `type`, `const` and `enum`, the type that a keyword applies to, local `$ref`, and `allOf`,
# `anyOf` and `oneOf`. If it leaves a choice, a text is null, a boolean or a number if it reads as
# one, else a string. A text that is none of what is allowed stays a string, for the validator.

_PYTHON_TYPES: dict[str, Any] = {
    "null": type(None),
    "boolean": bool,  # before numbers, which Python's are
    "number": (int, float, Decimal),
    "string": str,
    "array": list,
    "object": dict,
}
ALL = frozenset(_PYTHON_TYPES)
MOST_STEPS = 200
"""Subschemas that are examined for one element: recursive ones have no end."""

_APPLIES_TO = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"),
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
}


@dataclass(frozen=True, slots=True)
class Expected:
    """The subschemas that apply to one place, with references and combinations resolved."""

    schemas: tuple[dict[str, Any], ...]
    root: Any

    @classmethod
    def of(cls, *schemas: Any, root: Any = None) -> Expected:
        """Combine what some schemas say about one place; by default the first is the root."""
        root = schemas[0] if root is None and schemas else root
        return cls(tuple(_flat([*schemas], root)), root)

    @property
    def types(self) -> frozenset[str]:
        """Return the types that are allowed; all if the schema does not say."""
        named = [types for schema in self.schemas if (types := _types(schema))]
        if not named:
            return ALL
        return frozenset.intersection(*named) or frozenset().union(*named)  # of alternatives: all

    def values(self) -> list[Any]:
        """Return the values of ``const`` and ``enum`` in all schemas that apply."""
        found: list[Any] = []
        for schema in self.schemas:
            found += [schema["const"]] if "const" in schema else []
            found += schema["enum"] if isinstance(schema.get("enum"), list) else []
        return found

    def has_member(self, key: str) -> bool:
        """Return whether the schema has a property of this name."""
        return any(key in _properties(schema) for schema in self.schemas)

    def member(self, key: str) -> Expected:
        """Return what the schemas expect of an object's member."""
        found = []
        for schema in self.schemas:
            if key in _properties(schema):
                found.append(_properties(schema)[key])
            elif "additionalProperties" in schema and not schema.get("patternProperties"):
                found.append(schema["additionalProperties"])
        return Expected.of(*found, root=self.root)

    def item(self, index: int) -> Expected:
        """Return what the schemas expect of a list's item."""
        found = []
        for schema in self.schemas:
            first, rest = schema.get("prefixItems"), schema.get("items")
            if isinstance(rest, list):  # tuples before 2020-12
                first, rest = rest, schema.get("additionalItems")
            if isinstance(first, list) and index < len(first):
                found.append(first[index])
            elif rest is not None or "contains" in schema:
                found.append(schema["contains"] if rest is None else rest)
        return Expected.of(*found, root=self.root)


def scalar(text: str, expected: Expected) -> Any:
    """Convert an XML element's text, stripped, to a value."""
    readings: list[Any] = [text]
    if (number := limits.json_number(text)) is not None:
        readings.insert(0, number)
    if text in ("", "null", "true", "false"):
        readings.insert(0, {"true": True, "false": False}.get(text))
    allowed = [value for value in readings if type_of(value) in expected.types] or [text]
    named = [(type(one), one) for one in expected.values()]
    return next((value for value in allowed if (type(value), value) in named), allowed[0])


def _flat(schemas: list[Any], root: Any) -> Iterator[dict[str, Any]]:
    """Yield the subschemas with all that they refer to and combine, each once."""
    waiting, seen, steps = schemas[::-1], set(), 0
    while waiting and steps < MOST_STEPS:
        steps += 1
        schema = waiting.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        reference = schema.get("$ref")
        if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
            path = resolve(reference[1:], root)
            waiting.append(None if path is None else follow(root, path))
        for keyword in ("oneOf", "anyOf", "allOf"):
            if isinstance(schema.get(keyword), list):
                waiting.extend(reversed(schema[keyword]))


def _types(schema: dict[str, Any]) -> frozenset[str]:
    named = schema.get("type")
    if isinstance(named, (str, list)):
        names = [named] if isinstance(named, str) else named
        return ALL & {"number" if name == "integer" else str(name) for name in names}
    if "const" in schema:
        return frozenset({type_of(schema["const"])})
    if isinstance(schema.get("enum"), list):
        return frozenset(map(type_of, schema["enum"]))
    return frozenset(
        kind for kind, words in _APPLIES_TO.items() if any(word in schema for word in words)
    )


def type_of(value: Any) -> str:
    """Return a value's type as JSON Schema names it, with integers as numbers."""
    found = (name for name, kind in _PYTHON_TYPES.items() if isinstance(value, kind))
    return next(found, type(value).__name__)


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}
