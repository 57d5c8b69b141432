"""Captions of pictures and tables: little text before a colon."""

from __future__ import annotations


class CaptionFilter:
    """Leaves out text with little before its first colon ("Fig. 1: …"), or little in all.

    characters: fewer than so many of them are a caption's.
    words: at most so many of them are, as in the authors' code (5); null for characters alone.
    """

    def __init__(self, characters: int = 6, words: int | None = None) -> None:
        self._characters = characters
        self._words = words

    def __call__(self, text: str) -> bool:
        """Whether it is such a caption."""
        before = text.partition(":")[0]
        if len(before) < self._characters:
            return True
        return self._words is not None and len(before.split()) <= self._words


plugin = CaptionFilter
