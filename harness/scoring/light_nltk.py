"""Importing NLTK takes a second or two, for it brings all of itself and half of SciPy along.

>>> with light_nltk():
...     from nltk.stem.porter import PorterStemmer
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SPARED = ("scipy.stats", "scipy.sparse")
"""NLTK does without them, but for a measure of word pairs and a parser, which nobody needs here."""


@contextmanager
def light_nltk() -> Iterator[None]:
    """Let NLTK's imports of what it can spare fail, where they were not made before."""
    blocked = [module for module in SPARED if module not in sys.modules]
    for module in blocked:
        sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for module in blocked:
            del sys.modules[module]
