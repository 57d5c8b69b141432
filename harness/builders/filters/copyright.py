"""Drops copyright notices."""

from __future__ import annotations

import string


class CopyrightFilter:
    """Leaves out text with a ©, or whose first word is "copyright"."""

    def __call__(self, text: str) -> bool:
        """Return whether it is a notice."""
        first = text.split(maxsplit=1)[:1]
        return "©" in text or [w.lower().strip(string.punctuation) for w in first] == ["copyright"]


plugin = CopyrightFilter
