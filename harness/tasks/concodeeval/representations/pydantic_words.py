"""What pydantic v2 calls the keywords of JSON Schema, for the writer and the reader of its code.

A keyword that pydantic has no word for stands in ``json_schema_extra``, which is where pydantic's
own documentation puts it: https://docs.pydantic.dev/latest/concepts/json_schema/
"""

from __future__ import annotations

TYPES = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool",
    "null": "None",
    "array": "list",
    "object": "dict",
}

_NUMBER = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
}

ARGUMENTS: dict[str, dict[str, str]] = {
    "string": {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"},
    "number": _NUMBER,
    "integer": _NUMBER,
    "array": {"minItems": "min_length", "maxItems": "max_length"},
}
"""For each type, the arguments of ``Field`` by keyword."""

EXTRA = {True: "allow", False: "forbid"}
"""What ``additionalProperties`` is as ``ConfigDict(extra=…)``."""

LITERAL_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool}
"""Types whose ``enum`` and ``const`` are a ``Literal``, which says their type too."""


def is_literal(schema: dict[str, object]) -> bool:
    """Whether a ``Literal`` says all that the schema does."""
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in LITERAL_TYPES:
        return False
    if schema.keys() == {"type", "const"}:
        values = [schema["const"]]
    elif schema.keys() == {"type", "enum"} and isinstance(schema["enum"], list):
        values = schema["enum"]
        if len(values) < 2:  # a Literal of one value is a const
            return False
    else:
        return False
    distinct = {repr(value) for value in values}
    return len(distinct) == len(values) and all(type(v) is LITERAL_TYPES[kind] for v in values)
