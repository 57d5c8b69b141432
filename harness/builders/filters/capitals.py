"""Drops text in capitals, or without letters: headings, numbers and rules."""

from harness.ports import Filter


def plugin() -> Filter:
    """Leave out text without a small letter."""
    return lambda text: text.upper() == text
