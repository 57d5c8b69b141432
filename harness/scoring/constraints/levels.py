"""Splits texts into units as COLLIE does: characters, words, sentences and paragraphs.

Words and sentences are NLTK's, paragraphs are separated by blank lines. Punctuation alone is not a
word, and every unit loses the white space and then the periods around it, whatever its level (so a
period counts as a character, but an empty one).
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.scoring.constraints.grammar import Unit

if TYPE_CHECKING:
    from harness.scoring.punkt import Punkt

PARAGRAPH_BREAK = "\n\n"

MEMORABLE = 8_000
"""Characters of the longest text that is cached."""


class Splitter:
    """Splits texts with one sentence splitter, by its name, and caches recent results."""

    def __init__(self, sentences: Punkt, word_tokens: Callable[[str], list[str]]) -> None:
        self.name = sentences.name
        self._sentences = sentences
        self._word_tokens = word_tokens
        self._cached = lru_cache(256)(self._split)  # constraints and shared prompts ask again

    def units(self, text: str, unit: Unit) -> tuple[str, ...]:
        """Return the units of a text, without white space and periods around them."""
        if len(text) > MEMORABLE or unit == "character":
            return self._split(text, unit)
        return self._cached(text, unit)

    def sentences(self, text: str) -> Iterator[str]:
        """Yield the sentences unchanged, with their end marks."""
        return (text[begin:end] for begin, end in self._sentences.span_tokenize(text))

    def _split(self, text: str, unit: Unit) -> tuple[str, ...]:
        if unit == "word":
            return self._words(text)
        if unit == "character":  # nothing is cut off letters and digits
            return tuple(text) if text.isalnum() else _bared(text)
        if unit == "sentence":
            return _bared(self._sentences.tokenize(text))
        return _bared(text.split(PARAGRAPH_BREAK))

    def _words(self, text: str) -> tuple[str, ...]:
        plain = plain_words(text)
        if plain is not None:
            return tuple(plain)
        tokens = (
            token
            for sentence in self._sentences.tokenize(text)
            for token in self._word_tokens(sentence)
        )
        return _bared(token for token in tokens if token not in string.punctuation)


def _bared(units: Iterable[str]) -> tuple[str, ...]:
    return tuple([unit.strip().strip(".") for unit in units])


@cache
def splitter(nltk_data: Path | None = None) -> Splitter:
    """Return the splitter with NLTK's English parameters, or the next best (`punkt.best`)."""
    from harness.scoring import punkt  # takes two seconds

    return Splitter(punkt.best(nltk_data), punkt.word_tokens)


# A shortcut to the words of plain English text, equal to NLTK's to the letter. NLTK's tokeniser
# runs about 25 substitutions over each sentence, and in plain text hardly any of them finds
# anything. `plain_words` recognises text in which they amount to this: punctuation is cut off and
# dropped, double quotes become words, and clitics ('s, n't) come off. Anything else (5,000, --,
# ..., cannot, 'tis, letters beyond ASCII, a quote glued to a sentence's end) is left to NLTK. The
# tests compare the two. It does not matter where sentences end in such text: COLLIE drops a word's
# final period whether NLTK cuts it off or not, and text with a clitic before one is left to NLTK.

_MARKS = str.maketrans(dict.fromkeys(",:;?!@#$%&()[]", " "))
"""NLTK makes tokens of these, which COLLIE does not count as words."""

_NOT_PLAIN = re.compile(
    r"""
      [^A-Za-z0-9\ \n.,:;?!@\#$%&()\[\]"'-]     # any other character
    | \.\. | -- | "" | \n"
    | (?<![A-Za-z])' | '(?![A-Za-z])            # an apostrophe that is not inside a word
    | [,:](?![ \n"]|\Z)                         # glued to what follows, as in 5,000
    | (?<![ (\[])(?<!\A)"(?![ \n,;:?!.)\]]|\Z)  # neither opens nor closes
    | (?<=[.?!])"(?![ \n]|\Z)                   # glued to what follows a sentence's end
    """,
    re.VERBOSE,
)

_JOINED = ("cannot", "gimme", "gonna", "gotta", "lemme", "wanna")
"""NLTK cuts these in two."""

_OPENING_QUOTE = re.compile(r'(?:\A|(?<=[ (\[]))"')
_CLITIC = re.compile(r"(.+)('(?:[sSmMdD]|ll|LL|re|RE|ve|VE)|n't|N'T)")


def plain_words(text: str) -> list[str] | None:
    """Return the words of plain text without their outer periods, or None if it is not plain.

    >>> plain_words("It's two miles (or so) to St. Ives.")
    ['It', "'s", 'two', 'miles', 'or', 'so', 'to', 'St', 'Ives']
    >>> plain_words("Wait...") is None
    True
    """
    if _NOT_PLAIN.search(text):
        return None
    lowered = text.lower()
    if any(word in lowered for word in _JOINED):
        return None
    if '"' in text:
        text = _OPENING_QUOTE.sub(" `` ", text).replace('"', " '' ")
    tokens = text.translate(_MARKS).split()
    parted = _without_clitics(tokens) if "'" in text else tokens
    if parted is None:
        return None
    # Of punctuation alone, what NLTK keeps remains: ``, '', - and the like.
    return [token.strip(".") for token in parted if token not in string.punctuation]


def _without_clitics(tokens: list[str]) -> list[str] | None:
    parted: list[str] = []
    for word in tokens:
        clitic = _CLITIC.fullmatch(word) if word.count("'") == 1 else None
        if clitic is None and "'" in word and word != "''":
            return None
        parted += clitic.groups() if clitic else (word,)
    return parted
