"""What an answer violates: one small record for each, the same whichever engine found it.

>>> Violation("/age", "minimum", "0", "-1").message
'/age: -1 is less than 0'
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from harness.records import encodable

LONGEST = 120
"""Characters of a value that is shown."""

_SAYS = {
    "type": "{found} is not of type {expected}",
    "required": "the member {expected} is missing",
    "additionalProperties": "members beyond the schema's: {found}",
    "unevaluatedProperties": "members beyond the schema's: {found}",
    "additionalItems": "more items than the schema has",
    "unevaluatedItems": "items beyond the schema's",
    "minimum": "{found} is less than {expected}",
    "exclusiveMinimum": "{found} is not more than {expected}",
    "maximum": "{found} is more than {expected}",
    "exclusiveMaximum": "{found} is not less than {expected}",
    "multipleOf": "{found} is no multiple of {expected}",
    "minLength": "{found} is shorter than {expected} characters",
    "maxLength": "{found} is longer than {expected} characters",
    "format": "{found} is no {expected}",
    "pattern": "{found} does not match {expected}",
    "minItems": "fewer than {expected} items",
    "maxItems": "more than {expected} items",
    "uniqueItems": "items come twice",
    "contains": "no item is as contains asks",
    "minContains": "fewer than {expected} items are as contains asks",
    "maxContains": "more than {expected} items are as contains asks",
    "minProperties": "fewer than {expected} members",
    "maxProperties": "more than {expected} members",
    "const": "{found} is not {expected}",
    "enum": "{found} is none of {expected}",
    "falseSchema": "nothing is allowed here",
    "anyOf": "{found} is as none of the alternatives asks",
    "oneOf": "{found} is not as exactly one of the alternatives asks",
    "not": "{found} is what it must not be",
}


class Violation(Struct, frozen=True):
    """One constraint that a value breaks.

    path: JSON pointer to the value; empty for the whole document.
    keyword: the schema's keyword; ``falseSchema`` where a schema is plain false.
    expected, found: the keyword's value and the document's, as JSON, cut where long.
    schema_path: JSON pointer to the keyword in the schema, references followed to where they lead;
        for ``falseSchema`` to that schema. Empty for the schema itself, and for a keyword that is
        not within it (of a draft's own meta-schema).
    """

    path: str
    keyword: str
    expected: str
    found: str
    schema_path: str = ""

    @property
    def message(self) -> str:
        """In a few words, with the place."""
        says = _SAYS.get(self.keyword, "{keyword} is violated")
        said = says.format(keyword=self.keyword, expected=self.expected, found=self.found)
        return f"{self.path}: {said}" if self.path else said


def pointer(path: Iterable[str | int]) -> str:
    """A JSON pointer (RFC 6901).

    >>> pointer(["a/b", 0])
    '/a~1b/0'
    """
    return encodable(
        "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
    )


def follow(value: Any, path: Sequence[Any]) -> Any:
    """The part of a document that a path leads to; None where it leads nowhere."""
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def shown(value: Any, longest: int = LONGEST) -> str:
    """A value as JSON on one line; no more of it is written than is shown.

    >>> shown(["a", 1.5, None], 8)
    '["a", 1…'
    """
    pieces, length = [], 0
    for piece in _pieces(value, longest):
        pieces.append(piece)
        length += len(piece)
        if length > longest:
            break
    text = encodable("".join(pieces))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _pieces(value: Any, longest: int) -> Iterator[str]:
    if isinstance(value, str):
        yield json.dumps(value[: longest + 1], ensure_ascii=False)
    elif isinstance(value, dict):
        yield "{"
        for position, (key, one) in enumerate(value.items()):
            yield ", " if position else ""
            yield json.dumps(key[: longest + 1] if isinstance(key, str) else str(key))
            yield ": "
            yield from _pieces(one, longest)
        yield "}"
    elif isinstance(value, (list, tuple)):
        yield "["
        for position, one in enumerate(value):
            yield ", " if position else ""
            yield from _pieces(one, longest)
        yield "]"
    elif value is None or isinstance(value, bool):
        yield {None: "null", True: "true", False: "false"}[value]
    elif isinstance(value, int):
        # Python writes no integer of more than 4,300 digits.
        yield str(value) if value.bit_length() < 10_000 else "an integer of thousands of digits"
    elif isinstance(value, (float, Decimal)):
        yield str(value)
    else:
        yield str(value)[: longest + 1]
