"""Whether a generated word is one: against a word list, as the paper's word-level check does.

>>> Words({"lantern"}).holds("Lantern.")
True
"""

from __future__ import annotations

import string
from pathlib import Path

from harness.errors import DataInvalid
from harness.records import Score

LONG_WORDS = frozenset(
    {
        "supercalifragilisticexpialidocious",
        "pneumonoultramicroscopicsilicovolcanoconiosis",
        "antidisestablishmentarianism",
        "pseudopseudohypoparathyroidism",
        "extraterrestrializationism",
        "acceleratrix",
        "circumlocutrix",
        "procrastinatrix",
    }
)
"""Words that the paper counts as valid beside its word list."""


class Words:
    """A word list, the long words included; case does not count."""

    def __init__(self, words: set[str]) -> None:
        self._words = {word.lower() for word in words} | LONG_WORDS

    @classmethod
    def read(cls, path: Path) -> Words:
        """A file with a word per line.

        Raises: DataInvalid where it is no text, or holds no word.
        """
        try:
            words = {line.strip() for line in path.read_text(encoding="utf-8").splitlines()}
        except UnicodeDecodeError:
            raise DataInvalid(f"{path} is no word list: not a text file in UTF-8.") from None
        words.discard("")
        if not words:
            raise DataInvalid(f"{path} is no word list: it holds no word.")
        return cls(words)

    def holds(self, text: str) -> bool:
        """Whether a text is one of the words, but for case and punctuation around it."""
        return text.strip().strip(string.punctuation).lower() in self._words

    def score(self, text: str) -> Score:
        """The verdict on a text that should be a word."""
        valid = self.holds(text)
        return Score(valid, valid, "" if valid else "not in the word list")
