"""Checks whether the text contains given strings."""

from __future__ import annotations

from typing import Any, Literal

from harness.errors import ConfigError
from harness.records import Instance, Score
from harness.scoring import listed
from harness.scoring.text import Normalization, TextComparison, occurrences


class ContainsChecker:
    """Passes text that contains all, any or none of the targets.

    Args:
        target: A string, or a list of strings.
        mode: How many targets the text must contain: ``all``, ``any`` (one or more) or ``none``.
        ignore_case: Treat ``a`` and ``A`` as equal.
        whole_words: Find ``oak`` only as a whole word, not within ``oaken``. In scripts without
            spaces, words are those of ICU; without the extra ``icu``, any match counts.
        normalize: Unicode form in which texts are compared. NFKC also treats full-width characters
            and ligatures as equal to plain ones, and ``x²`` as equal to ``x2``.
        straight_quotes: Treat curly quotes and apostrophes as equal to straight ones.
    """

    def __init__(
        self,
        target: str | list[str],
        mode: Literal["all", "any", "none"] = "all",
        ignore_case: bool = False,
        whole_words: bool = False,
        normalize: Normalization = "NFC",
        straight_quotes: bool = False,
    ) -> None:
        self._targets = target if isinstance(target, list) else [target]
        if not self._targets or not all(self._targets):
            raise ConfigError("The checker 'contains' has no target, or an empty one.")
        self._mode, self._whole_words = mode, whole_words
        self._form = TextComparison(ignore_case, normalize, straight_quotes)

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return whether the text passes, with the missing or forbidden targets as the reason."""
        shown = self._form(text)
        found = [target for target in self._targets if self._is_in(target, shown, text)]
        missing = [target for target in self._targets if target not in found]
        passed, reason = {
            "none": (not found, f"contains {listed(found)}"),
            "any": (bool(found), f"contains none of {listed(missing)}"),
            "all": (not missing, f"lacks {listed(missing)}"),
        }[self._mode]
        details = {"found": len(found), "of": len(self._targets)}
        return Score(passed, passed, "" if passed else reason, details)

    def _is_in(self, target: str, shown: str, text: str) -> bool:
        form = self._form(target)
        if not form:  # a character that does not show, such as a zero-width space
            return target in text
        if not self._whole_words:
            return form in shown
        return occurrences(form, shown, apart=True) > 0


plugin = ContainsChecker
