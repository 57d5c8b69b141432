"""The eight constraint categories of WildIFEval, and how the published files write them.

Lior et al. 2025 (arXiv 2503.06573), section 3.1, in the order of the paper's classifier
(appendix A).

>>> named("include/avoid")
'Include / Avoid'
>>> named("Other: *Visual Aesthetic*")
'Other'
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LABEL = "category"
"""The label under which a criterion's category is recorded."""

OTHER = "Other"
"""What the classifier puts in none of the eight. The paper's figures exclude it."""

CATEGORIES: Mapping[str, str] = {
    "Style and Tone": "how it is written: register, formality, mood, whose style",
    "Include / Avoid": "what must be in the response, and what must not",
    "Format and Structure": "how the response is arranged: lists, tables, sections, layouts",
    "Length": "how long it is, in words, sentences, lines or by 'short'",
    "Persona and Role": "who speaks: a character, an expert, a point of view",
    "Focus / Emphasis": "what is to be given most room",
    "Ensure Quality": "what the response must be: accurate, coherent, complete, unbiased",
    "Editing": "what becomes of a given text, and what of it must stay",
}
"""Category -> what its constraints are about, in our words (also part of a builder's prompt)."""


def named(category: str) -> str:
    """Return a category as the paper writes it; one of another taxonomy unchanged.

    The authors' file adds a separate title after ``Other:`` for each such constraint.
    """
    text = category.strip()
    known = _KNOWN.get(_letters(text))
    if known is None and re.match(r"\W*other\b\s*[:*]", text, re.IGNORECASE):
        return OTHER
    return known or text


def _letters(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalpha())


_KNOWN = {_letters(name): name for name in (*CATEGORIES, OTHER)}
