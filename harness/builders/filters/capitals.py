"""Drops text in capitals, or without letters: headings, numbers and rules."""

from harness.ports import Filter


def plugin() -> Filter:
    """Drop text without a lower-case letter."""
    return lambda text: text.upper() == text
