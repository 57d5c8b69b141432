"""Drops captions of pictures and tables: little text before a colon."""

from __future__ import annotations


class CaptionFilter:
    """Leaves out text with little before its first colon ("Fig. 1: …"), or little in all.

    Args:
        characters: Leave out a text with fewer characters there.
        words: Leave out a text with at most this many words there (the authors' code: 5).
    """

    def __init__(self, characters: int = 6, words: int | None = None) -> None:
        self._characters = characters
        self._words = words

    def __call__(self, text: str) -> bool:
        """Return whether the text before the colon is that short."""
        before = text.partition(":")[0]
        if len(before) < self._characters:
            return True
        return self._words is not None and len(before.split()) <= self._words


plugin = CaptionFilter
