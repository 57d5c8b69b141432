"""Notices of copyright."""

from __future__ import annotations

import string


class CopyrightFilter:
    """Leaves out text with a © in it, or whose first word is "copyright"."""

    def __call__(self, text: str) -> bool:
        """Whether it is such a notice."""
        if "©" in text:
            return True
        first = text.split(maxsplit=1)[:1]
        return first != [] and first[0].lower().strip(string.punctuation) == "copyright"


plugin = CopyrightFilter
