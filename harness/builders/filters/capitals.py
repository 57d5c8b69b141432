"""Text in capitals: titles, and what has no letters at all."""

from __future__ import annotations


class CapitalsFilter:
    """Leaves out text without a small letter, such as headings, numbers and rules."""

    def __call__(self, text: str) -> bool:
        """Whether it stays the same in capitals."""
        return text.upper() == text


plugin = CapitalsFilter
