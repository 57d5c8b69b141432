"""Numbers that judges conclude with, and what becomes of several samplings.

>>> mean([8.0, None, 7.0])
7.5
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import ConfigError
from harness.records import Reply
from harness.scoring.parsers.numerals import numbers
from harness.scoring.parsers.pattern import Pattern, PatternTooSlow


class ConcludingNumber:
    """The last number of a reply that a pattern finds, within bounds.

    pattern: its one group holds the number.

    Raises: ConfigError.
    """

    def __init__(self, pattern: str, low: float, high: float) -> None:
        self._pattern = Pattern(pattern, "pattern", ignore_case=True)
        self._low, self._high = low, high
        if self._pattern.groups != 1:
            raise ConfigError(
                f"pattern has {self._pattern.groups} groups: one holds the number.",
                "Write groups that hold nothing as (?:…).",
            )
        if not low < high:
            raise ConfigError(f"low ({low:g}) must be below high ({high:g}).")

    def read(self, reply: Reply) -> float | None:
        """The number; None where the reply has none, one out of bounds, or was cut off."""
        if reply.finish_reason == "length":
            return None
        try:
            match = self._pattern.find(reply.text, "last")
        except PatternTooSlow:
            return None
        found = numbers(match[1] or "") if match else []
        if len(found) != 1 or not self._low <= found[0] <= self._high:
            return None
        return float(found[0])


def mean(readings: Sequence[float | None]) -> float | None:
    """Of those that there are; None where there are none."""
    there = [one for one in readings if one is not None]
    return sum(there) / len(there) if there else None
