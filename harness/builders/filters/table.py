"""Rows of tables."""

from __future__ import annotations


class TableFilter:
    """Leaves out text with a bar (``|``)."""

    def __call__(self, text: str) -> bool:
        """Return whether it has one."""
        return "|" in text


plugin = TableFilter
