"""Which language a message is in, by py3langid (Lui and Baldwin 2012, langid.py).

A naive Bayes classifier over byte sequences, whose model comes with its package. It tells 43
languages apart here, the widely spoken ones: with all that it knows, a short English sentence is
often some small language. Of very short messages it knows little, and so a message is in another
language only where that is probable: "hi" is kept.

>>> Languages("en", 0.5).other("Escribe un poema de cuatro versos")  # doctest: +SKIP
'es'
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from harness.errors import ConfigError, StoreFailed

NAMES = {
    "ar": "arabic ara", "bg": "bulgarian bul", "bn": "bengali bangla ben",
    "ca": "catalan valencian cat", "cs": "czech ces cze", "da": "danish dan",
    "de": "german deutsch deu ger", "el": "greek ell gre", "en": "english eng",
    "es": "spanish castilian spa", "et": "estonian est", "fa": "persian farsi fas per pes",
    "fi": "finnish fin", "fr": "french fra fre", "he": "hebrew heb iw", "hi": "hindi hin",
    "hr": "croatian hrv", "hu": "hungarian hun", "id": "indonesian ind", "it": "italian ita",
    "ja": "japanese jpn", "ko": "korean kor", "lt": "lithuanian lit", "lv": "latvian lav lvs",
    "ms": "malay msa may zsm", "nl": "dutch flemish nld dut", "no": "norwegian nor nob nno nb nn",
    "pl": "polish pol", "pt": "portuguese por", "ro": "romanian moldovan ron rum",
    "ru": "russian rus", "sk": "slovak slk slo", "sl": "slovenian slovene slv",
    "sr": "serbian srp", "sv": "swedish swe", "sw": "swahili swa swh", "ta": "tamil tam",
    "th": "thai tha", "tr": "turkish tur", "uk": "ukrainian ukr", "ur": "urdu urd",
    "vi": "vietnamese vie", "zh": "chinese mandarin zho chi cmn",
}  # fmt: skip
"""The languages that are told apart, by their ISO 639-1 codes, and how else logs name them: in
English, and by ISO 639-2 and 639-3."""

CODES = {word: code for code, words in NAMES.items() for word in (code, *words.split())}

_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{2,8})*")
_NAME = re.compile(r"([a-z]+)(?: *\(.*\))?")

LONGEST = 2_000
"""Characters that are looked at."""


class Languages:
    """Finds messages in other languages than one.

    kept: ISO 639-1 code of that one.
    least: the probability from which on another one is found.

    Raises: ConfigError for a language that is not told apart.
    """

    def __init__(self, kept: str, least: float) -> None:
        if kept not in NAMES:
            raise ConfigError(
                f"screen.language: {kept!r} is not told apart from others.",
                f"One of {', '.join(sorted(NAMES))}; null keeps all.",
            )
        self._kept = kept
        self._least = least

    def other(self, text: str, label: str = "") -> str:
        """The other language that a text is in; empty where it is in the one that is kept.

        label: what the log says; it decides where it is one of these languages.

        Raises: StoreFailed where the classifier cannot be unpacked.
        """
        if labelled := language_code(label):
            return "" if labelled == self._kept else label
        found, probability = _identifier().classify(text[:LONGEST])
        return "" if found == self._kept or probability < self._least else str(found)


def language_code(label: str) -> str:
    """The code of the language that a log names; empty where it is none that is told apart.

    >>> [language_code(label) for label in ("English (US)", "en_US", "eng", "N/A", "Klingon")]
    ['en', 'en', 'en', '', '']
    """
    said = label.strip().lower()
    found = _TAG.fullmatch(said) or _NAME.fullmatch(said)
    return CODES.get(found[1], "") if found else ""


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    try:
        identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except OSError as error:  # it unpacks its model there
        raise StoreFailed(
            f"The classifier of languages cannot be unpacked into a temporary file: "
            f"{error.strerror}.",
            "Make room there, set TMPDIR to another folder, or screen.language=null.",
        ) from None
    identifier.set_languages(sorted(NAMES))
    return identifier
