"""NLTK's own sentences, to compare with, and its parameters for English if they are available."""

from __future__ import annotations

import os
from pathlib import Path

from nltk.tokenize.punkt import PunktSentenceTokenizer

from harness.plugins.benchmarks import punkt

BESIDE = Path(__file__).parents[3] / "shared" / "nltk_data"


def english_parameters() -> punkt.Punkt | None:
    return punkt.english(None if "NLTK_DATA" in os.environ else BESIDE)


def stock_sentences(text: str, punkt_in_use: punkt.Punkt) -> list[str]:
    """The sentences by NLTK's own classes, with the same parameters."""
    tokenizer = PunktSentenceTokenizer(punkt_in_use._params)
    sentences: list[str] = tokenizer.tokenize(text)
    return sentences
