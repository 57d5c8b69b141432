"""Removes the title in the first line of a paragraph, as in Wikipedia's dumps."""

from harness.ports import PostProcessor


def plugin() -> PostProcessor:
    """Remove the text up to the first newline; text of one line stays as it is."""
    return lambda text: text.split("\n", 1)[-1]
