"""Text in which a pattern of the user's is found."""

from __future__ import annotations

from harness.scoring.patterns import Pattern, PatternTooSlow


class PatternFilter:
    """Leaves out text in which a pattern is found.

    pattern: a regular expression.
    ignore_case: capitals and small letters are the same.

    Raises: ConfigError where it is no pattern.
    """

    def __init__(self, pattern: str, ignore_case: bool = False) -> None:
        self._pattern = Pattern(pattern, "The filter 'pattern'", ignore_case=ignore_case)

    def __call__(self, text: str) -> bool:
        """Whether it is found.

        Raises: PatternTooSlow: what stays in a data set is not for a clock to decide.
        """
        try:
            return self._pattern.search(text) is not None
        except PatternTooSlow as error:
            raise PatternTooSlow(
                error.message,
                "Write it without repetitions within repetitions, like (a+)+ or (a|a)*, or leave "
                "out longer texts (the source's 'longest').",
            ) from None


plugin = PatternFilter
