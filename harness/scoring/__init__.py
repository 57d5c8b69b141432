"""Scoring: extraction, checkers (rules), validators (schemas), judges (models), text metrics."""


def cut(text: str, longest: int) -> str:
    """Return a text cut to at most ``longest`` characters, including the "…" that marks a cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
