"""Scoring: extraction, checkers (rules), validators (schemas), judges (models), text metrics."""

import unicodedata
from collections.abc import Sequence

_INVISIBLE = ("Zs", "Zl", "Zp", "Cc", "Cf")  # categories of Unicode
_FILLERS = "\u034f\u115f\u1160\u2800\u3164\uffa0"  # invisible characters of other categories


def is_blank(text: str) -> bool:
    """Return whether a text shows nothing: it is empty, white space or invisible characters."""
    return all(unicodedata.category(char) in _INVISIBLE or char in _FILLERS for char in text)


def cut(text: str, longest: int) -> str:
    """Return the text, shortened to at most ``longest`` characters. "…" marks the cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def listed(texts: Sequence[str], most: int = 8) -> str:
    """Return the first ``most`` texts, quoted and cut, and the number of further texts."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(repr(cut(text, 60)) for text in texts[:most]) + more
