"""What a JSON Schema is here, and how its keywords are named.

A keyword's name is the JSON Pointer (RFC 6901) that leads to it in the schema:
``/properties/order/minLength``; validators give the same as ``schema_path``.

>>> pointer("/properties", "a/b", "type")
'/properties/a~1b/type'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from harness.errors import DataInvalid

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema of the keywords that ConCodeEval has. Its values are JSON's own, so untyped."""

Representation: TypeAlias = Literal["json", "yaml", "xml", "python", "natural_language"]
Wording: TypeAlias = Literal["paper", "corrected"]
Spans: TypeAlias = Mapping[str, tuple[int, int]]
"""Where each keyword stands in a text: its pointer to the characters' offsets."""


def pointer(base: str, *tokens: object) -> str:
    """The pointer that leads further by some tokens."""
    escaped = (str(token).replace("~", "~0").replace("/", "~1") for token in tokens)
    return "/".join([base, *escaped])


MAPS_OF_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Keywords whose members have names of the user's, each with a schema."""

SCHEMAS = frozenset({"items", "contains", "additionalProperties"})
"""Keywords whose value is itself a schema."""


def keywords(schema: Schema, at: str = "") -> Iterator[tuple[str, str, Any]]:
    """Each keyword of a schema and of those in it: its pointer, its name, its value."""
    for keyword, value in schema.items():
        place = pointer(at, keyword)
        yield place, keyword, value
        if not isinstance(value, Mapping):
            continue
        if keyword in SCHEMAS:
            yield from keywords(value, place)
        elif keyword in MAPS_OF_SCHEMAS:
            for name, inner in value.items():
                if isinstance(inner, Mapping):
                    yield from keywords(inner, pointer(place, name))


DEEPEST = 64
"""Levels that a text that is read may have: the schemas of benchmarks have a handful."""


def as_schema(found: object, form: str) -> dict[str, Any]:
    """What was read, where it is an object and no deeper than schemas are.

    Raises: DataInvalid.
    """
    if not isinstance(found, dict):
        raise DataInvalid(
            f"The {form} schema is a {type(found).__name__}.", "A schema is an object."
        )
    level: list[Any] = [found]
    for _ in range(DEEPEST):
        members = (each for one in level for each in (one.values() if type(one) is dict else one))
        level = [each for each in members if isinstance(each, dict | list)]
        if not level:
            return found
    raise DataInvalid(f"The {form} schema has more than {DEEPEST} levels.", "Check its text.")
