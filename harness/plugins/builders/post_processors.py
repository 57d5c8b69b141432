"""Built-in post-processors of paragraphs (`harness.ports.PostProcessor`). All take linear time."""

import re

from harness.ports import PostProcessor


def brackets() -> PostProcessor:
    """Remove text from each opening square bracket to the next closing one."""

    def without_brackets(text: str) -> str:
        # The paper's pattern, \[[^\]]*\], takes quadratic time on a run of opening brackets.
        kept = []
        at = 0
        while (begin := text.find("[", at)) >= 0 and (end := text.find("]", begin)) >= 0:
            kept.append(text[at:begin])
            at = end + 1
        return "".join([*kept, text[at:]])

    return without_brackets


def drop_first_line() -> PostProcessor:
    """Remove the first line of a text with several lines, such as a title in Wikipedia's dumps."""
    return lambda text: text.split("\n", 1)[-1]


def markdown() -> PostProcessor:
    """Remove emphasis markers, as in ``**bold**``, ``_italic_`` and ``~~struck~~``."""
    # The paper's pattern. Linear time: at most one failed search per line and kind of mark.
    return lambda text: re.sub(r"(\*\*|__|\*|_|~~)(.*?)\1", r"\2", text)


def single_newlines() -> PostProcessor:
    """Replace each single newline with a space."""
    return lambda text: re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def white_space() -> PostProcessor:
    """Replace each run of two or more white-space characters with one space."""
    return lambda text: re.sub(r"\s{2,}", " ", text)
