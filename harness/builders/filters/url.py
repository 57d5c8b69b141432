r"""Drops text with a URL.

The paper's pattern is ``(http(s)?://)?(www\.)?[a-zA-Z0-9\-]+\.[a-zA-Z]{2,6}(\.[a-zA-Z]{2,6})?``
``(/[a-zA-Z0-9\-]*)*(\?[a-zA-Z0-9\-=&]*)?``. Everything but a name, a dot and two letters is
optional, so these alone decide; the whole pattern would take quadratic time on a long run of
letters.
"""

from __future__ import annotations

import re

NAME_AND_ENDING = re.compile(r"[a-zA-Z0-9\-]\.[a-zA-Z]{2}")


class UrlFilter:
    """Leaves out text with a URL, or what looks like one ("the end.Then")."""

    def __call__(self, text: str) -> bool:
        """Return whether the text has a URL."""
        return NAME_AND_ENDING.search(text) is not None


plugin = UrlFilter
