"""A filter: leaves out paragraphs that shrug."""

from __future__ import annotations


class ShrugFilter:
    """Leaves out text with a word that says nothing.

    word: the word.
    """

    def __init__(self, word: str = "whatever") -> None:
        self._word = word

    def __call__(self, text: str) -> bool:
        """Whether it is there."""
        return self._word in text.lower()
