"""Texts into units: characters, words, sentences and paragraphs as COLLIE has them.

Words and sentences are NLTK's, paragraphs are what blank lines part. Marks on
their own are no words, and every unit loses the white space and then the periods
around it, whatever its level (so a period counts as a character, but an empty one).

>>> splitter().units("One. Two!", "sentence")  # doctest: +SKIP
('One', 'Two!')
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol

from harness.scoring.constraints.grammar import Unit
from harness.scoring.constraints.plain_words import plain_words

PARAGRAPH_BREAK = "\n\n"

MEMORY = 256
"""How many texts' units a splitter keeps: base constraints and shared prompts ask again."""
MEMORABLE = 8_000
"""The longest text, in characters, that is kept."""


class SentenceSplitter(Protocol):
    """What is needed of Punkt."""

    @property
    def name(self) -> str:
        """What the manifest calls it."""
        ...

    def tokenize(self, text: str) -> list[str]:
        """The sentences of a text."""
        ...

    def span_tokenize(self, text: str) -> Iterator[tuple[int, int]]:
        """Where they begin and end, one by one."""
        ...


class Splitter:
    """Splits texts with one sentence splitter, and remembers the latest.

    name: what the scores depend on, for the manifest.
    """

    def __init__(
        self, sentences: SentenceSplitter, word_tokens: Callable[[str], list[str]]
    ) -> None:
        self.name = sentences.name
        self._sentences = sentences
        self._word_tokens = word_tokens
        self._remembered = lru_cache(MEMORY)(self._split)

    def units(self, text: str, unit: Unit) -> tuple[str, ...]:
        """The units of a text."""
        if len(text) > MEMORABLE or unit == "character":
            return self._split(text, unit)
        return self._remembered(text, unit)

    def sentences(self, text: str) -> Iterator[str]:
        """The sentences as they stand, with their ends, one by one."""
        return (text[begin:end] for begin, end in self._sentences.span_tokenize(text))

    def _split(self, text: str, unit: Unit) -> tuple[str, ...]:
        if unit == "word":
            return self._words(text)
        if unit == "character":  # of letters and digits nothing is cut off
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
    """The splitter with NLTK's English parameters, or the next best (see `punkt`).

    nltk_data: a folder where they may be besides the places where NLTK looks.
    """
    from harness.scoring.constraints import punkt  # takes two seconds

    return Splitter(punkt.best(nltk_data), punkt.word_tokens)
