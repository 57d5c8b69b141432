"""Checks whether the number of words in the text is within bounds.

``don't`` and ``well-known`` are one word each; a lone dash is not a word. In Chinese, Japanese and
other scripts without spaces, words are those of ICU's dictionaries (`harness.scoring.text`). The
checker `constraint` counts differently, as COLLIE does.
"""

from __future__ import annotations

from typing import Any

from harness.errors import ConfigError
from harness.records import Instance, Score
from harness.scoring.text import MayCountWords, Uncountable, count_words


def _bound(bound: int, n: int) -> str:
    return f"{bound} word{'' if bound == 1 else 's'}, has {n}"


class WordCountChecker(MayCountWords):
    """Passes text whose number of words is within bounds.

    Text in a script without spaces has no verdict without the extra ``icu``.

    Args:
        exactly: Required number of words; cannot be combined with the other options.
        at_least: Minimum number of words.
        at_most: Maximum number of words.
    """

    def __init__(
        self, exactly: int | None = None, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        bounds = [bound for bound in (exactly, at_least, at_most) if bound is not None]
        if not bounds or min(bounds) < 0 or (exactly is not None and len(bounds) > 1):
            problem = "needs exactly, or at_least and at_most (or one of them), none below 0."
            raise ConfigError(f"The checker 'word_count' {problem}")
        if at_least is not None and at_most is not None and at_least > at_most:
            problem = f"no text has at least {at_least} and at most {at_most} words."
            raise ConfigError(f"The checker 'word_count': {problem}")
        self._exactly = exactly
        self._at_least = at_least
        self._at_most = at_most

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score of True or False. If False, its reason states the count and the bound.

        The score has no value if the words cannot be counted.
        """
        try:
            n = count_words(text)
        except Uncountable as error:
            return error.score()
        reason = ""
        if self._exactly is not None and n != self._exactly:
            reason = f"exactly {_bound(self._exactly, n)}"
        elif self._at_least is not None and n < self._at_least:
            reason = f"at least {_bound(self._at_least, n)}"
        elif self._at_most is not None and n > self._at_most:
            reason = f"at most {_bound(self._at_most, n)}"
        return Score(not reason, not reason, reason, {"words": n})


plugin = WordCountChecker
