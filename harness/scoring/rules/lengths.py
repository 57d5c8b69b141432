"""Rules about length: words, characters, sentences, paragraphs, lines, bullet points.

The whole answer counts, without any tolerance (docs/wildifeval.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from harness.scoring.checkers.word_count import words
from harness.scoring.constraints.levels import Splitter
from harness.scoring.rules.wording import (
    ENSURE,
    MODAL,
    NOUN,
    NUMBER,
    SUBJECT,
    CountBounds,
    amount,
    bounds_of,
    number,
)

LONGEST_FOR_SENTENCES = 100_000
"""Characters in which sentences are counted: Punkt takes seconds for a million."""

FEW = 5
"""Up to this number of words, ``in three words`` is exact; beyond it, it may be approximate."""

PERSONS = 20
"""Below this number, ``characters`` may be those of a story."""

_BULLET = re.compile(
    r"[ \t]*(?:[-*+][ \t]|[\u2022\u2023\u25e6\u25aa\u25cf\u25cb\u00b7\u2043][ \t]?)"
)

UNIT = "words?|characters?|sentences?|paragraphs?|lines?|bullet points?|bullets"


@dataclass(frozen=True, slots=True)
class Length:
    """An amount of a unit, one of `_MEASURES`."""

    unit: str
    bounds: CountBounds

    @property
    def name(self) -> str:
        """Return the rule's name, such as ``word_count``."""
        return f"{self.unit.partition(' ')[0]}_count"

    def check(self, text: str) -> str:
        """Compare the number of units with the bounds."""
        n = _MEASURES[self.unit](text)
        plural = "" if n == 1 else "s"
        return "" if self.bounds.has(n) else f"{n:,} {self.unit}{plural}, not {self.bounds}"


def sentences(text: str) -> int:
    """Count the sentences with a letter or digit."""
    units = _splitter().units(text[:LONGEST_FOR_SENTENCES], "sentence")
    return sum(any(map(str.isalnum, one)) for one in units)


def paragraphs(text: str) -> int:
    """Count the paragraphs: lines that are not blank and follow a blank one, or none."""
    filled = [bool(line.strip()) for line in text.splitlines()]
    return sum(here and not before for before, here in zip([False, *filled], filled, strict=False))


def bullets(text: str) -> int:
    """Count the lines that begin with a bullet and have text after it, not dashes or stars."""
    lines = text.splitlines()
    return sum(bool(_BULLET.match(line)) and any(map(str.isalnum, line)) for line in lines)


_MEASURES: Mapping[str, Callable[[str], int]] = {
    "word": words,
    "character": lambda text: len(text.strip()),
    "sentence": sentences,
    "paragraph": paragraphs,
    "line": lambda text: sum(bool(line.strip()) for line in text.splitlines()),
    "bullet point": bullets,
}


@cache
def _splitter() -> Splitter:
    from harness.scoring import punkt  # imports NLTK

    return Splitter(punkt.own(), punkt.word_tokens)


_STATE = (
    "(?:be|have|contain|comprise|span|use|consist of|be composed of|be written in|be kept|be kept "
    "to|stay|remain|has|contains|uses|consists of|does)"
)
_MAKE = (
    "(?:write|respond|answer|reply|(?P<keep>keep)|(?P<limit>limit|restrict)|provide|give|make|"
    "produce|generate|compose|create|return|output|present|format|structure|organi[sz]e)"
)
_HAVE = "(?:use|be|have|contain|(?P<include>include))"  # of "a poem of two lines": a part
_LENGTH = rf"(?:the )?(?:total |overall )?length(?: of {SUBJECT})?"
_FRAME = (
    rf"{ENSURE}(?:"
    rf"(?:{SUBJECT}|{_LENGTH}) (?:{MODAL} )?(?:{_STATE} )?(?:in |with |to |of )?"
    rf"|{_HAVE} "
    rf"|{_MAKE}(?: {SUBJECT}| {_LENGTH})?(?: (?:that is|that has|that contains|to be|be|containing|"
    r"consisting of|of|to|in|with|using|at))? "
    r"|(?:in|with|using|to|of) )?"
)
_COUNTED = re.compile(
    rf"{_FRAME}{amount(UNIT)}(?: (?:long|in length|in total|total|overall|altogether))?"
)
_HYPHENED = re.compile(
    rf"{ENSURE}(?:(?:write|give|provide|compose|create|respond with|answer with|use|in) )?"
    rf"an? (?P<n>{NUMBER})[- ](?P<u>word|sentence|paragraph|line) {NOUN}"
)


def recognise(text: str, *, alone: bool = True) -> Length | None:
    """Return the rule that a wording states; None if there is none or in doubt.

    If it is not alone but a part of a constraint, a number without a word of comparison may belong
    to another part.
    """
    hyphened = _HYPHENED.fullmatch(text)
    if hyphened:
        n = number(hyphened["n"])
        return _sure(hyphened["u"], CountBounds(n, n, bare=True)) if alone and n else None
    found = _COUNTED.fullmatch(text)
    parsed = bounds_of(found) if found else None
    if found is None or parsed is None:
        return None
    bounds, named = parsed
    if bounds.bare:
        if not alone or found["keep"] or found["include"]:  # at most? at least?
            return None
        if found["limit"]:
            bounds = CountBounds(None, bounds.high)
    return _sure(named.removesuffix("s"), bounds)


def _sure(named: str, bounds: CountBounds) -> Length | None:
    """The rule, unless the wording may mean something else."""
    unit = "bullet point" if named.startswith("bullet") else named
    least = min(bound for bound in (bounds.low, bounds.high) if bound is not None)
    if unit == "character" and least < PERSONS - 1:
        return None
    if bounds.bare and (unit == "character" or (unit == "word" and least > FEW)):
        return None
    return Length(unit, CountBounds(bounds.low, bounds.high))
