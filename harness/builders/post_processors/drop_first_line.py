"""Removes the title in the first line of a paragraph, as in Wikipedia's dumps."""

from harness.ports import PostProcessor


def plugin() -> PostProcessor:
    """Cut the text off up to the first newline; text of one line stays as it is."""
    return lambda text: text.split("\n", 1)[-1]
