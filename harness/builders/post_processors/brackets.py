"""Removes text in square brackets: references, notes, pictures."""

from harness.ports import PostProcessor


def plugin() -> PostProcessor:
    r"""Remove square brackets with their content, up to the first closing one.

    Like the paper's ``\[[^\]]*\]``, which takes quadratic time on a run of opening brackets.
    """

    def without_brackets(text: str) -> str:
        kept = []
        at = 0
        while (begin := text.find("[", at)) >= 0 and (end := text.find("]", begin)) >= 0:
            kept.append(text[at:begin])
            at = end + 1
        return "".join([*kept, text[at:]])

    return without_brackets
