"""Drops text that matches your own regular expression."""

from __future__ import annotations

from harness.scoring.patterns import Pattern, PatternTooSlow


class PatternFilter:
    """Leaves out text in which a pattern is found.

    Args:
        pattern: A regular expression.
        ignore_case: Whether capitals and small letters are the same.

    Raises:
        ConfigError: The pattern is invalid.
    """

    def __init__(self, pattern: str, ignore_case: bool = False) -> None:
        self._pattern = Pattern(pattern, "The filter 'pattern'", ignore_case=ignore_case)

    def __call__(self, text: str) -> bool:
        """Return whether the pattern is found.

        Raises:
            PatternTooSlow: The search takes too long. It is an error, since the content of a data
                set must not depend on a clock.
        """
        try:
            return self._pattern.search(text) is not None
        except PatternTooSlow as error:
            raise PatternTooSlow(
                error.message,
                "Avoid repetitions within repetitions, like (a+)+ or (a|a)*, or leave out longer "
                "texts (the source's 'longest').",
            ) from None


plugin = PatternFilter
