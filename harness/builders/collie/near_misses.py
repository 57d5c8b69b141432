"""Near misses: a text that passes, changed a little so that it fails.

Changes are tried from the smallest on (a letter, a word, a sentence); the first one that violates a
base constraint is that constraint's near miss. The checker decides what violates it. A base
constraint that no change violates is reported, since it may demand nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from harness.scoring.constraints.check import bare, check
from harness.scoring.constraints.grammar import Base, Specification, Target
from harness.scoring.constraints.levels import PARAGRAPH_BREAK, Splitter

LONG_WORD = "incomprehensibilities"
OTHER_WORD = "meanwhile"
ADDED_SENTENCE = "Nothing more was said about it."

MOST_PLACES = 16
"""Words, sentences or letters that are changed one by one, from the start of a text."""
MOST_CHANGES = 120
"""Changes tried on a text."""


class NearMisses(NamedTuple):
    """Different texts that fail, and the base constraints (from 0) that no change violates."""

    texts: tuple[str, ...]
    unbroken: tuple[int, ...]


def near_misses(specification: Specification, text: str, units: Splitter) -> NearMisses:
    """Change a text that passes, at most once for each base constraint."""
    bases = list(specification.bases())
    unbroken = set(range(len(bases)))
    texts: dict[str, None] = {}
    changes = _in_a_word(text) if specification.level == "word" else _changes(text, bases, units)
    for changed in islice(changes, MOST_CHANGES):
        if not unbroken:
            break
        if changed == text or not changed.strip():
            continue
        verdict = check(specification, changed, units)
        broken = {n for n in unbroken if not verdict.findings[n].passed}
        if broken and not verdict.passed:
            texts[changed] = None
            unbroken -= broken
    return NearMisses(tuple(texts), tuple(sorted(unbroken)))


def _in_a_word(word: str) -> Iterator[str]:
    yield from (word[:-1], word[1:], f"{word}e")
    for place, letter in enumerate(word[:MOST_PLACES]):
        yield word[:place] + ("o" if letter.lower() != "o" else "u") + word[place + 1 :]
    yield from (word[:length] for length in range(len(word) - 2, 0, -1))


def _changes(text: str, bases: Sequence[tuple[Base, Target]], units: Splitter) -> Iterator[str]:
    half = len(text) // 2
    yield from (text[:-1], text[1:], f"{text[:half]}e{text[half:]}")
    words = [match.span() for match in re.finditer(r"\S+", text)]
    if not words:
        return
    middle = words[len(words) // 2]
    before, after = text[: middle[0]], text[middle[0] :]
    for base, target in bases:
        for part in filter(None, _texts(target)):
            if base.relation == "not in":
                yield f"{before}{part} {after}"
            elif base.relation == "in":
                yield _without(text, part)
    yield from (_cut(text, words[-1], ""), _cut(text, middle, ""), f"{before}{OTHER_WORD} {after}")
    for span in [*words[:MOST_PLACES], words[-1]]:
        yield _cut(text, span, _replaced(text[slice(*span)]))
    yield f"{before}{LONG_WORD} {after}"
    sentences = list(_spans(text, units.sentences(text)))
    for span in sentences[:MOST_PLACES]:
        parts = text[slice(*span)].split()
        changed = [
            [f"{parts[0].rstrip('.')}."],
            [OTHER_WORD.title(), *parts[1:]],
            [*parts[:-1], _replaced(parts[-1])],
            [*(word.rstrip(".!?") for word in parts), *parts],
        ]
        yield from (_cut(text, span, " ".join(listed)) for listed in changed)
    yield f"{text} {ADDED_SENTENCE}"
    yield from (text[:end] for _, end in reversed(sentences[:-1]))
    yield text.rpartition(PARAGRAPH_BREAK)[0]
    yield f"{text}{PARAGRAPH_BREAK}{ADDED_SENTENCE}"
    kept = len(words)  # for a bound that the text is far from: a half and a multiple of it
    while kept := kept // 2:
        yield text[: words[kept - 1][1]]
    yield from (" ".join([text] * times) for times in (2, 4, 8))


def _spans(text: str, parts: Iterator[str]) -> Iterator[tuple[int, int]]:
    end = 0
    for part in parts:
        begin = text.find(part, end)
        if begin >= 0 and part.strip():
            end = begin + len(part)
            yield begin, end


def _without(text: str, wanted: str) -> str:
    """Return a text without the words of a target."""
    words = text.split(" ")
    kept = [word for word in words if bare(word) != bare(wanted)]
    return " ".join(kept) if len(kept) < len(words) else text.replace(wanted, "")


def _cut(text: str, span: tuple[int, int], new: str) -> str:
    return text[: span[0]] + new + text[span[1] :]


def _replaced(word: str) -> str:
    """Return another word, with the end mark of a sentence if the word has one."""
    return OTHER_WORD + (word[-1] if word[-1] in ".!?" else "")


def _texts(target: Target) -> Iterator[str]:
    if isinstance(target, str):
        yield target
    elif isinstance(target, tuple):
        for part in target:
            yield from _texts(part)
