"""Joins lines within a paragraph."""

from __future__ import annotations

import re

SINGLE = re.compile(r"(?<!\n)\n(?!\n)")


class SingleNewlinesProcessor:
    """Replaces each single newline by a space."""

    def __call__(self, text: str) -> str:
        """Return the text without single newlines."""
        return SINGLE.sub(" ", text)


plugin = SingleNewlinesProcessor
