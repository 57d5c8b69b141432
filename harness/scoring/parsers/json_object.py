"""The JSON object in an answer: the whole text, the first fence's, or the first one anywhere.

>>> json_object('Sure! ```json\\n{"answer": "NAOY"}\\n```')
{'answer': 'NAOY'}
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from harness.errors import Unparseable

MOST_STARTS = 32
"""Braces at which an object is looked for."""

_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)


def json_object(text: str) -> dict[str, Any]:
    """The object that an answer holds.

    Raises: Unparseable where there is none, a key comes twice, or it is no JSON.
    """
    fence = _FENCE.search(text)
    for candidate in (fence[1] if fence else text, text):
        starts = [match.start() for match in re.finditer(r"\{", candidate)][:MOST_STARTS]
        for start in starts:
            try:
                found, _ = _DECODER.raw_decode(candidate, start)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                return found
    raise Unparseable("The answer holds no JSON object.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unparseable(f"The key {twice!r:.60} is twice in the JSON object.")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)
