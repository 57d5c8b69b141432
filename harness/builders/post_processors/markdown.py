"""Marks of emphasis, as Markdown and plain-text books have them."""

from __future__ import annotations

import re

EMPHASIS = re.compile(r"(\*\*|__|\*|_|~~)(.*?)\1")
"""The paper's. A mark that has no partner is looked for once per line and kind: time is linear."""


class MarkdownProcessor:
    """Replaces ``**bold**``, ``_italic_``, ``~~struck~~`` and their like by their content."""

    def __call__(self, text: str) -> str:
        """The text without the marks."""
        return EMPHASIS.sub(r"\2", text)


plugin = MarkdownProcessor
