"""What a schema says about an XML element that does not say itself what it is.

XML has texts only: whether ``<all>5</all>`` is the number 5 or the text "5" is known from the
schema. Read for that are ``type``, ``const`` and ``enum``, what a keyword speaks of (``minLength``:
a string), local ``$ref``, and ``allOf`` / ``anyOf`` / ``oneOf``. Where it leaves a choice, a
text is null, a boolean or a number if it reads as one, else a string. Nothing is validated here: a
text that is none of what is allowed stays a string, and the validator says so.

>>> scalar("5", Form.of({"type": "string"})), scalar("5", Form.of({"type": "number"}))
('5', 5)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from harness.scoring.validators.numbers import read_json_number

ALL = frozenset({"null", "boolean", "number", "string", "array", "object"})
MOST_STEPS = 200
"""Subschemas that are looked at for one element: recursive ones have no end."""

_SPEAKS_OF = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"),
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
}


@dataclass(frozen=True, slots=True)
class Form:
    """All that the schema says of one place: alternatives are joined, not told apart.

    schemas: the subschemas that apply there, references and combinations resolved.
    root: the whole schema, for references.
    """

    schemas: tuple[dict[str, Any], ...]
    root: Any

    @classmethod
    def of(cls, schema: Any) -> Form:
        """What a whole schema says of the root element."""
        return cls(tuple(_flat([schema], schema)), schema)

    @property
    def types(self) -> frozenset[str]:
        """What may be there; everything where the schema does not say."""
        said = [types for schema in self.schemas if (types := _types(schema))]
        if not said:
            return ALL
        common = frozenset.intersection(*said)
        return common or frozenset().union(*said)  # of alternatives: each of them

    def members(self) -> list[Any]:
        """The values of ``const`` and ``enum``, of all that apply."""
        found: list[Any] = []
        for schema in self.schemas:
            if "const" in schema:
                found.append(schema["const"])
            if isinstance(schema.get("enum"), list):
                found.extend(schema["enum"])
        return found

    def has_member(self, key: str) -> bool:
        """Whether a property of this name is spoken of."""
        return any(key in _mapping(schema, "properties") for schema in self.schemas)

    def member(self, key: str) -> Form:
        """What is said of an object's member."""
        found = []
        for schema in self.schemas:
            properties = _mapping(schema, "properties")
            if key in properties:
                found.append(properties[key])
            elif "additionalProperties" in schema and not schema.get("patternProperties"):
                found.append(schema["additionalProperties"])
        return Form(tuple(_flat(found, self.root)), self.root)

    def item(self, index: int) -> Form:
        """What is said of a list's member."""
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
        return Form(tuple(_flat(found, self.root)), self.root)


def scalar(text: str, form: Form) -> Any:
    """The value of an element's text, stripped."""
    readings: list[tuple[str, Any]] = []
    if text in ("", "null"):
        readings.append(("null", None))
    if text in ("true", "false"):
        readings.append(("boolean", text == "true"))
    number = read_json_number(text)
    if number is not None:
        readings.append(("number", number))
    readings.append(("string", text))
    types = form.types
    allowed = [value for kind, value in readings if kind in types]
    members = form.members()
    for value in allowed:
        if any(type(value) is type(one) and value == one for one in members):
            return value
    return allowed[0] if allowed else text


def _flat(schemas: list[Any], root: Any) -> Iterator[dict[str, Any]]:
    """The subschemas with all that they refer to and combine, each once."""
    waiting, seen, steps = list(reversed(schemas)), set(), 0
    while waiting and steps < MOST_STEPS:
        steps += 1
        schema = waiting.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        if isinstance(schema.get("$ref"), str):
            waiting.append(_referred(schema["$ref"], root))
        for keyword in ("oneOf", "anyOf", "allOf"):
            if isinstance(schema.get(keyword), list):
                waiting.extend(reversed(schema[keyword]))


def _referred(reference: str, root: Any) -> Any:
    """The target of a JSON pointer into the schema; None where it is another kind of reference."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    target = root
    for part in unquote(reference[2:]).split("/") if reference != "#" else ():
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict):
            target = target.get(key)
        elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
            target = target[int(key)]
        else:
            return None
    return target


def _types(schema: dict[str, Any]) -> frozenset[str]:
    named = schema.get("type")
    if isinstance(named, (str, list)):
        names = [named] if isinstance(named, str) else named
        return ALL & {"number" if name == "integer" else str(name) for name in names}
    if "const" in schema:
        return frozenset({_type_of(schema["const"])})
    if isinstance(schema.get("enum"), list):
        return frozenset(map(_type_of, schema["enum"]))
    return frozenset(
        kind for kind, keywords in _SPEAKS_OF.items() if any(word in schema for word in keywords)
    )


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kind, classes in (("string", str), ("array", list), ("object", dict)):
        if isinstance(value, classes):
            return kind
    return "number"


def _mapping(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}
