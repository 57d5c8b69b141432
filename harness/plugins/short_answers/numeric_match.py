"""Checks whether the number in the text equals the expected number, in any notation."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, Literal

from harness.errors import ConfigError, Unparseable
from harness.plugins.short_answers.extraction import JsonCollection
from harness.plugins.short_answers.final_numbers import read_number
from harness.plugins.short_answers.numbers import MOST_DIGITS, only_number
from harness.ports import Checker
from harness.records import Instance, Score
from harness.scoring.patterns import MatchPosition
from harness.scoring.reasoning import without_reasoning

SEPARATORS = ("|", ";", "/")  # of alternatives in data sets

_EXACT = Context(prec=2 * MOST_DIGITS + 2000, traps=[])
"""A decimal context in which differences are exact. Its precision suffices because the digits and
the exponents of numbers are bounded."""


class NumericMatchChecker(Checker):
    """Passes text with the expected number, ignoring separators, currencies, units and ``.0``.

    Text is unparseable if it has no number, or if its deciding number is unreadable, such as 1,5
    or 7-8. Reasons never reveal the target.

    Args:
        target: The number, or a list of alternatives; strings like ``1,234`` are accepted.
        tolerance: Maximum absolute difference, unless ``relative`` allows more.
        relative: Maximum difference as a share of the target (0.01 is 1%).
        take: Which number in the text is the answer: ``first`` or ``last``.
    """

    def __init__(
        self,
        target: float | int | str | list[float | int | str],
        tolerance: float = 0.0,
        relative: float = 0.0,
        take: Literal["first", "last"] = "last",
    ) -> None:
        targets = target if isinstance(target, list) else [target]
        self._targets = list(map(_number, targets))
        if not targets or tolerance < 0 or relative < 0:
            problem = "The checker 'numeric_match' needs a target, and tolerances of 0 or more."
            raise ConfigError(problem)
        self._tolerance = Decimal(repr(tolerance))
        self._relative = Decimal(repr(relative))
        self._take: MatchPosition = take

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score of True or False.

        Raises:
            Unparseable: If the text has no number, if the deciding one is unreadable, or if the
                text is a list or an object extracted from JSON.
        """
        if isinstance(text, JsonCollection):
            raise Unparseable("The answer is a JSON list or object, not a number.")
        number = read_number(without_reasoning(text), self._take)
        passed = any(self._equals(number, target) for target in self._targets)
        written = f"{number!s:.60}"
        reason = "" if passed else f"{written} is not the expected number"
        return Score(passed, passed, reason, {"number": written})

    def _equals(self, number: Decimal, target: Decimal) -> bool:
        allowed = max(self._tolerance, _EXACT.multiply(self._relative, abs(target)))
        return _EXACT.abs(_EXACT.subtract(number, target)) <= allowed


def _number(value: float | int | str) -> Decimal:
    # A target has one number ("42 apples"); choosing from "3/4" or "12 of 30" would be a guess.
    text = str(value).strip()
    is_cut = text.startswith(SEPARATORS) or text.endswith(SEPARATORS)  # alternatives, one missing
    number = None if isinstance(value, bool) or is_cut else only_number(text)
    if number is None:
        raise ConfigError(f"The checker 'numeric_match' needs a number, not {value!r:.60}.")
    return number
