"""Scoring: extraction, checkers (rules), validators (schemas), judges (models), text metrics."""

from collections.abc import Sequence


def cut(text: str, longest: int) -> str:
    """Return the text, shortened to at most ``longest`` characters. "…" marks the cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def listed(texts: Sequence[str], most: int = 8) -> str:
    """Return the first ``most`` texts, quoted and cut, and the number of further texts."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(repr(cut(text, 60)) for text in texts[:most]) + more
