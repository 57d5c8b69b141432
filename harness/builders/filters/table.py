"""Drops rows of tables."""

from harness.ports import Filter


def plugin() -> Filter:
    """Drop text with a vertical bar (``|``)."""
    return lambda text: "|" in text
