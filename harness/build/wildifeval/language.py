"""Which language a message is in, by py3langid (Lui and Baldwin 2012, langid.py).

A naive Bayes classifier over byte sequences, whose model comes with its package. It tells 43
languages apart here, the widely spoken ones: with all that it knows, a short English sentence is
often some small language. Of very short messages it knows little, and so a message is in another
language only where that is probable: "hi" is kept.

>>> Languages("en", 0.5).other("Escribe un poema de cuatro versos")  # doctest: +SKIP
'es'
"""

from __future__ import annotations

from functools import cache
from typing import Any

from harness.errors import ConfigError

KNOWN = frozenset(
    {"ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he"}
    | {"hi", "hr", "hu", "id", "it", "ja", "ko", "lt", "lv", "ms", "nl", "no", "pl", "pt", "ro"}
    | {"ru", "sk", "sl", "sr", "sv", "sw", "ta", "th", "tr", "uk", "ur", "vi", "zh"}
)
NAMES = {"english": "en", "german": "de", "french": "fr", "spanish": "es", "italian": "it"} | {
    "portuguese": "pt", "russian": "ru", "chinese": "zh", "japanese": "ja", "korean": "ko",
    "arabic": "ar", "dutch": "nl", "polish": "pl", "turkish": "tr", "ukrainian": "uk",
    "vietnamese": "vi", "hindi": "hi", "swedish": "sv", "czech": "cs", "greek": "el",
}  # fmt: skip
"""How logs name languages, for the few that somebody may keep."""

LONGEST = 2_000
"""Characters that are looked at."""


class Languages:
    """Finds messages in other languages than one.

    kept: ISO 639-1 code of that one.
    least: the probability from which on another one is found.

    Raises: ConfigError for a language that is not told apart.
    """

    def __init__(self, kept: str, least: float) -> None:
        if kept not in KNOWN:
            raise ConfigError(
                f"screen.language: {kept!r} is not told apart from others.",
                f"One of {', '.join(sorted(KNOWN))}; null keeps all.",
            )
        self._kept = kept
        self._least = least

    def other(self, text: str, label: str = "") -> str:
        """The other language that a text is in; empty where it is in the one that is kept.

        label: what the log says; it decides where it is there and known to be a language.
        """
        if label and label.lower() not in ("unknown", "und", "nolang"):
            code = NAMES.get(label.lower(), label.lower())
            return "" if code.partition("-")[0] == self._kept else label
        found, probability = _identifier().classify(text[:LONGEST])
        return "" if found == self._kept or probability < self._least else str(found)


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(sorted(KNOWN))
    return identifier
