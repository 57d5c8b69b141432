"""Scoring: extraction, checkers (rules), validators (schemas), judges (models), text metrics."""


def cut(text: str, longest: int) -> str:
    """Return a text of at most so many characters; what is left out is marked."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
