"""Counts, lists and shortened texts in messages and tables."""

from collections.abc import Sequence


def count_of(n: int, noun: str) -> str:
    """Format a number with a noun whose plural ends in s.

    >>> count_of(1, "task"), count_of(2_000, "task")
    ('1 task', '2,000 tasks')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"


def joined_with_and(texts: Sequence[str], limit: int = 4) -> str:
    """Join texts with commas and "and", and count those after the first ``limit``.

    >>> joined_with_and(["a", "b", "c"]), joined_with_and(["a", "b", "c"], 1)
    ('a, b and c', 'a and 2 more')
    """
    if len(texts) > limit:
        texts = [*texts[:limit], f"{len(texts) - limit:,} more"]
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def first_few(texts: Sequence[str], limit: int) -> str:
    """Join texts with commas, and count those after the first ``limit``.

    >>> first_few(["a", "b"], 2), first_few(["a", "b", "c"], 2)
    ('a, b', 'a, b and 1 more')
    """
    more = len(texts) - limit
    return ", ".join(texts[:limit]) + (f" and {more:,} more" if more > 0 else "")


def one_line(text: str, longest: int = 300) -> str:
    """Return the text on one line with single spaces, `truncated`."""
    return truncated(" ".join(text.split()), longest)


def truncated(text: str, longest: int) -> str:
    """Return the text, shortened to at most ``longest`` characters. "…" marks the cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
