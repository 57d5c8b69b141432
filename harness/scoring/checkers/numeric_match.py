"""Whether a text's number is the expected one, however it is written.

>>> NumericMatchChecker("1234").check("That makes $1,234.00.", Instance("1", None)).passed
True
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, Literal

from harness.errors import ConfigError, Unparseable
from harness.records import Instance, Score
from harness.scoring.parsers.numerals import LONGEST, numbers, one_number

_EXACT = Context(prec=2 * LONGEST + 2000, traps=[])
"""Of any two numbers that are read, the difference is exact: digits and exponents are bounded."""


class NumericMatchChecker:
    """Passes a text whose number is the expected one; separators, currency and .0 do not matter.

    A text without a number is unparseable.

    target: the number, or a list of which any is right; texts like ``1,234`` are read.
    tolerance: how far from it the answer may be.
    relative: how far from it the answer may be, as a share of the target.
    take: which of several numbers is the answer, ``first`` or ``last``.

    Raises: ConfigError where the target is no number.
    """

    def __init__(
        self,
        target: float | int | str | list[float | int | str],
        tolerance: float = 0.0,
        relative: float = 0.0,
        take: Literal["first", "last"] = "last",
    ) -> None:
        targets = target if isinstance(target, list) else [target]
        self._targets = [_number(one) for one in targets]
        if not targets or tolerance < 0 or relative < 0:
            raise ConfigError(
                "The checker 'numeric_match' needs a target, and tolerances of 0 or more."
            )
        self._tolerance = Decimal(repr(tolerance))
        self._relative = Decimal(repr(relative))
        self._take: Literal["first", "last"] = take

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Compare exactly, in decimals. The reason never tells the target.

        Raises: Unparseable for a text without a number.
        """
        found = one_number(text, self._take)
        if found is None:
            raise Unparseable("The answer holds no number.")
        passed = any(self._is(found, target) for target in self._targets)
        said = f"{found!s:.60}"
        return Score(
            passed, passed, "" if passed else f"{said} is not the expected number", {"number": said}
        )

    def _is(self, found: Decimal, target: Decimal) -> bool:
        allowed = max(self._tolerance, _EXACT.multiply(self._relative, abs(target)))
        return _EXACT.abs(_EXACT.subtract(found, target)) <= allowed


def _number(value: float | int | str) -> Decimal:
    # A text with one number in it: "42 apples"; "3/4" or "12 of 30" would be a guess.
    found = numbers(str(value))
    if isinstance(value, bool) or len(found) != 1:
        raise ConfigError(f"The checker 'numeric_match' needs a number, not {value!r:.60}.")
    return found[0]


plugin = NumericMatchChecker
