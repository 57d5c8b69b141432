"""Collapses runs of white space."""

import re

from harness.ports import PostProcessor


def plugin() -> PostProcessor:
    """Replace two or more white-space characters with one space."""
    return lambda text: re.sub(r"\s{2,}", " ", text)
