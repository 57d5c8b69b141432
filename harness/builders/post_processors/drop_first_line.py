"""Removes the title in the first line of a paragraph, as in Wikipedia's dumps."""

from __future__ import annotations


class DropFirstLineProcessor:
    """Cuts the text off up to the first newline; text of one line stays as it is."""

    def __call__(self, text: str) -> str:
        """Return the text without its first line."""
        _, newline, rest = text.partition("\n")
        return rest if newline else text


plugin = DropFirstLineProcessor
