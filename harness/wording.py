"""Counts, lists and shortened texts in messages and tables."""

from collections.abc import Sequence


def format_count(n: int, noun: str) -> str:
    """Format a count with its noun, whose plural ends in s.

    >>> format_count(1, "task"), format_count(2_000, "task")
    ('1 task', '2,000 tasks')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"


def join_with_and(texts: Sequence[str], limit: int = 4) -> str:
    """Join texts with commas and "and". Only the first ``limit`` are listed, the rest counted.

    >>> join_with_and(["a", "b", "c"]), join_with_and(["a", "b", "c"], 1)
    ('a, b and c', 'a and 2 more')
    """
    if len(texts) > limit:
        texts = [*texts[:limit], f"{len(texts) - limit:,} more"]
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def join_first(texts: Sequence[str], limit: int) -> str:
    """Join texts with commas. Only the first ``limit`` are listed, the rest counted.

    >>> join_first(["a", "b"], 2), join_first(["a", "b", "c"], 2)
    ('a, b', 'a, b and 1 more')
    """
    n_more = len(texts) - limit
    return ", ".join(texts[:limit]) + (f" and {n_more:,} more" if n_more > 0 else "")


def to_one_line(text: str, max_length: int = 300) -> str:
    """Put a text on one line with single spaces, and `truncate` it to ``max_length`` characters."""
    return truncate(" ".join(text.split()), max_length)


def truncate(text: str, max_length: int) -> str:
    """Shorten a text to at most ``max_length`` characters, ending in "…" if it is longer."""
    if len(text) <= max_length:
        return text
    return f"{text[: max_length - 1]}…"
