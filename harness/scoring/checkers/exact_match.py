"""Checks whether the text equals the expected text."""

from __future__ import annotations

import unicodedata
from typing import Any

from harness.errors import ConfigError
from harness.records import Instance, Score
from harness.scoring import cut


class ExactMatchChecker:
    """Passes text that equals the expected text, ignoring leading and trailing white space.

    Args:
        target: The expected text, or a list of alternatives.
        ignore_case: Treat ``paris`` and ``Paris`` as equal.
        ignore_punctuation: Treat ``Paris.`` and ``Paris`` as equal.
        ignore_space: Treat any run of spaces and line breaks as one space.
    """

    def __init__(
        self,
        target: str | int | float | bool | list[str | int | float | bool],
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        ignore_space: bool = False,
    ) -> None:
        self._ignore_case, self._ignore_space = ignore_case, ignore_space
        self._ignore_punctuation = ignore_punctuation
        if not (targets := target if isinstance(target, list) else [target]):
            raise ConfigError("The checker 'exact_match' has an empty list of targets.")
        # true and false are written as in JSON
        written = (str(one).lower() if isinstance(one, bool) else str(one) for one in targets)
        self._targets = frozenset(map(self._bare, written))

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return True or False, with a reason that never reveals the target."""
        passed = self._bare(text) in self._targets
        reason = f"{cut(text.strip(), 60)!r} is not the expected answer"
        return Score(passed, passed, "" if passed else reason)

    def _bare(self, text: str) -> str:
        text = unicodedata.normalize("NFC", text)
        if self._ignore_case:
            text = text.casefold()
        if self._ignore_punctuation:
            text = "".join(c for c in text if not unicodedata.category(c).startswith("P"))
        if self._ignore_space:
            text = " ".join(text.split())
        return text.strip()


plugin = ExactMatchChecker
