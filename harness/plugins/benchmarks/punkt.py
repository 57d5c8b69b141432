"""NLTK's Punkt sentence splitter, word tokeniser and Porter stemmer.

Importing NLTK takes 0.4 s, so this module is imported only when text is first split. Without NLTK's
English parameters, a built-in list of abbreviations is used, which changes 18 of the 8,320 verdicts
on COLLIE's recorded gpt-4 outputs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.errors import DataInvalid

# NLTK imports these for a word association measure and a parser, which are not used here.
_blocked = [name for name in ("scipy.stats", "scipy.sparse") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_blocked))  # type: ignore[arg-type]  # None makes imports fail
try:
    from nltk import data, redos
    from nltk.stem.porter import PorterStemmer
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.tokenize.punkt import (
        PunktLanguageVars,
        PunktParameters,
        PunktSentenceTokenizer,
        load_punkt_params,
    )
finally:
    for _name in _blocked:
        del sys.modules[_name]

stem: Callable[[str], str] = PorterStemmer().stem
word_tokens: Callable[[str], list[str]] = NLTKWordTokenizer().tokenize
"""Splits one sentence into its words and punctuation marks, in order."""

CLEAR_END = re.compile(r'([A-Za-z]{2,})([.?!])(?=[\s)"])')
"""Matches a word with an end mark, before a space, quote or bracket. This ends a sentence unless
the word is an abbreviation."""

ABBREVIATIONS = frozenset(Path(__file__).with_name("abbreviations.txt").read_text("utf-8").split())
"""English abbreviations with a period that does not end a sentence (Punkt's ``abbrev_types``).

Words that also end sentences (``in.``, ``no.``) are omitted: they would do more harm than good.
"""


class UntimedVariables(PunktLanguageVars):  # type: ignore[misc]  # NLTK has no types
    """Punkt's settings without NLTK's limit of 5 s, which would make scores depend on speed."""

    __slots__ = ()

    def period_context_re(self) -> Any:
        """Return the compiled pattern of possible sentence ends, which searches in linear time."""
        return redos.compile(super().period_context_re(), timeout=None)


class EarlierVariables(UntimedVariables):
    """Punkt's settings in NLTK 3.9: curly quotes and guillemets do not close a sentence."""

    __slots__ = ()
    re_boundary_realignment = re.compile(r"""["')\]}]+?(?:\s+|(?=--)|$)""", re.MULTILINE)
    _re_non_word_chars = r"""(?:[)";}\]*:@'({\[?!])"""


class EarlierWordTokenizer(NLTKWordTokenizer):  # type: ignore[misc]  # NLTK has no types
    """NLTK 3.9's word tokeniser. Later versions treat dashes and apostrophes differently."""

    STARTING_QUOTES = (
        *NLTKWordTokenizer.STARTING_QUOTES[:-1],
        (re.compile(r"(?i)(')(?!re|ve|ll|m|t|s|d|n)(\w)\b"), r"\1 \2"),
    )
    PUNCTUATION = tuple(
        (re.compile(pattern.pattern), substitute)  # without NLTK's time limit
        for pattern, substitute in NLTKWordTokenizer.PUNCTUATION
        if "u2012" not in pattern.pattern
    )


class Punkt(PunktSentenceTokenizer):  # type: ignore[misc]  # NLTK has no types
    """NLTK's sentence splitter, with a shortcut for clear cases."""

    def __init__(
        self, parameters: PunktParameters, name: str, variables: type = UntimedVariables
    ) -> None:
        super().__init__(parameters, lang_vars=variables())
        self.name = name
        # A period after the first word of a known collocation is as unclear as an abbreviation's.
        self._unclear = parameters.abbrev_types | {first for first, _ in parameters.collocations}
        # A text made to be slow repeats itself, such as ". . . ."
        self._decided = lru_cache(4_096)(super().text_contains_sentbreak)

    def text_contains_sentbreak(self, text: str) -> bool:
        """Return whether a possible sentence end is a real one."""
        # For Punkt, "?" and "!" always end a sentence, and so does a period after a word that is
        # not an abbreviation, a number, an initial, or part of a collocation.
        clear = CLEAR_END.match(text)
        if clear and (clear[2] != "." or clear[1].lower() not in self._unclear):
            return True
        return bool(self._decided(text))


@cache
def english(folder: Path | None = None) -> Punkt | None:
    """Return NLTK's English sentence splitter, or None if its data is not installed.

    NLTK's paths and ``folder`` are searched.
    """
    search_path = list(data.path)
    data.path += [str(folder)] if folder else []  # NLTK opens no files elsewhere
    try:
        parameters = load_punkt_params(data.find("tokenizers/punkt_tab/english/"))
    except LookupError:
        return None
    except (OSError, ValueError) as error:
        raise DataInvalid(
            f"NLTK's English sentence parameters cannot be read: {error}.",
            "Fix the folder that NLTK_DATA names, or unset it.",
        ) from None
    finally:
        data.path[:] = search_path
    return Punkt(parameters, f"nltk {version('nltk')} punkt_tab english")


@cache
def own() -> Punkt:
    """Return a sentence splitter that uses `ABBREVIATIONS` instead of NLTK's parameters."""
    parameters = PunktParameters()
    parameters.abbrev_types = set(ABBREVIATIONS)
    return Punkt(parameters, f"nltk {version('nltk')} punkt, own abbreviations")


@cache
def best(folder: Path | None = None) -> Punkt:
    """Return the sentence splitter of `english` or, without NLTK's data, of `own`."""
    return english(folder) or own()


earlier_word_tokens: Callable[[str], list[str]] = EarlierWordTokenizer().tokenize
"""Splits one sentence into words like NLTK 3.9 (`EarlierWordTokenizer`)."""


@cache
def earlier(folder: Path | None = None) -> Punkt:
    """Return the same sentence splitter as `best`, with the settings of NLTK 3.9."""
    splitter = best(folder)
    return Punkt(splitter._params, f"{splitter.name}, as in nltk 3.9", EarlierVariables)
