"""The tokens of a JSON pointer, and what they say of a document.

>>> tokens("/a~1b/0")
['a/b', '0']
"""

from __future__ import annotations

import re

from harness.records import encodable
from harness.scoring.validators.unreadable import DEEPEST

_INDEX = re.compile("0|[1-9][0-9]{0,9}", re.ASCII)


def tokens(path: str) -> list[str] | None:
    """What a pointer goes through; None for what is none, or deeper than any document."""
    if not path:
        return []
    if not path.startswith("/") or path.count("/") > DEEPEST + 2:
        return None
    return [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]


def index(token: str) -> int | None:
    """The position in a list that a token says; None where it says none."""
    return int(token) if _INDEX.fullmatch(token) else None


def names(token: str, key: str) -> bool:
    """Whether a token is a key's, as `harness.scoring.validators.violations.pointer` writes it."""
    return key == token or (not key.isascii() and encodable(key) == token)
