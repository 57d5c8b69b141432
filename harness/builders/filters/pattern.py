"""Drops text that matches your own regular expression."""

from harness.ports import Filter
from harness.scoring.patterns import Pattern, PatternTooSlow


def plugin(pattern: str, ignore_case: bool = False) -> Filter:
    """Drop text in which a pattern is found.

    A search that takes too long is an error, since the content of a data set must not depend on a
    clock.
    """
    compiled = Pattern(pattern, "The filter 'pattern'", ignore_case=ignore_case)

    def is_found(text: str) -> bool:
        try:
            return compiled.search(text) is not None
        except PatternTooSlow as error:
            raise PatternTooSlow(
                error.message,
                "Avoid repetitions within repetitions, like (a+)+ or (a|a)*, or leave out longer "
                "texts (the source's 'longest').",
            ) from None

    return is_found
