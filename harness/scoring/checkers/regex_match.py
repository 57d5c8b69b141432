"""Checks whether the text matches a regular expression, within bounded time."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from harness.ports import Checker
from harness.records import Instance, Score
from harness.scoring.patterns import Pattern, PatternTooSlow
from harness.wording import truncated

_SEPARATE_MARK = re.compile(r"[\u0300-\u036f][?*+{]|\[[^\[\]]*[\u0300-\u036f]")
"""Matches a combining mark that is quantified or in a set, and so must not join a letter."""


class RegexMatchChecker(Checker):
    """Passes text that matches a pattern. A search that takes too long gives no verdict.

    The text is searched as written and, if that differs, in the normalisation form NFC, with the
    pattern in NFC: ``café`` matches whether its last letter is one character or two.

    Args:
        pattern: A regular expression in the syntax of the regex package (a superset of Python's).
        full: Require the whole text to match, not just a part of it.
        ignore_case: Treat ``a`` and ``A`` as equal, and ``ß`` and ``SS``.
        negate: Pass text that does not match.
    """

    def __init__(
        self, pattern: str, full: bool = False, ignore_case: bool = False, negate: bool = False
    ) -> None:
        where = "The checker 'regex_match'"
        composed = unicodedata.normalize("NFC", pattern)
        if _SEPARATE_MARK.search(pattern):
            composed = pattern
        self._pattern = Pattern(pattern, where, ignore_case=ignore_case, full_case=True)
        self._composed = self._pattern
        if composed != pattern:
            self._composed = Pattern(composed, where, ignore_case=ignore_case, full_case=True)
        self._full = full
        self._negate = negate

    def check(self, text: str, instance: Instance[Any]) -> Score:
        """Return a score, without a value if the search takes too long."""
        try:
            matches = self._matches(text)
        except PatternTooSlow as error:
            return Score(None, None, error.message)
        passed = matches is not self._negate
        must = "must not match" if self._negate else "must match"
        pattern = truncated(self._pattern.pattern.replace("\n", "\\n"), 120)
        return Score(passed, passed, "" if passed else f"{must} '{pattern}'")

    def _matches(self, text: str) -> bool:
        if self._search(self._pattern, text):
            return True
        composed = unicodedata.normalize("NFC", text)
        if composed == text and self._composed is self._pattern:
            return False
        return self._search(self._composed, composed)

    def _search(self, pattern: Pattern, text: str) -> bool:
        match = pattern.fullmatch(text) if self._full else pattern.search(text)
        return match is not None


plugin = RegexMatchChecker
