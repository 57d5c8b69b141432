"""Whether a text has as many words as it may.

A word is what stands between spaces and holds a letter or a digit: ``don't`` and ``well-known``
are one, a dash is none. (COLLIE counts tokens in a way of its own: the checker `constraint`.)

>>> WordCountChecker(at_most=2).check("One - two, three!", Instance("1", None)).reason
'3 words, not at most 2'
"""

from __future__ import annotations

from typing import Any

from harness.errors import ConfigError
from harness.records import Instance, Score


class WordCountChecker:
    """Passes a text by its number of words.

    exactly: how many there must be.
    at_least: the fewest there may be.
    at_most: the most there may be.

    Raises: ConfigError for bounds that nothing or everything meets.
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
        count = sum(any(map(str.isalnum, part)) for part in text.split())
        too_few = self._at_least is not None and count < self._at_least
        too_many = self._at_most is not None and count > self._at_most
        passed = not (too_few or too_many)
        return Score(
            passed, passed, "" if passed else self._reason(count, too_few), {"words": count}
        )

    def _reason(self, count: int, too_few: bool) -> str:
        said = f"{count} word{'' if count == 1 else 's'}"
        if self._exactly is not None:
            return f"{said}, not {self._exactly}"
        return f"{said}, not at {f'least {self._at_least}' if too_few else f'most {self._at_most}'}"


plugin = WordCountChecker
