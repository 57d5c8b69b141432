"""Limits that keep reading bounded, what breaks them, and exact numbers within them.

Only hostile or broken answers reach a limit: each is about ten times the largest value in the
recorded answers and in a corpus of real schemas.

An integer is an int. Any other number is a float if the float's shortest form is what was written,
else a Decimal: ``0.1`` is the float that every library shows as 0.1, and a number with more digits
than a float holds keeps them all. Validators compare each as the decimal number it shows, so 0.3 is
a multiple of 0.1.

>>> exact("0.1"), exact("0.10000000000000000001")
(0.1, Decimal('0.10000000000000000001'))
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Literal

from harness.errors import Unparseable

Kind = Literal["no answer block", "unparseable", "limit"]
Number = int | float | Decimal

MOST_CHARACTERS = 1_000_000
"""About 250,000 tokens, more than any model writes in one answer."""
MOST_NODES = 100_000
"""Values in a document, with an alias counted as all that it stands for: the work and memory of
later steps grow with it."""
DEEPEST = 100
"""Nested lists and objects. The validators give up at 255 (jsonschema-rs) and at about 200
(Python's stack of 1,000 calls); the deepest of 200 real schemas has 13."""
MOST_DIGITS = 1_000
"""Limit of a number's digits and of its exponent: exact arithmetic takes quadratic time, and
1e999999 would be written out."""

HALF_PAIR = "half of a surrogate pair, which is no character"


class UnparseableDocument(Unparseable):
    """An answer that is not a document of the format asked for.

    Its kind is ``unparseable`` if it breaks the format's rules, ``limit`` if it is too large or too
    deep to be read in bounded time.
    """

    def __init__(self, message: str, kind: Kind = "unparseable") -> None:
        super().__init__(message)
        self.kind: Kind = kind


def too_deep() -> UnparseableDocument:
    """Return the error for a document that is nested too deep."""
    return UnparseableDocument(f"nested deeper than {DEEPEST} levels", "limit")


def too_many_nodes() -> UnparseableDocument:
    """Return the error for a document that has too many values."""
    return UnparseableDocument(f"more than {MOST_NODES:,} values", "limit")


def check_length(text: str) -> None:
    """Refuse a text that is too long."""
    if len(text) > MOST_CHARACTERS:
        raise UnparseableDocument(
            f"the text has {len(text):,} characters, more than {MOST_CHARACTERS:,}", "limit"
        )


def check_size(value: object) -> int:
    """Count a value's parts, shared ones each time; refuse one that is too deep or too large."""
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
                    raise _too_long("")
                continue
            if depth == DEEPEST:
                raise too_deep()
            if len(below) > MOST_NODES:
                raise too_many_nodes()
        level, depth = below, depth + 1
    return nodes


def check_json(value: object) -> int:
    """Count the parts of a value; refuse one that is not JSON's, or exceeds the limits."""
    nodes = check_size(value)
    for one in _within(value):
        if isinstance(one, dict):
            if not all(isinstance(key, str) for key in one):
                raise UnparseableDocument("it has a key that is not a string")
        elif isinstance(one, (int, float, Decimal)):
            _check_number(one)
        elif one is not None and not isinstance(one, (str, list, tuple)):
            raise UnparseableDocument(f"{type(one).__name__} is not a type of JSON")
    if not is_encodable(value):
        raise UnparseableDocument(f"it has {HALF_PAIR}")
    return nodes


def _within(value: object) -> Iterator[object]:
    """Yield a value and all values in it."""
    stack = [value]
    while stack:
        one = stack.pop()
        yield one
        if isinstance(one, dict):
            stack.extend(one.values())
        elif isinstance(one, (list, tuple)):
            stack.extend(one)


def _check_number(number: Number) -> None:
    if isinstance(number, int):
        finite, too_long = True, number.bit_length() > 3 * MOST_DIGITS
    elif isinstance(number, float):
        finite, too_long = math.isfinite(number), False
    else:
        finite = number.is_finite()
        too_long = finite and len(number.as_tuple().digits) + abs(number.adjusted()) > MOST_DIGITS
    if not finite:
        raise UnparseableDocument(f"{number} is not a number of JSON")
    if too_long:
        raise UnparseableDocument(f"it has a number of more than {MOST_DIGITS:,} digits")


def is_encodable(value: object) -> bool:
    """Return whether every string in a value, keys included, can be written as UTF-8."""
    strings = (text for one in _within(value) for text in (one if isinstance(one, dict) else [one]))
    return not any(
        isinstance(text, str) and not text.isascii() and _SURROGATE.search(text) for text in strings
    )


_SURROGATE = re.compile("[\ud800-\udfff]")


_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def whole(text: str, base: int = 10) -> int:
    """Read an integer of bounded length; base 0 reads the prefixes ``0o`` and ``0x``."""
    if len(text) > MOST_DIGITS:
        raise _too_long(text)
    return int(text, base)


def exact(text: str) -> float | Decimal:
    """Read a number with a point or an exponent, both bounded."""
    number = float(text)
    if repr(number) == text:  # nearly all that models write
        return number
    if len(text) > MOST_DIGITS:
        raise _too_long(text)
    exponent = text.lower().partition("e")[2]
    if len(exponent) > 6 or abs(int(exponent or "0")) > MOST_DIGITS:
        raise UnparseableDocument(
            f"the number {text[:40]} has an exponent beyond {MOST_DIGITS:,}", "limit"
        )
    decimal = Decimal(text)
    if math.isfinite(number) and decimal == Decimal(repr(number)):
        return number
    return decimal


def json_number(text: str) -> Number | None:
    """Read a number in JSON's grammar; None if the text is not one."""
    found = _JSON_NUMBER.fullmatch(text)
    if found is None:
        return None
    return exact(text) if found[1] or found[2] else whole(text)


def _too_long(text: str) -> UnparseableDocument:
    shown = f" ({text[:20]}…)" if text else ""
    return UnparseableDocument(f"a number of more than {MOST_DIGITS:,} digits{shown}", "limit")


def written(number: Any) -> str:
    """Write a number in its shortest exact form; a float keeps its point or exponent."""
    return str(number) if isinstance(number, Decimal) else repr(number)
