"""Whether a document's root is of the type that its schema asks for: the RTV% of ConCodeEval."""

from __future__ import annotations

from decimal import Decimal
from typing import Any


def root_type_violated(value: Any, schema: Any) -> bool:
    """Whether the root is of another type than the schema's ``type``; integer and float are one.

    A schema that names no type asks for none.

    >>> root_type_violated(5.5, {"type": "integer"}), root_type_violated("5", {"type": "number"})
    (False, True)
    """
    named = schema.get("type") if isinstance(schema, dict) else None
    if named is None:
        return False
    names = named if isinstance(named, (list, tuple)) else [named]
    return _type(value) not in {"number" if name == "integer" else name for name in names}


def _type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float, Decimal)):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else type(value).__name__
