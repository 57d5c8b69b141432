"""Removes emphasis marks of Markdown and plain-text books."""

from __future__ import annotations

import re

EMPHASIS = re.compile(r"(\*\*|__|\*|_|~~)(.*?)\1")
"""The paper's. An unpaired mark is searched once per line and kind, so time is linear."""


class MarkdownProcessor:
    """Replaces ``**bold**``, ``_italic_``, ``~~struck~~`` and similar marks by their content."""

    def __call__(self, text: str) -> str:
        """Return the text without the marks."""
        return EMPHASIS.sub(r"\2", text)


plugin = MarkdownProcessor
