r"""Removes text in square brackets: references, notes, pictures.

Like the paper's ``\[[^\]]*\]``, which takes quadratic time on a run of opening brackets.
"""

from __future__ import annotations


class BracketsProcessor:
    """Cuts out square brackets with their content, up to the first closing one."""

    def __call__(self, text: str) -> str:
        """Return the text without brackets."""
        kept = []
        at = 0
        while (begin := text.find("[", at)) >= 0 and (end := text.find("]", begin)) >= 0:
            kept.append(text[at:begin])
            at = end + 1
        return "".join([*kept, text[at:]])


plugin = BracketsProcessor
