"""Schemas as they come in: what is none is refused before an engine sees it.

A schema is an object or a boolean of JSON's types. The limits keep the engines' work and stack
bounded; the largest of 200 real schemas has 277 values and a depth of 13.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from harness.errors import DataInvalid, HarnessError
from harness.scoring.validators.json_text import encodable
from harness.scoring.validators.numbers import finite
from harness.scoring.validators.unreadable import DEEPEST, MOST_DIGITS

MOST_VALUES = 50_000
"""In a schema."""


class Undecided(HarnessError):
    """Whether a document is valid cannot be found out in a bounded time: no verdict, and no 0."""


def check_schema(schema: Any) -> int:
    """How many values a schema has.

    Raises: DataInvalid where it is no schema, or beyond the limits.
    """
    if not isinstance(schema, (dict, bool)):
        raise _no_schema(f"it is {_type(schema)}, not an object or a boolean")
    level: list[Any] = [schema]
    count, depth = 0, 0
    while level:
        count += len(level)
        if count > MOST_VALUES:
            raise _no_schema(f"it has more than {MOST_VALUES:,} values")
        if depth > DEEPEST:
            raise _no_schema(f"it is nested deeper than {DEEPEST} levels")
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                if not all(isinstance(key, str) for key in one):
                    raise _no_schema("it has a key that is no text")
                below.extend(one.values())
            elif isinstance(one, (list, tuple)):
                below.extend(one)
            else:
                _check_scalar(one)
        level, depth = below, depth + 1
    if not encodable(schema):
        raise _no_schema("it has half of a surrogate pair, which is no character")
    return count


def _check_scalar(value: Any) -> None:
    if isinstance(value, (int, float, Decimal)):
        if not finite(value):
            raise _no_schema(f"{value} is no number of JSON")
        if isinstance(value, Decimal):
            long = len(value.as_tuple().digits) + abs(value.adjusted()) > 2 * MOST_DIGITS
        else:
            long = isinstance(value, int) and value.bit_length() > 4 * MOST_DIGITS
        if long:
            raise _no_schema(f"it has a number of more than {MOST_DIGITS:,} digits")
    elif value is not None and not isinstance(value, str):
        raise _no_schema(f"{_type(value)} is no type of JSON")


def _type(value: Any) -> str:
    return f"a {type(value).__name__}"


def _no_schema(problem: str) -> DataInvalid:
    return DataInvalid(f"This is no JSON Schema: {problem}.", "Mend the schema.")


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
