"""JSON: its types, numbers and documents as ConCodeEval's authors read them; positions of values.

`harness.scoring.validators.limits` reads JSON strictly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal
from uuid import uuid4

from harness.records import replace_surrogates
from harness.scoring.validators import limits
from harness.scoring.validators.limits import (
    MAX_DEPTH,
    Number,
    UnparseableDocument,
    decode_json,
    parse_decimal,
    parse_integer,
    read_json,
    unescape_token,
)

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")

_PYTHON_TYPES: dict[str, Any] = {
    "null": type(None),
    "boolean": bool,  # before numbers, since Python's booleans are numbers
    "number": (int, float, Decimal),
    "string": str,
    "array": list,
    "object": dict,
}
ALL = frozenset(_PYTHON_TYPES)  # names of the JSON types; integers are numbers


def type_of(value: Any) -> str:
    """Return a value's JSON Schema type ("number" for integers), or else its Python type."""
    for name, python_type in _PYTHON_TYPES.items():
        if isinstance(value, python_type):
            return name
    return type(value).__name__


def root_type_violated(value: Any, schema: Any) -> bool:
    """Return whether a value violates the ``type`` of a schema, if any. Integers are numbers."""
    allowed = schema.get("type") if isinstance(schema, dict) else None
    if allowed is None:
        return False
    if not isinstance(allowed, (list, tuple)):
        allowed = [allowed]
    names = set(allowed)
    if "integer" in names:
        names.add("number")
    return type_of(value) not in names


def json_number(text: str) -> Number | None:
    """Return the value of the text if it is a JSON number, otherwise None.

    Raises:
        UnparseableDocument: As in `parse_integer` and `parse_decimal`.
    """
    if not (match := _JSON_NUMBER.fullmatch(text)):
        return None
    return parse_decimal(text) if match[1] or match[2] else parse_integer(text)


def written(number: Any) -> str:
    """Return text that reads back as exactly this number."""
    return str(number) if isinstance(number, Decimal) else repr(number)


_INDEX = re.compile("0|[1-9][0-9]{0,9}", re.ASCII)


def tokens(path: str) -> list[str] | None:
    """Return the tokens of a JSON pointer, or None if it is invalid or too deep."""
    if not path:
        return []
    if not path.startswith("/") or path.count("/") > MAX_DEPTH + 2:
        return None
    return [unescape_token(token) for token in path[1:].split("/")]


@dataclass(slots=True)
class Node:
    """The start and end offsets of a value in the text of a document.

    A list has the nodes of its ``items``, and an object the nodes of its ``members``. An XML
    element can have both.
    """

    start: int
    end: int
    items: list[Node] | None = None
    members: dict[str, Node] | None = None

    def at(self, path: Sequence[str]) -> Node | None:
        """Return the node at a path of pointer tokens, or None if there is none."""
        if not path:
            return self
        token, *rest = path
        child = None
        if self.items is not None and _INDEX.fullmatch(token):
            if int(token) < len(self.items):
                child = self.items[int(token)]
        else:  # pointers are `replace_surrogates`, keys need not be; of equal ones, the last counts
            for key, node in (self.members or {}).items():
                if token in (key, replace_surrogates(key)):
                    child = node
        return child.at(rest) if child else None


def third(offset: int, length: int) -> Literal["first", "middle", "last"]:
    """Return which third of a document of some length contains an offset."""
    if 3 * offset < length or length <= 0:
        return "first"
    return "middle" if 3 * offset < 2 * length else "last"


_TOKEN = re.compile(r'[\[\]{}:,]|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s\[\]{}:,"]+', re.DOTALL)


def read(text: str, schema: Any = True) -> Any:
    """Return the value of a JSON document, whatever the schema.

    Raises:
        UnparseableDocument: If the text is not a valid document.
    """
    return read_json(text)


def read_as_paper(text: str) -> Any:
    """Return the value that ``json.loads`` reads.

    Raises:
        UnparseableDocument: If ``json.loads`` fails.
    """
    try:
        return decode_json(json.JSONDecoder(), text)
    except ValueError as error:  # an integer of more digits than Python converts
        raise UnparseableDocument(f"not JSON: {error}", "limit") from None


def write(value: Any, indent: int | None = 4) -> str:
    """Return the JSON of a value that `check_json` accepts, on one line if ``indent`` is None."""
    mark = uuid4().hex  # json cannot write Decimals: each is first written as a marked string
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=lambda n: f"{mark}{n}")
    return re.sub(f'"{mark}([^"]*)"', r"\1", text) if mark in text else text


def tree(text: str, *, paper: bool) -> Node:
    """Return the root node of a JSON document. If a key is repeated, its last value counts.

    ``paper`` has no effect.

    Raises:
        ValueError: If the text is not JSON.
        UnparseableDocument: If the document is nested too deeply.
    """
    json.loads(text)
    tokens = _TOKEN.finditer(text)
    return _node(next(tokens), tokens, 0)


def _node(token: re.Match[str], tokens: Iterator[re.Match[str]], depth: int) -> Node:
    node = Node(*token.span())
    if token[0] not in ("{", "["):
        return node
    if depth == limits.MAX_DEPTH:
        raise UnparseableDocument(limits.TOO_DEEP, "limit")
    items: list[Node] = []
    members: dict[str, Node] = {}
    opening = token[0]
    while (token := next(tokens))[0] not in ("}", "]"):
        if opening == "{" and token[0] != ",":
            next(tokens)  # skip the colon
            members[json.loads(token[0])] = _node(next(tokens), tokens, depth + 1)
        elif token[0] != ",":
            items.append(_node(token, tokens, depth + 1))
    node.end = token.end()
    if opening == "{":
        node.members = members
    else:
        node.items = items
    return node
