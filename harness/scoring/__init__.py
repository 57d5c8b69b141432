"""Scoring: extraction, checkers (rules), validators (schemas), judges (models), text metrics."""

from collections.abc import Sequence


def cut(text: str, longest: int) -> str:
    """Return a text cut to at most ``longest`` characters, including the "…" that marks the cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def listed(texts: Sequence[str], most: int = 8) -> str:
    """Return up to ``most`` texts, shortened, quoted and joined, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(repr(cut(text, 60)) for text in texts[:most]) + more
