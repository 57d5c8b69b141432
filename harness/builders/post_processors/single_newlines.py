"""Joins lines within a paragraph."""

import re

from harness.ports import PostProcessor


def plugin() -> PostProcessor:
    """Replace each single newline with a space."""
    single = re.compile(r"(?<!\n)\n(?!\n)")
    return lambda text: single.sub(" ", text)
