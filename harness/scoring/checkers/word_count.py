"""Checks whether a text's number of words is within bounds.

A word is a run of characters between spaces that has a letter or a digit: ``don't`` and
``well-known`` are one word, a dash is none. (COLLIE counts tokens differently: see the checker
`constraint`.)
"""

from __future__ import annotations

from typing import Any

from harness.errors import ConfigError
from harness.records import Instance, Score


def words(text: str) -> int:
    """Return the number of words in a text."""
    return sum(any(map(str.isalnum, part)) for part in text.split())


class WordCountChecker:
    """Passes a text by its number of words.

    Args:
        exactly: Required number of words.
        at_least: Minimum number of words.
        at_most: Maximum number of words.
    """

    def __init__(
        self, exactly: int | None = None, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        given = [bound for bound in (exactly, at_least, at_most) if bound is not None]
        if not given or min(given) < 0 or (exactly is not None and len(given) > 1):
            raise ConfigError(
                "The checker 'word_count' needs exactly, or at_least and at_most (or one of them), "
                "none below 0."
            )
        if exactly is not None:
            at_least = at_most = exactly
        if at_least is not None and at_most is not None and at_least > at_most:
            raise ConfigError(
                f"The checker 'word_count': no text has at least {at_least} and at most "
                f"{at_most} words."
            )
        self._exactly, self._at_least, self._at_most = exactly, at_least, at_most

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Count the words."""
        n = words(text)
        asked = f"at most {self._at_most}"
        passed = self._at_most is None or n <= self._at_most
        if self._at_least is not None and n < self._at_least:
            passed, asked = False, f"at least {self._at_least}"
        asked = asked if self._exactly is None else str(self._exactly)
        reason = "" if passed else f"{n} word{'' if n == 1 else 's'}, not {asked}"
        return Score(passed, passed, reason, {"words": n})


plugin = WordCountChecker
