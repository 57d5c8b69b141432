"""Instructions about a text's number of words, sentences and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.scoring.checkers import word_count
from harness.scoring.instructions.texts import Check, Relation, counted, missed, sentences, words

_STARS = re.compile(r"\s?\*\*\*\s?")
_RULE = re.compile(r"^[ \t]*\*\*\*[ \t]*$", re.MULTILINE)
_ENDS_FIRST_WORD = re.compile(r"[.,?!'\"]")


def number_words(text: str, num_words: int, relation: Relation) -> str:
    """Number of words: ``don't`` and ``3.5`` are two words each."""
    return missed(len(words(text)), relation, num_words, "words")


def number_plain_words(text: str, num_words: int, relation: Relation) -> str:
    """Corrected `number_words`: ``don't``, ``3.5`` and words with combining marks are one each."""
    return missed(word_count.words(text), relation, num_words, "words")


def number_sentences(text: str, num_sentences: int, relation: Relation) -> str:
    """Number of sentences, split by Punkt: ``1. One`` in a list is two."""
    return missed(len(sentences(text)), relation, num_sentences, "sentences")


def number_paragraphs(text: str, num_paragraphs: int) -> str:
    """Number of paragraphs, separated by ``***`` anywhere; an empty one in the middle fails."""
    return _paragraphs(_STARS.split(text), num_paragraphs)


def number_divided_paragraphs(text: str, num_paragraphs: int) -> str:
    """Corrected `number_paragraphs`: ``***`` separates only on a line of its own."""
    return _paragraphs(_RULE.split(text), num_paragraphs)


def _paragraphs(parts: list[str], wanted: int) -> str:
    blank = [place for place, part in enumerate(parts) if not part.strip()]
    if any(0 < place < len(parts) - 1 for place in blank):
        return "an empty paragraph between two dividers"
    count = len(parts) - len(blank)
    return "" if count == wanted else counted(count, "paragraphs divided by ***", wanted)


def nth_paragraph_first_word(
    text: str, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> str:
    """Number of paragraphs, separated by two line breaks, and the first word of one of them.

    Blank paragraphs do not count, but do have a place when the paragraph is looked up.
    """
    parts = text.split("\n\n")
    count = sum(1 for part in parts if part.strip())
    return _first_word(parts, count, num_paragraphs, nth_paragraph, first_word)


def nth_present_paragraph_first_word(
    text: str, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> str:
    """Corrected `nth_paragraph_first_word`: blank paragraphs have no place."""
    parts = [part for part in re.split(r"\n[^\S\n]*\n", text) if part.strip()]
    return _first_word(parts, len(parts), num_paragraphs, nth_paragraph, first_word)


def _first_word(parts: list[str], count: int, wanted: int, nth: int, first_word: str) -> str:
    if count != wanted:
        return counted(count, "paragraphs", wanted)
    paragraph = parts[nth - 1].strip() if nth <= count else ""
    if not paragraph:
        return f"there is no paragraph {nth}"
    word = paragraph.split(maxsplit=1)[0].lstrip("'").lstrip('"')
    found = _ENDS_FIRST_WORD.split(word, maxsplit=1)[0].lower()
    if found == first_word.lower():
        return ""
    return f"paragraph {nth} begins with {found!r:.60}, {first_word.lower()!r:.60} wanted"


OFFICIAL: Mapping[str, Check] = {
    "length_constraints:number_words": number_words,
    "length_constraints:number_sentences": number_sentences,
    "length_constraints:number_paragraphs": number_paragraphs,
    "length_constraints:nth_paragraph_first_word": nth_paragraph_first_word,
}
CORRECTED: Mapping[str, Check] = {
    "length_constraints:number_words": number_plain_words,
    "length_constraints:number_paragraphs": number_divided_paragraphs,
    "length_constraints:nth_paragraph_first_word": nth_present_paragraph_first_word,
}
