"""JSON by the letter of RFC 8259: what its parsers disagree about is refused, and said.

Refused: an object's key written twice, NaN and Infinity, half of a surrogate pair, anything after
the value, and what passes the limits of `harness.scoring.validators.unreadable`.

>>> read('{"a": [1, 2.50]}')
{'a': [1, 2.5]}
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, NoReturn

from harness.scoring.validators.numbers import exact, whole, written
from harness.scoring.validators.unreadable import (
    DEEPEST,
    MOST_NODES,
    Unreadable,
    check_length,
    check_size,
    too_deep,
)

_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def read(text: str) -> Any:
    """The value that the text says.

    Raises: Unreadable, with line and column where the grammar is broken.
    """
    check_length(text)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise broken(error) from None
    except RecursionError:
        raise too_deep() from None
    check_shape(text, value)
    if _HALF.search(text) and not encodable(value):
        raise Unreadable("half of a surrogate pair, which is no character")
    return value


def check_shape(text: str, value: object) -> None:
    """Refuse a value that is too deep or too large; nothing is walked where the text rules it out.

    Raises: Unreadable.
    """
    if len(text) > MOST_NODES or text.count("[") + text.count("{") > DEEPEST:
        check_size(value)


def broken(error: json.JSONDecodeError) -> Unreadable:
    """A grammar error of Python's parser, in one line."""
    reason = error.msg[:1].lower() + error.msg[1:]
    return Unreadable(f"no JSON: {reason} (line {error.lineno}, column {error.colno})")


def encodable(value: object) -> bool:
    """Whether every text of a value can be written as UTF-8."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            if not one.isascii() and _SURROGATE.search(one):
                return False
        elif isinstance(one, dict):
            stack.extend(one)
            stack.extend(one.values())
        elif isinstance(one, (list, tuple)):
            stack.extend(one)
    return True


_SURROGATE = re.compile("[\ud800-\udfff]")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Unreadable(f"the key {json.dumps(key)[:60]} is there twice in one object")
            seen.add(key)
    return members


def _constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=exact, parse_int=whole, parse_constant=_constant
)


def write(value: Any, indent: int | None = 4) -> str:
    """A value's text, members in their order; one line where `indent` is None.

    The value is one that `harness.scoring.validators.documents.render` has checked.
    """
    return "".join(_written(value, indent, "\n"))


def _written(value: Any, indent: int | None, newline: str) -> list[str]:
    if isinstance(value, dict):
        inside = newline + " " * (indent or 0)
        parts = [
            [json.dumps(key, ensure_ascii=False), ": ", *_written(one, indent, inside)]
            for key, one in value.items()
        ]
        return _enclosed("{", parts, "}", indent, newline)
    if isinstance(value, (list, tuple)):
        inside = newline + " " * (indent or 0)
        return _enclosed(
            "[", [_written(one, indent, inside) for one in value], "]", indent, newline
        )
    if isinstance(value, (float, Decimal)):
        return [written(value)]
    return [json.dumps(value, ensure_ascii=False)]


def _enclosed(
    start: str, parts: list[list[str]], end: str, indent: int | None, newline: str
) -> list[str]:
    if not parts:
        return [start + end]
    if indent is None:
        inside, newline = "", ""
        between = ", "
    else:
        inside = newline + " " * indent
        between = "," + inside
    pieces = [start, inside]
    for position, part in enumerate(parts):
        if position:
            pieces.append(between)
        pieces.extend(part)
    return [*pieces, newline, end]
