"""Rows of tables."""

from __future__ import annotations


class TableFilter:
    """Leaves out text with a bar (``|``) in it."""

    def __call__(self, text: str) -> bool:
        """Whether there is one."""
        return "|" in text


plugin = TableFilter
