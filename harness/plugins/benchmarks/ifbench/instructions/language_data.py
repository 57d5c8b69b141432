"""Data and libraries of some instructions: word lists, a tagger and SyllaPy."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

from harness.config.settings import Settings
from harness.errors import DataInvalid, DataMissing

STOPWORDS = "corpora/stopwords/english"
TAGGER = "taggers/averaged_perceptron_tagger_eng/averaged_perceptron_tagger_eng.{}.json"

_loading = Lock()
_LISTS = Path(__file__).with_name("lists.txt").read_text("utf-8").splitlines()


def published_list(name: str) -> list[str]:
    """Return the words of the list ``name`` in ``lists.txt``."""
    return next(line.split()[1:] for line in _LISTS if line.startswith(f"{name}: "))


@cache
def syllable_counter() -> Callable[[str], int]:
    """Return SyllaPy's function that counts a word's syllables.

    SyllaPy finds its dictionary with pkg_resources, which setuptools 82 removed.
    """
    name = "pkg_resources"
    with _loading:
        installed = sys.modules.get(name)
        sys.modules[name] = replacement = ModuleType(name)
        replacement.__dict__["resource_filename"] = _beside
        try:
            from syllapy import count
        finally:
            del sys.modules[name]
            if installed:
                sys.modules[name] = installed
    counter: Callable[[str], int] = count
    return counter


def _beside(module: str, file: str) -> str:
    return str(Path(sys.modules[module].__file__ or "").with_name(file))


@cache
def stopwords() -> frozenset[str]:
    """Return NLTK's English stop words."""
    return frozenset(_file(STOPWORDS).read_text("utf-8").split())


def first_tag(words: list[str]) -> str:
    """Return the Penn Treebank tag of the first word, such as ``VB`` for a verb."""
    # The tagger goes from left to right, and looks at most two words ahead.
    (_, tag), *_ = _tagger().tag(words[:3])
    return str(tag)


@cache
def _tagger() -> Any:
    from nltk.tag.perceptron import PerceptronTagger

    try:
        weights = _tagger_part("weights")
        tags = _tagger_part("tagdict")
        classes = set(_tagger_part("classes"))
    except ValueError as error:
        remedy = f"Install it again: python -m nltk.downloader {TAGGER.split('/')[1]}"
        raise DataInvalid(f"NLTK's tagger cannot be read: {error}.", remedy) from None
    tagger = PerceptronTagger(load=False)
    tagger.model.weights = weights
    tagger.tagdict = tags
    tagger.classes = classes
    tagger.model.classes = classes
    return tagger


def _tagger_part(name: str) -> Any:
    return json.loads(_file(TAGGER.format(name)).read_text("utf-8"))


def sha256(name: str) -> str:
    """Return the SHA-256 of an NLTK data file, named relative to a data folder."""
    return hashlib.sha256(_file(name).read_bytes()).hexdigest()


def _file(name: str) -> Path:
    from nltk import data

    for folder in (*data.path, Settings().data_dir / "nltk_data"):
        path = Path(folder) / name
        if path.is_file():
            return path
    package = name.split("/")[1]
    raise DataMissing(
        f"NLTK's {package} was not found.",
        "Install it with 'harness data fetch nltk_english', or set NLTK_DATA to its folder.",
    )
