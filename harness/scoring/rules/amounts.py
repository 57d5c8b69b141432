"""How many: English amounts as bounds.

``about 100``, ``a few``, and anything else that has no sharp bound, is no amount.

>>> NUMBER_WORDS["twenty"]
20
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
NUMBER_WORDS = {word: number for number, word in enumerate(_WORDS.split(), start=1)}

NUMBER = rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,6}}|(?:a )?single|{'|'.join(reversed(NUMBER_WORDS))})"

AT_LEAST = (
    r"at least|(?:a )?minimum(?: of)?|min\.?|no (?:fewer|less|shorter) than|"
    "not (?:fewer|less) than|(?:do not|don't) (?:use|write) (?:fewer|less) than"
)
MORE_THAN = "more than|over|longer than"
AT_MOST = (
    r"at most|(?:no|not|not be) (?:more|longer|greater) than|(?:a )?maximum(?: of)?|"
    r"max\.?(?: of)?|up to|within|not exceed|not to exceed|not exceeding|(?:be )?limited to|"
    "cannot exceed|(?:do not|don't|never) (?:exceed|(?:use|write) more than)"
)
LESS_THAN = "under|below|less than|fewer than|shorter than"
EXACTLY = "exactly|precisely|only|just"


@dataclass(frozen=True, slots=True)
class Bounds:
    """From and up to; None where there is no such bound.

    bare: it is a number without a word of comparison.
    """

    low: int | None
    high: int | None
    bare: bool = False

    def has(self, n: int) -> bool:
        """Whether a number is within."""
        return (self.low is None or n >= self.low) and (self.high is None or n <= self.high)

    def __str__(self) -> str:
        """In words.

        >>> str(Bounds(2, 3)), str(Bounds(None, 5))
        ('2 to 3', 'at most 5')
        """
        if self.low is None:
            return f"at most {self.high}"
        if self.high is None:
            return f"at least {self.low}"
        return f"exactly {self.low}" if self.low == self.high else f"{self.low} to {self.high}"


def amount(unit: str) -> str:
    """A pattern of an amount of a unit, itself a pattern without groups of its own."""
    n = f"(?P<n>{NUMBER})"
    return (
        rf"(?:between (?P<b1>{NUMBER}) (?:and|to) (?P<b2>{NUMBER}) (?P<ub>{unit})"
        rf"|(?:from )?(?P<r1>{NUMBER})(?: to |(?P<or> or )| ?[-\u2013\u2014] ?)"
        rf"(?P<r2>{NUMBER}) (?P<ur>{unit})"
        rf"|(?:(?P<ge>{AT_LEAST})|(?P<gt>{MORE_THAN})|(?P<le>{AT_MOST})|(?P<lt>{LESS_THAN})"
        rf"|(?P<eq>{EXACTLY})) (?P<c>{NUMBER}) (?P<uc>{unit})"
        rf"|{n}(?:(?P<more1>\+| or more)|(?P<less1> or (?:less|fewer))) (?P<us>{unit})"
        rf"|(?P<m>{NUMBER}) (?P<um>{unit})"
        r"(?:(?P<more2> or more| at least| minimum| min)"
        r"|(?P<less2>,? or (?:less|fewer|under|shorter|below)| at most| maximum| max))?)"
    )


def bounds_of(found: re.Match[str]) -> tuple[Bounds, str] | None:
    """The bounds and the unit of a match of `amount`; None where these bounds make no sense."""
    group = found.groupdict()
    if group["b1"] or group["r1"]:
        low, high = number(group["b1"] or group["r1"]), number(group["b2"] or group["r2"])
        if low > high or (group["or"] and high > low + 1):  # "2 or 10" is no range
            return None
        return Bounds(low, high), group["ub"] or group["ur"]
    n = number(group["c"] or group["n"] or group["m"])
    unit = group["uc"] or group["us"] or group["um"]
    if n == 0:
        return None
    if group["ge"] or group["more1"] or group["more2"]:
        return Bounds(n, None), unit
    if group["gt"]:
        return Bounds(n + 1, None), unit
    if group["le"] or group["less1"] or group["less2"]:
        return Bounds(None, n), unit
    if group["lt"]:
        return (Bounds(None, n - 1), unit) if n > 1 else None
    return Bounds(n, n, bare=not group["eq"]), unit


def number(text: str) -> int:
    """The number of a match of `NUMBER`."""
    if text.endswith("single"):
        return 1
    return NUMBER_WORDS.get(text) or int(text.replace(",", ""))
