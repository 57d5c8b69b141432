"""Scoring: extraction, checkers (rules), validators (schemas), judges (models), text metrics."""


def cut(text: str, longest: int) -> str:
    """Shorten a text to a number of characters, and mark the cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
