"""Built-in filters and post-processors of corpora (`harness.ports`).

A filter returns True for text to drop. A corpus is untrusted text, so all of them take linear time,
except the filter `pattern`, which has a time limit.
"""

import re
import string

from harness.plugins.benchmarks.collie.constraints.check import Splitter
from harness.ports import Filter, PostProcessor
from harness.scoring.patterns import Pattern, PatternTooSlow


def capitals() -> Filter:
    """Drop text without a lower-case letter, such as headings, numbers and horizontal rules."""
    return lambda text: text.upper() == text


def caption(characters: int = 6, words: int | None = None) -> Filter:
    """Drop text that is very short, or that begins with a short label and a colon ("Fig. 1: …").

    Args:
        characters: Drop text with fewer characters than this before its first colon, or in total if
            it has no colon.
        words: Also drop text with at most this many words before its first colon, or in total if it
            has no colon. (The authors' code: 5)
    """

    def is_caption(text: str) -> bool:
        before = text.partition(":")[0]
        return len(before) < characters or (words is not None and len(before.split()) <= words)

    return is_caption


def copyright() -> Filter:
    """Drop text with a ©, or with "copyright" as its first word."""

    def is_notice(text: str) -> bool:
        first = text.split(maxsplit=1)[:1]
        return "©" in text or [w.lower().strip(string.punctuation) for w in first] == ["copyright"]

    return is_notice


def no_sentence(*, units: Splitter) -> Filter:
    """Drop text, such as a heading, in which no sentence has a period and more than two words."""

    def is_sentence(text: str) -> bool:
        return "." in text and len(text.split()) > 2

    return lambda text: "." not in text or not any(map(is_sentence, units.sentences(text)))


def pattern(pattern: str, ignore_case: bool = False) -> Filter:
    """Drop text in which a regular expression finds a match.

    The filter raises `PatternTooSlow` if the search times out.
    """
    compiled = Pattern(pattern, "The filter 'pattern'", ignore_case=ignore_case)

    def is_found(text: str) -> bool:
        try:
            return compiled.search(text) is not None
        except PatternTooSlow as error:
            remedy = "Avoid repetitions within repetitions, like (a+)+ or (a|a)*"
            remedy += ", or leave out longer texts (the source's 'longest')."
            raise PatternTooSlow(error.message, remedy) from None

    return is_found


def table() -> Filter:
    """Drop text with a vertical bar (``|``)."""
    return lambda text: "|" in text


def url() -> Filter:
    r"""Drop text with a URL, or with anything that looks like one ("the end.Then").

    The paper's pattern is ``(http(s)?://)?(www\.)?[a-zA-Z0-9\-]+\.[a-zA-Z]{2,6}(\.[a-zA-Z]{2,6})?``
    ``(/[a-zA-Z0-9\-]*)*(\?[a-zA-Z0-9\-=&]*)?``. It takes quadratic time on a long run of letters.
    This filter therefore searches only for the pattern's mandatory part: a letter, digit or hyphen,
    then a dot, then two letters.
    """
    return lambda text: re.search(r"[a-zA-Z0-9\-]\.[a-zA-Z]{2}", text) is not None


def brackets() -> PostProcessor:
    """Remove text from each opening square bracket to the next closing one."""

    def without_brackets(text: str) -> str:
        # The paper's pattern, \[[^\]]*\], takes quadratic time on a run of opening brackets.
        pieces = []
        offset = 0
        while (begin := text.find("[", offset)) >= 0 and (end := text.find("]", begin)) >= 0:
            pieces.append(text[offset:begin])
            offset = end + 1
        return "".join([*pieces, text[offset:]])

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
