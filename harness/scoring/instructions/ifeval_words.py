"""IFEval's instructions about keywords and letters, and numbers of words, sentences, paragraphs.

Official checkers use keywords as regular expressions; corrected ones take them literally, so that
``C++`` and ``Mr.`` mean what they say.
"""

from __future__ import annotations

import re
from typing import Any

from harness.scoring import listed
from harness.scoring.checkers import word_count
from harness.scoring.instructions.texts import (
    Relation,
    exactly,
    expression,
    ifeval,
    missed,
    sentences,
    tokens,
    words,
)

_STARS = re.compile(r"\s?\*\*\*\s?")
_RULE = re.compile(r"^[ \t]*\*\*\*[ \t]*$", re.MULTILINE)
_ENDS_FIRST_WORD = re.compile(r"[.,?!'\"]")


def _keyword(keyword: str, corrected: bool, within: str = "{}") -> Any:
    return expression(re.escape(keyword) if corrected else keyword, within)


@ifeval("keywords:existence")
def existence(text: str, keywords: list[str], *, corrected: bool = False) -> str:
    """Keywords: all occur, in any case, also within words."""
    missing = [one for one in keywords if not _keyword(one, corrected).search(text)]
    return f"{listed(missing)} missing" if missing else ""


@ifeval("keywords:frequency")
def frequency(
    text: str, keyword: str, frequency: int, relation: Relation, *, corrected: bool = False
) -> str:
    """How often a keyword occurs, in any case, also within words."""
    count = len(_keyword(keyword.strip(), corrected).findall(text))
    return missed(count, relation, frequency, f"occurrences of {keyword.strip()!r:.60}")


@ifeval("keywords:forbidden_words")
def forbidden(text: str, forbidden_words: list[str], *, corrected: bool = False) -> str:
    """Words that do not occur as whole words, in any case."""
    # A literal word may begin or end with a symbol.
    within = r"(?<!\w){}(?!\w)" if corrected else r"\b{}\b"
    found = [one for one in forbidden_words if _keyword(one, corrected, within).search(text)]
    return f"contains {listed(found)}" if found else ""


@ifeval("keywords:letter_frequency")
def letters(text: str, letter: str, let_frequency: int, let_relation: Relation) -> str:
    """How often a letter occurs, in any case.

    Officially, a symbol is replaced by a random letter, so that the verdict is random; here the
    symbol itself is counted.
    """
    letter = letter.strip().lower()
    count = text.lower().count(letter) if letter else 0
    return missed(count, let_relation, let_frequency, f"occurrences of {letter!r:.60}")


@ifeval("change_case:capital_word_frequency")
def capital_words(text: str, capital_frequency: int, capital_relation: Relation) -> str:
    """Number of words in capital letters; ``I`` and ``U.S.A.`` are such words."""
    count = sum(token.isupper() for token in tokens(text))
    return missed(count, capital_relation, capital_frequency, "words in capital letters")


@ifeval("length_constraints:number_words")
def number_words(text: str, num_words: int, relation: Relation, *, corrected: bool = False) -> str:
    """Number of words: ``don't`` and ``3.5`` are two words each."""
    # Corrected, they are one word each, and so are words with combining marks.
    count = word_count.words(text) if corrected else len(words(text))
    return missed(count, relation, num_words, "words")


@ifeval("length_constraints:number_sentences")
def number_sentences(text: str, num_sentences: int, relation: Relation) -> str:
    """Number of sentences, split by Punkt: ``1. One`` in a list is two."""
    return missed(len(sentences(text)), relation, num_sentences, "sentences")


@ifeval("length_constraints:number_paragraphs")
def number_paragraphs(text: str, num_paragraphs: int, *, corrected: bool = False) -> str:
    """Number of paragraphs, separated by ``***`` anywhere; an empty one in the middle fails."""
    # Corrected, ``***`` separates only on a line of its own.
    parts = (_RULE if corrected else _STARS).split(text)
    if not all(part.strip() for part in parts[1:-1]):
        return "an empty paragraph between two dividers"
    count = sum(bool(part.strip()) for part in parts)
    return exactly(count, num_paragraphs, "paragraphs divided by ***")


@ifeval("length_constraints:nth_paragraph_first_word")
def nth_paragraph_first_word(
    text: str, num_paragraphs: int, nth_paragraph: int, first_word: str, *, corrected: bool = False
) -> str:
    """Number of paragraphs, separated by two line breaks, and the first word of one of them.

    Blank paragraphs do not count, but do have a place when the paragraph is looked up (not if
    corrected).
    """
    parts = re.split(r"\n[^\S\n]*\n", text) if corrected else text.split("\n\n")
    present = [part for part in parts if part.strip()]
    if wrong := exactly(len(present), num_paragraphs, "paragraphs"):
        return wrong
    places = present if corrected else parts
    paragraph = places[nth_paragraph - 1].split() if nth_paragraph <= len(present) else []
    if not paragraph:
        return f"there is no paragraph {nth_paragraph}"
    word = paragraph[0].lstrip("'").lstrip('"')
    found, wanted = _ENDS_FIRST_WORD.split(word, maxsplit=1)[0].lower(), first_word.lower()
    if found == wanted:
        return ""
    return f"paragraph {nth_paragraph} begins with {found!r:.60}, {wanted!r:.60} wanted"
