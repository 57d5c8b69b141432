"""The official splitter into sentences and words, to compare with."""

from __future__ import annotations

import string

import pytest
from nltk.tokenize.destructive import NLTKWordTokenizer

from harness.plugins.benchmarks import punkt
from harness.plugins.benchmarks.collie.constraints.check import Splitter
from tests.plugins.benchmarks.punkt_reference import english_parameters, stock_sentences


def english() -> Splitter:
    """The official splitter; skips the test if its parameters are not available."""
    parameters = english_parameters()
    if parameters is None:
        pytest.skip("no English Punkt parameters: set NLTK_DATA")
    return Splitter(parameters, punkt.word_tokens)


def own() -> Splitter:
    return Splitter(punkt.own(), punkt.word_tokens)


def stock_words(text: str, punkt_in_use: punkt.Punkt) -> tuple[str, ...]:
    """COLLIE's words by NLTK's own classes: what `nltk.word_tokenize` does, then its filter."""
    tokenizer = NLTKWordTokenizer()
    return tuple(
        token.strip().strip(".")
        for sentence in stock_sentences(text, punkt_in_use)
        for token in tokenizer.tokenize(sentence)
        if token not in string.punctuation
    )
