"""Scoring: extraction, checkers (rules), validators (schemas), judges (models), text metrics."""


def cut(text: str, longest: int) -> str:
    """Return a text of at most ``longest`` characters; a text that was cut ends in "…"."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
