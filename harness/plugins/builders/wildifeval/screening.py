"""Screens the first user message of each chat in a log, without an LLM.

The language classifier knows only 43 widely spoken languages, because it otherwise often mistakes
short English sentences for rare languages.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from harness.errors import ConfigError, DataInvalid, import_extra
from harness.plugins.builders.corpora import (
    FORMATS,
    FileRows,
    JsonlRows,
    files_of,
    format_of,
)
from harness.plugins.builders.wildifeval.curation_file import ScreenSection
from harness.records import replace_surrogates

IDS = ("conversation_id", "id", "conversation_hash")
TURNS = ("conversation", "messages", "conversations", "prompt")
USERS = ("user", "human")

DETOXIFY_BATCH = 32  # messages per call, since the model holds all of them in memory
BATCH = 1_000  # messages classified together: most of a classifier's time is overhead per call
LONGEST = 20_000  # characters of a message to examine for code and toxicity
LONGEST_FOR_LANGUAGE = 2_000
CODE_LINES = 2  # a message with at least this many code-like lines is about code
UNREADABLE = "unreadable"
EXAMPLES = 3  # examples to keep per reason
LONGEST_EXAMPLE = 300

# English names of the languages that the classifier distinguishes, by ISO 639-1 code.
LANGUAGES: dict[str, str] = json.loads(Path(__file__).with_name("languages.json").read_bytes())

CODES = {name: code for code, name in LANGUAGES.items()} | {code: code for code in LANGUAGES}

_LABEL = re.compile(r"([a-z]+)(?:[-_][a-z0-9-_]+| *\(.*\))?")
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)
_SHAPES = Path(__file__).with_name("code_line.txt")
_LINE = re.compile(_SHAPES.read_text("utf-8"), re.VERBOSE)  # a line that looks like code


class Chat(Struct, frozen=True):
    """The first user message of a conversation, with the labels that the log gives it."""

    id: str
    text: str
    language: str = ""
    toxic: bool = False
    problem: str = ""  # where and why the chat cannot be read


def log_files(place: Path) -> list[FileRows]:
    """Return the rows of each file of a log (a file or a folder)."""
    kind = FORMATS.get(format_of(place), JsonlRows)
    return [kind(path) for path in files_of(place, kind)]


def read_chats(rows: FileRows) -> Iterator[Chat]:
    """Yield the chats in a file of a log. For an unreadable chat, ``problem`` says why."""
    for number, row in rows.rows():
        chat = _chat(row, str(number))
        if chat.problem:
            where = f"{replace_surrogates(rows.path.name)}, {rows.unit} {number}"
            chat = replace(chat, problem=f"{where}: {chat.problem}")
        yield chat


def _chat(row: Mapping[str, Any] | str, number: str) -> Chat:
    """Return the chat in a row of a log. A row of type str says why it is unreadable."""
    if isinstance(row, str):
        return Chat(number, "", problem=row)
    chat = Chat(_id(row) or number, "", _language(row))
    match row:
        case {"toxic": True} | {"openai_moderation": [{"flagged": True}, *_]}:
            chat = replace(chat, toxic=True)
    prompt = row.get("prompt")
    if isinstance(prompt, str) and prompt.strip():
        return replace(chat, text=prompt)
    lists = [row[key] for key in TURNS if isinstance(row.get(key), list)]
    for turn in next(filter(None, lists), []):
        if not isinstance(turn, dict):
            continue
        role = str(turn.get("role") or turn.get("from"))
        if role.lower() not in USERS:
            continue
        content = turn["content"] if "content" in turn else turn.get("value")
        text = _text(content)
        if text is None:
            return replace(chat, problem="the content of its message is not text")
        toxic = chat.toxic or turn.get("toxic") is True
        return replace(chat, text=text, language=_language(turn) or chat.language, toxic=toxic)
    if any(lists) or not (lists or isinstance(prompt, str)):
        return replace(chat, problem="not a chat: it has no user message")
    return chat


def _id(row: Mapping[str, Any]) -> str:
    """Return a chat's id, or "" if the log gives none."""
    for key in IDS:
        if isinstance(row.get(key), str | int):
            return str(row[key])
    return ""


def _text(content: Any) -> str | None:
    """Return the text in a message's content ("" if there is none), or None for another type."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(filter(None, map(_part, content)))
    return _part(content)


def _part(part: Any) -> str | None:
    if isinstance(part, dict):
        part = part.get("text")
    return part if isinstance(part, str) else None


def _language(row: Mapping[str, Any]) -> str:
    label = row.get("language")
    return label.strip() if isinstance(label, str) else ""


class ScreeningExample(Struct, frozen=True):
    """An example of a dropped message. ``detail``, if any, explains the reason."""

    id: str
    text: str
    detail: str = ""


class Step(Struct):
    """Counts and examples of the messages that a step dropped out of ``before``, by reason."""

    name: str
    before: int
    removed: dict[str, int] = {}
    examples: dict[str, list[ScreeningExample]] = {}

    def leave_out(self, reason: str, id: str, text: str, detail: str = "") -> None:
        """Count a dropped message, and keep the first few for each reason."""
        self.removed[reason] = self.removed.get(reason, 0) + 1
        examples = self.examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            examples.append(ScreeningExample(id, text[:LONGEST_EXAMPLE], detail))

    @property
    def left(self) -> int:
        """The number of messages that passed."""
        return self.before - sum(self.removed.values())


class Screened(Struct):
    """The chats that passed the screening. ``step`` counts the dropped chats by reason.

    ``sources`` has the name and SHA-256 of each file.
    """

    chats: list[Chat]
    step: Step
    sources: list[dict[str, str]]


ExaminedChat: TypeAlias = tuple[Chat, str, str]
"""A chat, why it is dropped, and a detail (both empty if it is kept). A dropped chat's text is
cut."""


def examine(chats: Iterable[Chat], by: ScreenSection) -> Iterator[ExaminedChat]:
    """Examine the readability, language, code and toxicity of each chat, with settings ``by``."""
    if by.language and by.language not in LANGUAGES:
        message = f"screen.language: {by.language!r} cannot be distinguished from others."
        raise ConfigError(message, f"Choose one of {', '.join(LANGUAGES)}, or null to keep all.")
    remaining = iter(chats)
    while batch := list(islice(remaining, BATCH)):
        yield from _examine_batch(batch, by)


def _examine_batch(chats: Sequence[Chat], by: ScreenSection) -> Iterator[ExaminedChat]:
    examined = [(chat, *_reason(chat, by)) for chat in chats]
    texts = [chat.text[:LONGEST] for chat, reason, _ in examined if not reason]
    classify = CLASSIFIERS.get(by.toxicity) if texts else None
    probabilities = iter(classify(texts) if classify else [])
    for chat, reason, detail in examined:
        if classify and not reason:
            probability = next(probabilities)
            if probability >= by.toxic_from:
                reason = "toxic"
                detail = f"probability {probability:.2f}"
        if reason:
            chat = replace(chat, text=chat.text[:LONGEST_EXAMPLE])
        yield chat, reason, detail


def screen(examined: Iterable[ExaminedChat], sources: list[dict[str, str]]) -> Screened:
    """Drop duplicates, and chats with a reason to be dropped. Repeated ids get a suffix (``#2``).

    Raises:
        DataInvalid: If there are chats, but none of them can be read.
    """
    step = Step("screen", 0)
    remaining = list[Chat]()
    texts = set[bytes]()
    ids = dict[str, int]()
    for chat, reason, detail in examined:
        step.before += 1
        name = chat.id
        while chat.id in ids:
            ids[name] += 1
            chat = replace(chat, id=f"{name}#{ids[name]}")
        ids[chat.id] = 1
        digest = hashlib.blake2b(" ".join(chat.text.split()).encode(), digest_size=16).digest()
        if not reason and digest in texts:
            reason = "duplicate"
        if reason:
            step.leave_out(reason, chat.id, chat.text, detail)
        else:
            texts.add(digest)
            remaining.append(chat)
    if step.before and step.removed.get(UNREADABLE) == step.before:
        message = f"No chat can be read: {step.examples[UNREADABLE][0].detail}."
        raise DataInvalid(message, "'harness docs wildifeval_build' lists the supported formats.")
    return Screened(remaining, step, sources)


def _reason(chat: Chat, by: ScreenSection) -> tuple[str, str]:
    """Return why a message is dropped, and a detail (both empty if it is kept)."""
    if chat.problem:
        return UNREADABLE, chat.problem
    if not chat.text.strip():
        return "empty", ""
    if by.language:
        label = chat.language if by.labels else ""
        language = other_language(chat.text, by.language, by.other_language, label)
        if language:
            return "language", language
    if sign := code_sign(chat.text, by.code):
        return "code", f"by {sign}"
    if by.labels and chat.toxic and by.toxicity:
        return "toxic", "labelled by the log"
    return "", ""


def other_language(text: str, wanted_language: str, threshold: float, label: str = "") -> str:
    """Return the language of a message, or "" if the message is to be kept.

    The language is the one that ``label`` names, or else the classifier's, unless its probability
    is below ``threshold``. A message in ``wanted_language`` is kept.
    """
    labelled = language_code(label)
    if labelled == wanted_language:
        return ""
    if labelled:  # the log's label decides
        return label
    language, probability = _identifier().classify(text[:LONGEST_FOR_LANGUAGE])
    if language == wanted_language or probability < threshold:
        return ""
    return str(language)


def language_code(label: str) -> str:
    """Return the code of the language that a label names, or "" if that is not in `LANGUAGES`."""
    match = _LABEL.fullmatch(label.strip().lower())
    if match is None:
        return ""
    return CODES.get(match[1], "")


@cache
def _identifier() -> Any:
    langid = import_extra("py3langid.langid", "build")
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    identifier.set_languages(sorted(LANGUAGES))
    return identifier


def code_sign(text: str, signs: Collection[str]) -> str:
    """Return the sign of code that a text contains, or "" if it contains none.

    ``signs`` has those to look for: ``word`` is "code", even inside a word; ``shape`` is a code
    fence or lines that look like code.
    """
    text = text[:LONGEST]
    if "word" in signs and "code" in text.lower():
        return "word"
    if "shape" in signs:
        n_lines = len(list(filter(_LINE.match, text.splitlines())))
        if n_lines >= CODE_LINES or _FENCE.search(text):
            return "shape"
    return ""


def toxic_words(texts: Sequence[str]) -> list[float]:
    """Return the probability (0 to 1) that each text is toxic, based on the words in it."""
    predict = import_extra("profanity_check", "build").predict_prob
    return [float(probability) for probability in predict(texts)]


def toxic_by_detoxify(texts: Sequence[str]) -> list[float]:
    """Return the toxicity (0 to 1) of each text according to Detoxify's model ``original``."""
    scores: list[float] = []
    for start in range(0, len(texts), DETOXIFY_BATCH):
        batch = texts[start : start + DETOXIFY_BATCH]
        prediction = _detoxify().predict(list(batch))
        scores += map(float, prediction["toxicity"])
    return scores


@cache
def _detoxify() -> Any:
    try:
        from detoxify import Detoxify
    except ImportError:
        problem = "screen.toxicity: detoxify needs the package detoxify, which is not installed."
        raise ConfigError(problem, "pip install detoxify (its weights are downloaded)") from None
    return Detoxify("original")


# By value of ``screen.toxicity``: a function from texts to probabilities.
CLASSIFIERS: Mapping[str | None, Callable[[Sequence[str]], list[float]]] = {
    "words": toxic_words,
    "detoxify": toxic_by_detoxify,
}
