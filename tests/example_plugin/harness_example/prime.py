"""A measure: is there a prime number of units?"""

from __future__ import annotations

from collections.abc import Sequence

from harness.plugin import Measure


class PrimeMeasure(Measure):
    """1 where the number of units is prime, else 0."""

    def number(self, units: Sequence[str]) -> int:
        """Trial division."""
        n = len(units)
        return int(n > 1 and all(n % divisor for divisor in range(2, int(n**0.5) + 1)))

    def phrase(self, units: str) -> str:
        """As in "with 1 for a prime number of words of each sentence …"."""
        return f"1 for a prime number of {units}, else 0,"
