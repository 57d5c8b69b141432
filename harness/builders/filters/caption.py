"""Drops captions of pictures and tables: little text before a colon."""

from harness.ports import Filter


def plugin(characters: int = 6, words: int | None = None) -> Filter:
    """Drop text with little before its first colon ("Fig. 1: …"), or little in all.

    Args:
        characters: Drop a text with fewer characters there.
        words: Drop a text with at most this many words there (the authors' code: 5).
    """

    def is_caption(text: str) -> bool:
        before = text.partition(":")[0]
        return len(before) < characters or (words is not None and len(before.split()) <= words)

    return is_caption
