"""Drops copyright notices."""

import string

from harness.ports import Filter


def plugin() -> Filter:
    """Drop text with a ©, or whose first word is "copyright"."""

    def is_notice(text: str) -> bool:
        first = text.split(maxsplit=1)[:1]
        return "©" in text or [w.lower().strip(string.punctuation) for w in first] == ["copyright"]

    return is_notice
