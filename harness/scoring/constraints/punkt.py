"""NLTK's Punkt splitter of sentences, with the English parameters or without.

Importing NLTK takes a while (it brings all of itself along), so only `levels`
imports this module, when the first text is split. Nothing is ever
downloaded: without NLTK's English parameters the same algorithm runs with our
own `ABBREVIATIONS`, which changes 18 of the 8,320 verdicts on
COLLIE's recorded gpt-4 outputs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.errors import DataInvalid
from harness.scoring.constraints.abbreviations import ABBREVIATIONS
from harness.scoring.light_nltk import light_nltk

with light_nltk():
    from nltk import data, redos
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.tokenize.punkt import (
        PunktLanguageVars,
        PunktParameters,
        PunktSentenceTokenizer,
        load_punkt_params,
    )

word_tokens: Callable[[str], list[str]] = NLTKWordTokenizer().tokenize
"""The tokens of one sentence, marks included."""

logger = logging.getLogger("harness")

CLEAR_END = re.compile(r'([A-Za-z]{2,})([.?!])(?=[\s)"])')
"""Begins a context that can only be a sentence's end: a word, then its end, then more."""


class UntimedVariables(PunktLanguageVars):  # type: ignore[misc]  # NLTK has no types
    """NLTK's search for possible ends without its limit of five seconds by the clock.

    The search is linear, but the limit counts what is done between two matches too, and
    a score must not depend on the machine's speed.
    """

    __slots__ = ()

    def period_context_re(self) -> Any:
        """The compiled pattern of a possible end of a sentence."""
        return redos.compile(super().period_context_re(), timeout=None)


class Punkt(PunktSentenceTokenizer):  # type: ignore[misc]  # NLTK has no types
    """NLTK's algorithm, with the decision cut short where it is clear.

    name: what the manifest calls it.
    """

    def __init__(self, parameters: PunktParameters, name: str) -> None:
        super().__init__(parameters, lang_vars=UntimedVariables())
        self.name = name
        # A known collocation makes an abbreviation of a word, too.
        self._unclear = parameters.abbrev_types | {first for first, _ in parameters.collocations}

    def text_contains_sentbreak(self, text: str) -> bool:
        """Whether there is a break in ``text``, a possible end with the word before and after.

        Punkt takes a "?" or "!" for the end always, and so a word with a period that is
        neither an abbreviation, a number, an initial nor in a collocation.
        """
        clear = CLEAR_END.match(text)
        if clear and (clear[2] != "." or clear[1].lower() not in self._unclear):
            return True
        return bool(super().text_contains_sentbreak(text))


@cache
def english(folder: Path | None = None) -> Punkt | None:
    """The splitter that COLLIE used, None where its parameters are not found.

    folder: where they are looked for after the places where NLTK looks.

    Raises: DataInvalid where they are there and cannot be read.
    """
    if folder and str(folder) not in data.path:
        data.path.append(str(folder))  # NLTK opens no file elsewhere
    try:
        parameters = load_punkt_params(data.find("tokenizers/punkt_tab/english/"))
    except LookupError:
        return None
    except (OSError, ValueError) as error:
        raise DataInvalid(
            f"NLTK's English sentence parameters cannot be read: {error}.",
            "Mend the folder that NLTK_DATA names, or unset it.",
        ) from None
    return Punkt(parameters, f"nltk {version('nltk')} punkt_tab english")


@cache
def own() -> Punkt:
    """The splitter with our own abbreviations."""
    parameters = PunktParameters()
    parameters.abbrev_types = set(ABBREVIATIONS)
    return Punkt(parameters, f"nltk {version('nltk')} punkt, own abbreviations")


@cache
def best(folder: Path | None = None) -> Punkt:
    """The official splitter where it can be had, else our own: said once, in the log."""
    found = english(folder)
    if found is None:
        logger.warning(
            "NLTK's English sentence parameters (punkt_tab) were not found; a list of common "
            "abbreviations stands in, which changes about 0.2% of COLLIE's verdicts. For the "
            "official ones run 'harness data fetch punkt', or set NLTK_DATA to a folder with "
            "tokenizers/punkt_tab/english."
        )
    return found or own()
