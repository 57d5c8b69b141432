"""Text in which a pattern of the user's is found."""

from __future__ import annotations

from harness.scoring.parsers.pattern import Pattern, PatternTooSlow


class PatternFilter:
    """Leaves out text in which a pattern is found, or on which it takes more than a second.

    pattern: a regular expression.
    ignore_case: capitals and small letters are the same.

    Raises: ConfigError where it is no pattern, or is too slow again and again.
    """

    def __init__(self, pattern: str, ignore_case: bool = False) -> None:
        self._pattern = Pattern(pattern, "The filter 'pattern'", ignore_case=ignore_case)

    def __call__(self, text: str) -> bool:
        """Whether it is found."""
        try:
            return self._pattern.search(text) is not None
        except PatternTooSlow:
            return True


plugin = PatternFilter
