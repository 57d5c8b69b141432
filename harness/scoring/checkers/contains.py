"""Checks whether the text contains given strings."""

from __future__ import annotations

import re
from typing import Any, Literal

from harness.errors import ConfigError
from harness.records import Instance, Score
from harness.scoring import listed


class ContainsChecker:
    """Passes text that contains all, any or none of the targets.

    Args:
        target: A string, or a list of strings.
        mode: How many targets the text must contain: ``all``, ``any`` (one or more) or ``none``.
        ignore_case: Treat ``a`` and ``A`` as equal.
        whole_words: Find ``oak`` only as a whole word, not within ``oaken``.
    """

    def __init__(
        self,
        target: str | list[str],
        mode: Literal["all", "any", "none"] = "all",
        ignore_case: bool = False,
        whole_words: bool = False,
    ) -> None:
        self._targets = target if isinstance(target, list) else [target]
        if not self._targets or not all(self._targets):
            raise ConfigError("The checker 'contains' has no target, or an empty one.")
        self._mode, self._ignore_case, self._whole_words = mode, ignore_case, whole_words

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return whether the text passes, with the missing or forbidden targets as the reason."""
        found = [target for target in self._targets if self._is_in(target, text)]
        missing = [target for target in self._targets if target not in found]
        passed, reason = {
            "none": (not found, f"contains {listed(found)}"),
            "any": (bool(found), f"contains none of {listed(missing)}"),
            "all": (not missing, f"lacks {listed(missing)}"),
        }[self._mode]
        details = {"found": len(found), "of": len(self._targets)}
        return Score(passed, passed, "" if passed else reason, details)

    def _is_in(self, target: str, text: str) -> bool:
        if self._ignore_case:
            target, text = target.casefold(), text.casefold()
        if not self._whole_words:
            return target in text
        return re.search(rf"(?<!\w){re.escape(target)}(?!\w)", text) is not None


plugin = ContainsChecker
