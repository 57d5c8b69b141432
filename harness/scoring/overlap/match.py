"""Whether an answer is a reference, how many of its words are, and which label it names.

>>> exact_match(" Yes.", ["yes"]), token_f1("the cat sat", ["A cat sat down"])
(True, 0.8)
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Iterable

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def bare(text: str) -> str:
    """A text without what is no part of an answer: outer white space, case, final periods.

    Nothing more: where the answers are letters or signs, dropping articles and punctuation would
    make different ones equal.
    """
    return text.strip().lower().rstrip(".")


def exact_match(answer: str, references: Iterable[str]) -> bool:
    """Whether the answer is one of the references, bare."""
    said = bare(answer)
    return any(said == bare(reference) for reference in references)


def token_f1(answer: str, references: Iterable[str]) -> float:
    """The best F-measure of words in common, in any order (SQuAD: Rajpurkar et al. 2016).

    Case, punctuation and articles do not count. Where one of the two has no words left, they agree
    if neither has, and are bare the same.
    """
    return max((_f1(answer, reference) for reference in references), default=0.0)


def _f1(answer: str, reference: str) -> float:
    said, right = _words(answer), _words(reference)
    if not said or not right:
        return float(said == right and bare(answer) == bare(reference))
    common = (Counter(said) & Counter(right)).total()
    return 2 * common / (len(said) + len(right))


def _words(text: str) -> list[str]:
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def named_label(answer: str, labels: Collection[str]) -> str | None:
    """The label that an answer is or begins with, bare; None where it is none of them.

    labels: bare. Where several fit, the longest.
    """
    said = bare(answer)
    fitting = [
        label
        for label in labels
        if said == label or (said.startswith(label) and _ends(said, len(label)))
    ]
    return max(fitting, key=len, default=None)


def _ends(text: str, place: int) -> bool:
    """Whether a word ends at a place."""
    return place > 0 and not (text[place - 1].isalnum() and text[place].isalnum())
