"""Removes emphasis marks of Markdown and plain-text books."""

import re

from harness.ports import PostProcessor


def plugin() -> PostProcessor:
    """Replace ``**bold**``, ``_italic_``, ``~~struck~~`` and similar marks with their content.

    The pattern is the paper's. An unpaired mark is searched once per line and kind, so time is
    linear.
    """
    emphasis = re.compile(r"(\*\*|__|\*|_|~~)(.*?)\1")
    return lambda text: emphasis.sub(r"\2", text)
