"""Numbers as people write them: ``1,234.0``, ``$42``, ``-3.5%``, ``2e-3``.

>>> last_number("That makes 12 + 30 = $1,042.00.")
Decimal('1042.00')
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Literal

LONGEST = 200
"""Digits of a number: longer ones are none that anybody meant."""

_NUMERAL = re.compile(
    r"(?<![\w.])([-+\u2212]?)(?:[$€£]\s?)?([-+\u2212]?)"
    r"([0-9]{1,3}(?:,[0-9]{3})++(?![0-9])|[0-9]++)(\.[0-9]++)?+"
    r"([eE][-+]?[0-9]{1,3}(?![0-9]))?+(?![eE][-+]?[0-9])"
)
"""A sign touches the number or its currency: with a space between it is an operator or a dash."""
_BARE_FRACTION = re.compile(r"(?<![\w.])([-+\u2212]?)(\.[0-9]+)")


def numbers(text: str) -> list[Decimal]:
    """All numbers in a text, in order."""
    found: list[tuple[int, Decimal]] = []
    for match in _NUMERAL.finditer(text):
        before, after, whole, fraction, exponent = match.groups()
        written = f"{whole.replace(',', '')}{fraction or ''}{exponent or ''}"
        if len(written) <= LONGEST:
            found.append((match.start(), _signed(_sign(text, match, before) or after, written)))
    found += [
        (match.start(), _signed(match[1], match[2]))
        for match in _BARE_FRACTION.finditer(text)
        if len(match[2]) <= LONGEST
    ]
    return [value for _, value in sorted(found, key=lambda pair: pair[0])]


def _sign(text: str, match: re.Match[str], sign: str) -> str:
    """A sign after a number is an operator, as in ``5 -3``, and none of the second number's."""
    before = text[max(0, match.start() - 8) : match.start()].rstrip(" ")[-1:] if sign else ""
    return "" if before.isdigit() or before in (")", "%") else sign


def _signed(sign: str, written: str) -> Decimal:
    value = Decimal(written)
    return -value if sign in ("-", "\u2212") else value


def one_number(text: str, take: Literal["first", "last"]) -> Decimal | None:
    """The first or last number of a text, None where it has none."""
    found = numbers(text)
    return found[0 if take == "first" else -1] if found else None


def last_number(text: str) -> Decimal | None:
    """The last number of a text, None where it has none."""
    return one_number(text, "last")
