"""Collapses runs of white space."""

from __future__ import annotations

import re

RUN = re.compile(r"\s{2,}")


class WhiteSpaceProcessor:
    """Replaces two or more white-space characters by one space."""

    def __call__(self, text: str) -> str:
        """Return the text with single spaces."""
        return RUN.sub(" ", text)


plugin = WhiteSpaceProcessor
