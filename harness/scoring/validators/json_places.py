"""Where a value stands in a text of JSON: one pass over its tokens, whatever is asked for.

>>> place('{"a": {"b": 1}, "a": [2]}', ["a"])
(21, 24)
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.scoring.validators.pointer_tokens import index, names
from harness.scoring.validators.unreadable import DEEPEST, Unreadable, too_deep

_TOKEN = re.compile(r'[\[\]{}:,]|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s\[\]{}:,"]+', re.DOTALL)


@dataclass(slots=True)
class _Open:
    """An object or a list that has not ended.

    start: its offset where it is what is asked for, else None.
    led: the path leads to it, or through it.
    """

    start: int | None
    led: bool
    is_object: bool
    index: int = 0
    key: str | None = None


def place(text: str, path: Sequence[str]) -> tuple[int, int] | None:
    """The value's offsets; of two members of one name, the last one's.

    Raises: Unreadable where the text is no JSON.
    """
    try:
        json.loads(text)
    except (ValueError, RecursionError):  # what is no JSON has no places
        raise Unreadable("no JSON") from None
    found: tuple[int, int] | None = None
    open_: list[_Open] = []
    for token in _TOKEN.finditer(text):
        said = token[0]
        if said in ("}", "]"):
            closed = open_.pop()
            if closed.start is not None:
                found = closed.start, token.end()
        elif said == ",":
            open_[-1].index += 1
            open_[-1].key = None
        elif said == ":":
            continue
        elif open_ and open_[-1].is_object and open_[-1].key is None:
            open_[-1].key = said
        else:
            led = _leads(open_, path)
            asked = led and len(open_) == len(path)
            if led:
                found = None  # an earlier member of this name does not count
            if said in ("{", "["):
                if len(open_) == DEEPEST:
                    raise too_deep()
                start = token.start() if asked else None
                open_.append(_Open(start, led, is_object=said == "{"))
            elif asked:
                found = token.span()
    return found


def _leads(open_: Sequence[_Open], path: Sequence[str]) -> bool:
    """Whether the value that begins now is on the path, or at its end."""
    if not open_:
        return True
    above = open_[-1]
    if not above.led or len(open_) > len(path):
        return False
    token = path[len(open_) - 1]
    if not above.is_object:
        return index(token) == above.index
    key = above.key or ""
    return names(token, json.loads(key) if "\\" in key else key[1:-1])
