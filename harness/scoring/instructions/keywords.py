"""Instructions about words and letters that a text must or must not contain.

Official checkers use keywords as regular expressions; corrected ones take them literally, so that
``C++`` and ``Mr.`` mean what they say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.scoring.instructions.texts import Check, Relation, expression, listed, missed


def existence(text: str, keywords: list[str]) -> str:
    """Keywords: all occur, in any case, also within words."""
    missing = [one for one in keywords if not expression(one).search(text)]
    return f"{listed(missing)} missing" if missing else ""


def literal_existence(text: str, keywords: list[str]) -> str:
    """Corrected `existence`: keywords are literal."""
    missing = [one for one in keywords if not expression(re.escape(one)).search(text)]
    return f"{listed(missing)} missing" if missing else ""


def frequency(text: str, keyword: str, frequency: int, relation: Relation) -> str:
    """How often a keyword occurs, in any case, also within words."""
    found = len(expression(keyword.strip()).findall(text))
    return missed(found, relation, frequency, f"occurrences of {keyword.strip()!r:.60}")


def literal_frequency(text: str, keyword: str, frequency: int, relation: Relation) -> str:
    """Corrected `frequency`: the keyword is literal."""
    found = len(expression(re.escape(keyword.strip())).findall(text))
    return missed(found, relation, frequency, f"occurrences of {keyword.strip()!r:.60}")


def forbidden(text: str, forbidden_words: list[str]) -> str:
    """Words that do not occur as whole words, in any case."""
    found = [one for one in forbidden_words if expression(one, r"\b{}\b").search(text)]
    return f"contains {listed(found)}" if found else ""


def literal_forbidden(text: str, forbidden_words: list[str]) -> str:
    """Corrected `forbidden`: words are literal, and may begin or end with a symbol."""
    found = [
        one
        for one in forbidden_words
        if re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text, re.IGNORECASE)
    ]
    return f"contains {listed(found)}" if found else ""


def letters(text: str, letter: str, let_frequency: int, let_relation: Relation) -> str:
    """How often a letter occurs, in any case.

    Officially, a symbol is replaced by a random letter, so that the verdict is random; here the
    symbol itself is counted.
    """
    letter = letter.strip().lower()
    found = text.lower().count(letter) if letter else 0
    return missed(found, let_relation, let_frequency, f"occurrences of {letter!r:.60}")


OFFICIAL: Mapping[str, Check] = {
    "keywords:existence": existence,
    "keywords:frequency": frequency,
    "keywords:forbidden_words": forbidden,
    "keywords:letter_frequency": letters,
}
CORRECTED: Mapping[str, Check] = {
    "keywords:existence": literal_existence,
    "keywords:frequency": literal_frequency,
    "keywords:forbidden_words": literal_forbidden,
}
