"""Drops text in capitals: titles, and text without letters."""

from __future__ import annotations


class CapitalsFilter:
    """Leaves out text without a small letter, such as headings, numbers and rules."""

    def __call__(self, text: str) -> bool:
        """Return whether the text has no small letter."""
        return text.upper() == text


plugin = CapitalsFilter
