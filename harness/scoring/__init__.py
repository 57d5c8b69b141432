"""Scoring: extraction, checkers (rules), validators (schemas), judges (models), text metrics."""

import unicodedata
from collections.abc import Sequence

from harness.wording import join_first, truncate

_INVISIBLE = ("Zs", "Zl", "Zp", "Cc", "Cf")  # categories of Unicode
_FILLERS = "\u034f\u115f\u1160\u2800\u3164\uffa0"  # invisible characters of other categories

CHOICE = "choice"  # name of the score that says whether the right option was chosen


def is_blank(text: str) -> bool:
    """Return whether a text shows nothing: it is empty, white space or invisible characters."""
    return all(unicodedata.category(char) in _INVISIBLE or char in _FILLERS for char in text)


def quoted_list(texts: Sequence[str]) -> str:
    """Return the first eight texts, quoted and truncated, and the number of further texts."""
    return join_first([repr(truncate(text, 60)) for text in texts], 8)
