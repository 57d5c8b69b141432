"""Reasoning that a compatible server leaves inside the answer: ``<think>…</think>``."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


def split_think(content: str) -> tuple[str, str | None]:
    """The answer, and the reasoning before it, None where there is none.

    A block counts only at the very beginning. Some chat templates put the
    opening tag into the prompt, so that the content begins in the middle of
    the reasoning: a closing tag without an opening one ends it. Reasoning that
    was cut off before its end leaves an empty answer.

    >>> split_think("<think>Hm.</think>\\n\\nYes.")
    ('Yes.', 'Hm.')
    """
    begun = content.lstrip()
    if begun.startswith(OPEN):
        reasoning, closed, answer = begun[len(OPEN) :].partition(CLOSE)
    elif CLOSE in content and OPEN not in content.partition(CLOSE)[0]:
        reasoning, closed, answer = content.partition(CLOSE)
    else:
        return content, None
    return (answer.lstrip("\n") if closed else ""), reasoning.strip()
