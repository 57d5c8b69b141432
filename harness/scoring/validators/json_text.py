"""Reads and writes JSON (RFC 8259).

`read` refuses NaN, Infinity, repeated keys and lone surrogates. `read_as_paper` reads JSON as
ConCodeEval's authors do.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn
from uuid import uuid4

from harness.scoring.validators import limits
from harness.scoring.validators.limits import Node, UnparseableDocument

_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_TOKEN = re.compile(r'[\[\]{}:,]|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s\[\]{}:,"]+', re.DOTALL)


def read(text: str) -> Any:
    """Return the value of a JSON document.

    Raises:
        UnparseableDocument: If the text is not a valid document. For a syntax error, the message
            states the line and the column.
    """
    limits.check_length(text)
    value = _decoded(_DECODER, text)
    # Skip the walk if the text alone shows that the value is neither too deep nor too large.
    if len(text) > limits.MOST_NODES or text.count("[") + text.count("{") > limits.DEEPEST:
        limits.check_size(value)
    if _HALF.search(text) and not limits.is_encodable(value):
        raise UnparseableDocument(limits.HALF_PAIR)
    return value


def read_as_paper(text: str) -> Any:
    """Return the value that ``json.loads`` reads.

    Raises:
        UnparseableDocument: If ``json.loads`` fails.
    """
    try:
        return _decoded(json.JSONDecoder(), text)
    except ValueError as error:  # an integer of more digits than Python converts
        raise UnparseableDocument(f"not JSON: {error}", "limit") from None


def _decoded(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        place = f"(line {error.lineno}, column {error.colno})"
        raise UnparseableDocument(f"{problem} {place}") from None
    except RecursionError:
        raise UnparseableDocument(limits.TOO_DEEP, "limit") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        key = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise UnparseableDocument(f"the key {json.dumps(key)[:60]} occurs twice in one object")
    return members


def _constant(name: str) -> NoReturn:
    raise UnparseableDocument(f"{name} is not a JSON number")


_NUMBERS: Any = {"parse_float": limits.exact, "parse_int": limits.whole}
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, **_NUMBERS)


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
    if depth == limits.DEEPEST:
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
    node.items, node.members = (None, members) if opening == "{" else (items, None)
    return node
