"""Numbers as they are written: exact, and bounded in their digits.

A whole number is an int. Any other is a float where the float's shortest form is what was written,
else a Decimal: ``0.1`` is the float that every library shows as 0.1, and a number of more digits
than a float holds keeps them all. Validators take each for the decimal number that it shows, so
that 0.3 is a multiple of 0.1.

>>> exact("0.1"), exact("0.10000000000000000001")
(0.1, Decimal('0.10000000000000000001'))
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from harness.scoring.validators.unreadable import MOST_DIGITS, Unreadable

Number = int | float | Decimal

_JSON = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def whole(text: str, base: int = 10) -> int:
    """An integer of a bounded number of digits; base 0 takes what ``0o`` and ``0x`` say.

    Raises: Unreadable.
    """
    if len(text) > MOST_DIGITS:
        raise _too_long(text)
    return int(text, base)


def exact(text: str) -> float | Decimal:
    """A number with a point or an exponent.

    Raises: Unreadable where its digits or its exponent pass the bound.
    """
    number = float(text)
    if repr(number) == text:  # nearly all that models write
        return number
    if len(text) > MOST_DIGITS:
        raise _too_long(text)
    exponent = text.lower().partition("e")[2]
    if len(exponent) > 6 or abs(int(exponent or "0")) > MOST_DIGITS:
        raise Unreadable(f"the number {text[:40]} has an exponent beyond {MOST_DIGITS:,}", "limit")
    decimal = Decimal(text)
    if math.isfinite(number) and decimal == Decimal(repr(number)):
        return number
    return decimal


def read_json_number(text: str) -> Number | None:
    """A number in JSON's grammar; None where the text is none.

    Raises: Unreadable where it passes the bounds.
    """
    found = _JSON.fullmatch(text)
    if found is None:
        return None
    return exact(text) if found[1] or found[2] else whole(text)


def finite(number: Number) -> bool:
    """Whether JSON can hold it."""
    if isinstance(number, Decimal):
        return number.is_finite()
    return isinstance(number, int) or math.isfinite(number)


def written(number: Number) -> str:
    """A number's shortest exact form; a float keeps its point or exponent.

    >>> written(1e16), written(Decimal("1E+2"))
    ('1e+16', '1E+2')
    """
    return str(number) if isinstance(number, Decimal) else repr(number)


def _too_long(text: str) -> Unreadable:
    return Unreadable(f"a number of more than {MOST_DIGITS:,} digits ({text[:20]}…)", "limit")
