"""An answer that cannot be read as a document, and the limits that keep the reading bounded.

A limit is reached only by what no honest answer is: each is some ten times the largest value that
was met in the recorded answers and in a corpus of real schemas.

>>> Unreadable("no JSON: line 1, column 2").kind
'unparseable'
"""

from __future__ import annotations

from typing import Literal

from harness.errors import Unparseable

Kind = Literal["no answer block", "unparseable", "limit"]

MOST_CHARACTERS = 1_000_000
"""Of a text: some 250,000 tokens, more than any model writes in one answer."""
MOST_NODES = 100_000
"""Values in a document, an alias counted as all that it stands for: work and memory of what
follows grow with it."""
DEEPEST = 100
"""Lists and objects inside one another. The validators give up at 255 (jsonschema-rs) and at some
200 (python's stack of 1,000 calls); the deepest of 200 real schemas has 13."""
MOST_DIGITS = 1_000
"""Of one number, and its largest power of ten: exact arithmetic on more takes time that grows with
the square, and 1e999999 would be written out."""


class Unreadable(Unparseable):
    """An answer that is no document of the format asked for.

    kind: ``unparseable`` for what breaks the format's rules, ``limit`` for what is too large or
        too deep to be read in a bounded time.
    """

    def __init__(self, message: str, kind: Kind = "unparseable") -> None:
        super().__init__(message)
        self.kind: Kind = kind


def check_length(text: str) -> None:
    """Refuse a text that is too long.

    Raises: Unreadable.
    """
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(
            f"the text has {len(text):,} characters, more than {MOST_CHARACTERS:,}", "limit"
        )


def check_size(value: object) -> None:
    """Refuse a value that is too deep or has too many parts; aliased parts count each time.

    Raises: Unreadable.
    """
    level, depth, nodes = [value], 0, 0
    while level:
        nodes += len(level)
        if nodes > MOST_NODES:
            raise too_many_nodes()
        below: list[object] = []
        for one in level:
            if isinstance(one, dict):
                below.extend(one.values())
            elif isinstance(one, (list, tuple, set)):
                below.extend(one)
            else:
                if isinstance(one, int) and one.bit_length() > 4 * MOST_DIGITS:
                    raise Unreadable(f"a number of more than {MOST_DIGITS:,} digits", "limit")
                continue
            if depth == DEEPEST:
                raise too_deep()
            if len(below) > MOST_NODES:
                raise too_many_nodes()
        level, depth = below, depth + 1


def too_deep() -> Unreadable:
    """The error for a document that is nested too deep."""
    return Unreadable(f"nested deeper than {DEEPEST} levels", "limit")


def too_many_nodes() -> Unreadable:
    """The error for a document that has too many values."""
    return Unreadable(f"more than {MOST_NODES:,} values", "limit")
