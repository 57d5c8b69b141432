"""Checks whether the text matches a regular expression, within bounded time."""

from __future__ import annotations

from typing import Any

from harness.records import Instance, Score
from harness.scoring import cut
from harness.scoring.patterns import Pattern, PatternTooSlow


class RegexMatchChecker:
    """Passes text that matches a pattern. A search that takes too long gives no verdict.

    Args:
        pattern: A regular expression in the syntax of the regex package (a superset of Python's).
        full: Require the whole text to match, not just a part of it.
        ignore_case: Treat ``a`` and ``A`` as equal.
        negate: Pass text that does not match.
    """

    def __init__(
        self, pattern: str, full: bool = False, ignore_case: bool = False, negate: bool = False
    ) -> None:
        self._pattern = Pattern(pattern, "The checker 'regex_match'", ignore_case=ignore_case)
        self._full, self._negate = full, negate

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score, without a value if the search takes too long."""
        try:
            match = self._pattern.fullmatch(text) if self._full else self._pattern.search(text)
        except PatternTooSlow as error:
            return Score(None, None, error.message)
        passed = (match is not None) is not self._negate
        must = "must not match" if self._negate else "must match"
        pattern = cut(self._pattern.pattern.replace("\n", "\\n"), 120)
        return Score(passed, passed, "" if passed else f"{must} '{pattern}'")


plugin = RegexMatchChecker
