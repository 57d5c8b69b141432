"""Instructions about a text's beginning and end, repetition, commas, letter case and language."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from threading import Lock
from typing import Any

from harness.plugins import import_extra
from harness.scoring import cut
from harness.scoring.instructions.texts import Check, Relation, missed, tokens

DIVIDER = "******"
SEED = 0
"""The seed of every language identification, which draws at random from a text's parts."""

IDENTIFIES_LANGUAGE = frozenset(
    {
        "language:response_language",
        "change_case:english_capital",
        "change_case:english_lowercase",
    }
)
"""Ids of the instructions that depend on langdetect."""

_lock = Lock()


def repeat_prompt(text: str, prompt_to_repeat: str) -> str:
    """The text begins with the request, in any case."""
    wanted = prompt_to_repeat.strip().lower()
    if text.strip().lower().startswith(wanted):
        return ""
    return f"begins with {cut(text.strip(), 60)!r}, not with the request"


def two_responses(text: str) -> str:
    """Two different responses, separated by six asterisks, which may also come first or last."""
    parts = text.split(DIVIDER)
    found = [part.strip() for part in parts if part.strip()]
    if any(not part.strip() for part in parts[1:-1]):
        return f"an empty response between two {DIVIDER}"
    if len(found) != 2:
        noun = "response" if len(found) == 1 else "responses"
        return f"{len(found)} {noun} divided by {DIVIDER}, 2 wanted"
    return "the two responses are equal" if found[0] == found[1] else ""


def end_phrase(text: str, end_phrase: str) -> str:
    """The text ends with a phrase, in any case, perhaps before a closing ``"``."""
    ends = text.strip().strip('"').lower().endswith(end_phrase.strip().lower())
    return "" if ends else _wrong_end(text, end_phrase)


def unquoted_end_phrase(text: str, end_phrase: str) -> str:
    """Corrected `end_phrase`: also finds a phrase that ends in a quote, or is in curly quotes."""
    wanted, text = end_phrase.strip().lower(), text.strip().lower()
    bare = text.strip('"\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}').strip()
    return "" if text.endswith(wanted) or bare.endswith(wanted) else _wrong_end(text, end_phrase)


def _wrong_end(text: str, wanted: str) -> str:
    return f"ends with {text.strip()[-60:]!r}, {cut(wanted.strip(), 80)!r} wanted"


def quotation(text: str) -> str:
    """The text is in straight double quotes."""
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return "" if quoted else "not in double quotation marks"


def any_quotation(text: str) -> str:
    """Corrected `quotation`: curly double quotes count too."""
    curly = str.maketrans("\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}", '""')
    return quotation(text.translate(curly))


def no_comma(text: str) -> str:
    """The text has no comma."""
    count = text.count(",")
    return f"{count:,} comma{'' if count == 1 else 's'}, none wanted" if count else ""


def capital_words(text: str, capital_frequency: int, capital_relation: Relation) -> str:
    """Number of words in capital letters; ``I`` and ``U.S.A.`` are such words."""
    count = sum(1 for token in tokens(text) if token.isupper())
    return missed(count, capital_relation, capital_frequency, "words in capital letters")


def english_capital(text: str) -> str:
    """English in capital letters only."""
    return _other_language(text, "en") if text.isupper() else "not all in capital letters"


def english_lowercase(text: str) -> str:
    """English in lower-case letters only."""
    return _other_language(text, "en") if text.islower() else "not all in lower-case letters"


def english_uncapitalised(text: str) -> str:
    """Corrected `english_capital`: identifies the language by the text in lower case.

    langdetect ignores words in capital letters, and so guesses by the few others.
    """
    known = _other_language(text.lower(), "en")
    return known if text.isupper() else "not all in capital letters"


def response_language(text: str, language: str) -> str:
    """The text's language by langdetect; a text without letters passes."""
    return _other_language(text, language)


def response_language_or_variant(text: str, language: str) -> str:
    """Corrected `response_language`: ``zh`` stands for both of langdetect's Chinese codes."""
    found = identified(text)
    if found is not None and found.partition("-")[0] == language:
        return ""
    return _other_language(text, language)


def _other_language(text: str, wanted: str) -> str:
    found = identified(text)
    return "" if found in (None, wanted) else f"its language is {found}, {wanted} wanted"


@lru_cache(256)  # two instructions of a prompt, and its loose variants, often share a text
def identified(text: str) -> str | None:
    """Return the code of a text's language by langdetect, always the same; None without letters."""
    module = import_extra("langdetect.lang_detect_exception", "ifeval")
    detector = _factory().create()
    detector.append(text)
    try:
        return str(detector.detect())
    except module.LangDetectException:
        return None


def _factory() -> Any:
    with _lock:  # two threads must not both build it
        return _loaded()


@lru_cache(1)
def _loaded() -> Any:
    module = import_extra("langdetect.detector_factory", "ifeval")
    factory = module.DetectorFactory()
    factory.load_profile(module.PROFILES_DIRECTORY)
    factory.set_seed(SEED)
    return factory


OFFICIAL: Mapping[str, Check] = {
    "combination:repeat_prompt": repeat_prompt,
    "combination:two_responses": two_responses,
    "startend:end_checker": end_phrase,
    "startend:quotation": quotation,
    "punctuation:no_comma": no_comma,
    "change_case:capital_word_frequency": capital_words,
    "change_case:english_capital": english_capital,
    "change_case:english_lowercase": english_lowercase,
    "language:response_language": response_language,
}
CORRECTED: Mapping[str, Check] = {
    "startend:end_checker": unquoted_end_phrase,
    "startend:quotation": any_quotation,
    "change_case:english_capital": english_uncapitalised,
    "language:response_language": response_language_or_variant,
}
