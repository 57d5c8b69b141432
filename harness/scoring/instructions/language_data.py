"""Data that some instructions need: published lists, and NLTK's stop words and tagger."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from harness.config.settings import Settings
from harness.errors import DataInvalid, DataMissing

FEATURES_REACH = 3
"""A word's tag depends on this many words from it on, at most."""

STOPWORDS = "corpora/stopwords/english"
TAGGER = "averaged_perceptron_tagger_eng"


_LISTS = Path(__file__).with_name("ifbench_lists.txt").read_text("utf-8").splitlines()


def published_list(name: str) -> list[str]:
    """Return the words of a list in ``ifbench_lists.txt``."""
    return next(line.split()[1:] for line in _LISTS if line.startswith(f"{name}: "))


@cache
def stopwords() -> frozenset[str]:
    """Return NLTK's English stop words. Raises DataMissing."""
    return frozenset(_file(STOPWORDS).read_text("utf-8").split())


def stopwords_sha256() -> str:
    """Return the hash of the stop words' file. Raises DataMissing."""
    return _sha256(STOPWORDS)


def tagger_sha256() -> str:
    """Return the hash of the tagger's weights. Raises DataMissing."""
    return _sha256(f"taggers/{TAGGER}/{TAGGER}.weights.json")


def first_tag(words: list[str]) -> str:
    """Return the Penn Treebank tag of the first of a text's words; at least one is needed.

    Raises DataMissing.
    """
    # The tagger goes from left to right, so only the words that it looks ahead to matter.
    (_, tag), *_ = _tagger().tag(words[:FEATURES_REACH])
    return str(tag)


@cache
def _tagger() -> Any:
    from nltk.tag.perceptron import PerceptronTagger

    try:
        weights, tags, classes = (
            json.loads(_file(f"taggers/{TAGGER}/{TAGGER}.{part}.json").read_text("utf-8"))
            for part in ("weights", "tagdict", "classes")
        )
    except ValueError as error:
        remedy = f"Install it again: python -m nltk.downloader {TAGGER}"
        raise DataInvalid(f"NLTK's tagger cannot be read: {error}.", remedy) from None
    tagger = PerceptronTagger(load=False)
    tagger.model.weights, tagger.tagdict = weights, tags
    tagger.classes = tagger.model.classes = set(classes)
    return tagger


def _sha256(name: str) -> str:
    return hashlib.sha256(_file(name).read_bytes()).hexdigest()


def _file(name: str) -> Path:
    """Return a file of NLTK's data, in its folders or in the data folder."""
    from nltk import data

    for folder in (*data.path, Settings().data_dir / "nltk_data"):
        path = Path(folder) / name
        if path.is_file():
            return path
    package = name.split("/")[1]
    raise DataMissing(
        f"NLTK's {package} was not found.",
        f"Install it with 'python -m nltk.downloader {package}', or set NLTK_DATA to its folder.",
    )
