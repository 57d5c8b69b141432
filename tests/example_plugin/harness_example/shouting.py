"""A checker: is the text in capitals?"""

from __future__ import annotations

from typing import Any

from harness.plugin import Checker
from harness.records import Instance, Score


class ShoutingChecker(Checker):
    """Passes a text in capitals.

    share: of the letters that must be.
    """

    def __init__(self, share: float = 1.0) -> None:
        self._share = share

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Count capitals."""
        letters = [letter for letter in text if letter.isalpha()]
        if not letters:
            return Score(None, None, "no letters")
        found = sum(letter.isupper() for letter in letters) / len(letters)
        return Score(found, found >= self._share, f"{found:.0%} in capitals")
