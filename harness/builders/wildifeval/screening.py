"""Screens messages without a model: empty messages, language, code, toxicity, duplicates.

They run in this order, after unreadable chats, and a message is counted under the first that
applies. docs/wildifeval_build.md says what the classifiers can and cannot do. The language
classifier chooses among 43 widely spoken languages only: among all that it knows, it often mistakes
a short English sentence for a rare one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import islice
from typing import Any

from msgspec import Struct, field

from harness.builders.wildifeval.chats import Chat
from harness.config.curation import ScreenSection
from harness.errors import ConfigError, DataInvalid
from harness.plugins import import_extra

BATCH = 1_000
"""Messages classified together: most of a classifier's time is the overhead of a call."""
LONGEST = 20_000
"""Characters of a message that are examined for code and toxicity."""
LONGEST_FOR_LANGUAGE = 2_000
CODE_LINES = 2
"""A message with at least this many lines shaped like code is about code."""
UNREADABLE = "unreadable"
EXAMPLES = 3
"""Examples kept per reason."""
LONGEST_EXAMPLE = 300

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
"""The languages that are distinguished, by ISO 639-1 code, with the other names that logs use: the
English ones, and the codes of ISO 639-2 and 639-3."""

CODES = {word: code for code, words in NAMES.items() for word in (code, *words.split())}

_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{2,8})*")
_NAME = re.compile(r"([a-z]+)(?: *\(.*\))?")
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)
_LINE = re.compile(
    r"""[ \t]*(?:
        (?:def|class)\ \w+\s{0,3}[(:]                       # Python
      | (?:import\ [\w.]+|from\ [\w.]+\ import\ [\w*][\w, ]*)\s*\Z
      | (?:for|while|if|elif|with)\ .{1,200}:\s*\Z(?<=[)\w\]]:)
      | return\b.{0,200};?\s*\Z
      | (?:const|let|var)\ \w+\s*=                          # JavaScript
      | (?:public|private|static|void|int|float|double|char)\ [\w<>\[\] ]{1,80}[({=;]
      | \#(?:include|define|ifdef)\b                        # C
      | (?:SELECT|INSERT|UPDATE|DELETE|CREATE)\b.{1,200}\b(?:FROM|INTO|SET|TABLE)\b
      | </?[a-z][a-z0-9]{0,20}(?:\ [^<>]{0,200})?/?>\s*\Z   # HTML
      | \w[\w.\[\]]{0,60}\ {0,2}[-+*/]?=\ {0,2}[^=\s].{0,200}[;)\]]\s*\Z
      | [\w.]{1,60}\([^()]{0,200}\);?\s*\Z
      | .{0,200}\w\([^()]{0,200}\)\ ?;\s*\Z
      | .{0,200}[)\w]\ ?\{\s*\Z
      | [})\]]{1,3};?\s*\Z
    )""",
    re.VERBOSE,
)


class ScreeningExample(Struct, frozen=True):
    """Something that was dropped; ``detail`` says what was found in it."""

    id: str
    text: str
    detail: str = ""


class Step(Struct):
    """A step that drops tasks; ``before`` counts those that reached it."""

    name: str
    before: int
    removed: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[ScreeningExample]] = field(default_factory=dict)

    def leave_out(self, reason: str, id: str, text: str, detail: str = "") -> None:
        """Count one task as dropped."""
        self.removed[reason] = self.removed.get(reason, 0) + 1
        shown = self.examples.setdefault(reason, [])
        if len(shown) < EXAMPLES:
            shown.append(ScreeningExample(id, text[:LONGEST_EXAMPLE], detail))

    @property
    def left(self) -> int:
        """Tasks that passed."""
        return self.before - sum(self.removed.values())


class Screened(Struct):
    """The chats that passed, and what was dropped."""

    chats: list[Chat]
    step: Step


def screen(chats: Iterable[Chat], by: ScreenSection) -> Screened:
    """Drop messages by rules that need no model."""
    if by.language and by.language not in NAMES:
        raise ConfigError(
            f"screen.language: {by.language!r} cannot be distinguished from others.",
            f"One of {', '.join(sorted(NAMES))}; null keeps all.",
        )
    step, kept, seen = Step("screen", 0), list[Chat](), set[bytes]()
    left = iter(chats)
    while batch := list(islice(left, BATCH)):
        step.before += len(batch)
        clean = []
        for chat in batch:
            reason, detail = _reason(chat, by)
            if reason:
                step.leave_out(reason, chat.id, chat.text, detail)
            else:
                clean.append(chat)
        words = by.toxicity == "words"
        found = toxicities([chat.text for chat in clean]) if words else [0.0] * len(clean)
        for chat, probability in zip(clean, found, strict=True):
            digest = hashlib.blake2b(" ".join(chat.text.split()).encode(), digest_size=16).digest()
            if words and probability >= by.toxic_from:
                step.leave_out("toxic", chat.id, chat.text, f"probability {probability:.2f}")
            elif digest in seen:
                step.leave_out("duplicate", chat.id, chat.text)
            else:
                seen.add(digest)
                kept.append(chat)
    if step.before and step.removed.get(UNREADABLE) == step.before:
        raise DataInvalid(
            f"No chat can be read: {step.examples[UNREADABLE][0].detail}.",
            "docs/wildifeval_build.md lists the supported formats.",
        )
    return Screened(kept, step)


def _reason(chat: Chat, by: ScreenSection) -> tuple[str, str]:
    """Return why a message is dropped, before its toxicity is classified, and a detail."""
    if chat.problem:
        return UNREADABLE, chat.problem
    if not chat.text.strip():
        return "empty", ""
    if by.language:
        label = chat.language if by.labels else ""
        if other := other_language(chat.text, by.language, by.other_language, label):
            return "language", other
    if sign := code_sign(chat.text, by.code):
        return "code", f"by {sign}"
    if by.labels and chat.toxic and by.toxicity:
        return "toxic", "labelled by the log"
    return "", ""


def other_language(text: str, kept: str, least: float, label: str = "") -> str:
    """Return the language (a code) of a message; empty if it is the one to keep.

    The log's label decides if it names one of `NAMES`; else the classifier, if it is at least this
    certain of another language.
    """
    if labelled := language_code(label):
        return "" if labelled == kept else label
    found, probability = _identifier().classify(text[:LONGEST_FOR_LANGUAGE])
    return "" if found == kept or probability < least else str(found)


def language_code(label: str) -> str:
    """Return the code of the language that a log names; empty if it is not one of `NAMES`.

    >>> [language_code(label) for label in ("English (US)", "en_US", "eng", "N/A", "Klingon")]
    ['en', 'en', 'en', '', '']
    """
    plain = label.strip().lower()
    found = _TAG.fullmatch(plain) or _NAME.fullmatch(plain)
    return CODES.get(found[1], "") if found else ""


@cache
def _identifier() -> Any:
    langid = import_extra("py3langid.langid", "build")
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    identifier.set_languages(sorted(NAMES))
    return identifier


def code_sign(text: str, of: Collection[str]) -> str:
    """Return the first sign of code in a text, ``word`` or ``shape``; empty without any.

    >>> code_sign("```\\nx = 1\\n```", ("word", "shape")), code_sign("Decode this.", ("shape",))
    ('shape', '')
    """
    text = text[:LONGEST]
    if "word" in of and "code" in text.lower():
        return "word"
    if "shape" in of:
        lines = sum(_LINE.match(line) is not None for line in text.splitlines())
        return "shape" if _FENCE.search(text) or lines >= CODE_LINES else ""
    return ""


def toxicities(texts: Sequence[str]) -> list[float]:
    """Return the probability of each text being toxic."""
    if not texts:
        return []
    predict = import_extra("profanity_check", "build").predict_prob
    return [float(found) for found in predict([text[:LONGEST] for text in texts])]
