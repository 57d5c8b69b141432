"""Drops rows of tables."""

from __future__ import annotations


class TableFilter:
    """Leaves out text with a bar (``|``)."""

    def __call__(self, text: str) -> bool:
        """Return whether the text has a bar."""
        return "|" in text


plugin = TableFilter
