"""What a schema says about an XML element that does not declare its own type.

XML has only text: whether ``<all>5</all>`` is the number 5 or the string "5" follows from the
schema. Used for that are ``type``, ``const`` and ``enum``, the type that a keyword applies to
(``minLength``: a string), local ``$ref``, and ``allOf`` / ``anyOf`` / ``oneOf``. If the schema
leaves a choice, a text is null, a boolean or a number if it reads as one, else a string. Nothing is
validated
here: a text that is none of what is allowed stays a string, for the validator to report.

>>> scalar("5", Expected.of({"type": "string"})), scalar("5", Expected.of({"type": "number"}))
('5', 5)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from harness.scoring.validators.limits import json_number
from harness.scoring.validators.paths import follow, resolve

ALL = frozenset({"null", "boolean", "number", "string", "array", "object"})
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
    """All that a schema says about one place, with alternatives joined.

    Attributes:
        schemas: The subschemas that apply there, references and combinations resolved.
        root: The whole schema, for references.
    """

    schemas: tuple[dict[str, Any], ...]
    root: Any

    @classmethod
    def of(cls, *schemas: Any, root: Any = None) -> Expected:
        """What some schemas say about one place; the root is the first by default."""
        root = schemas[0] if root is None and schemas else root
        return cls(tuple(_flat([*schemas], root)), root)

    @property
    def types(self) -> frozenset[str]:
        """The types that may be there; all if the schema does not say."""
        named = [types for schema in self.schemas if (types := _types(schema))]
        if not named:
            return ALL
        return frozenset.intersection(*named) or frozenset().union(*named)  # of alternatives: all

    def values(self) -> list[Any]:
        """The values of ``const`` and ``enum``, of all that apply."""
        found: list[Any] = []
        for schema in self.schemas:
            if "const" in schema:
                found.append(schema["const"])
            if isinstance(schema.get("enum"), list):
                found.extend(schema["enum"])
        return found

    def has_member(self, key: str) -> bool:
        """Whether the schema has a property of this name."""
        return any(key in _properties(schema) for schema in self.schemas)

    def member(self, key: str) -> Expected:
        """What is said about an object's member."""
        found = []
        for schema in self.schemas:
            properties = _properties(schema)
            if key in properties:
                found.append(properties[key])
            elif "additionalProperties" in schema and not schema.get("patternProperties"):
                found.append(schema["additionalProperties"])
        return Expected.of(*found, root=self.root)

    def item(self, index: int) -> Expected:
        """What is said about a list's item."""
        found = []
        for schema in self.schemas:
            first, rest = schema.get("prefixItems"), schema.get("items")
            if isinstance(rest, list):  # tuples before 2020-12
                first, rest = rest, schema.get("additionalItems")
            if isinstance(first, list) and index < len(first):
                found.append(first[index])
            elif rest is not None:
                found.append(rest)
            elif "contains" in schema:
                found.append(schema["contains"])
        return Expected.of(*found, root=self.root)


def scalar(text: str, expected: Expected) -> Any:
    """The value of an element's text, stripped."""
    readings: list[tuple[str, Any]] = []
    if text in ("", "null"):
        readings.append(("null", None))
    if text in ("true", "false"):
        readings.append(("boolean", text == "true"))
    number = json_number(text)
    if number is not None:
        readings.append(("number", number))
    readings.append(("string", text))
    types = expected.types
    allowed = [value for kind, value in readings if kind in types]
    values = expected.values()
    for value in allowed:
        if any(type(value) is type(one) and value == one for one in values):
            return value
    return allowed[0] if allowed else text


def _flat(schemas: list[Any], root: Any) -> Iterator[dict[str, Any]]:
    """The subschemas with all that they refer to and combine, each once."""
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
    """A value's type as JSON Schema names it, with integers as numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float, Decimal)):
        return "number"
    names = {str: "string", dict: "object", list: "array"}
    return next(
        (name for kind, name in names.items() if isinstance(value, kind)), type(value).__name__
    )


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}
