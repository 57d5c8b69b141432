"""Post-processors of paragraphs (`harness.ports.PostProcessor`), all in linear time."""

import re

from harness.ports import PostProcessor


def brackets() -> PostProcessor:
    r"""Remove each opening square bracket and all text up to the next closing one.

    This equals the paper's ``\[[^\]]*\]``, which takes quadratic time on a run of opening brackets.
    """

    def without_brackets(text: str) -> str:
        kept = []
        at = 0
        while (begin := text.find("[", at)) >= 0 and (end := text.find("]", begin)) >= 0:
            kept.append(text[at:begin])
            at = end + 1
        return "".join([*kept, text[at:]])

    return without_brackets


def drop_first_line() -> PostProcessor:
    """Remove the text up to the first newline: in Wikipedia's dumps, the title."""
    return lambda text: text.split("\n", 1)[-1]


def markdown() -> PostProcessor:
    """Replace ``**bold**``, ``_italic_``, ``~~struck~~`` and similar marks with their content.

    The pattern is the paper's. For an unpaired mark, the rest of the line is searched once per kind
    of mark, so the time is linear.
    """
    emphasis = re.compile(r"(\*\*|__|\*|_|~~)(.*?)\1")
    return lambda text: emphasis.sub(r"\2", text)


def single_newlines() -> PostProcessor:
    """Replace each single newline with a space."""
    single = re.compile(r"(?<!\n)\n(?!\n)")
    return lambda text: single.sub(" ", text)


def white_space() -> PostProcessor:
    """Replace two or more white-space characters with one space."""
    return lambda text: re.sub(r"\s{2,}", " ", text)


PLUGINS = {
    made.__name__: made
    for made in (brackets, drop_first_line, markdown, single_newlines, white_space)
}
