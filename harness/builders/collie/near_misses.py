"""Near misses: a text that passes, changed a little so that it fails.

Changes are tried from the smallest on (a letter, a word, a sentence); the first one that violates a
base constraint is that constraint's near miss. The checker decides what violates it. A base
constraint that no change violates is reported, since it may demand nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness.scoring.constraints.check import bare, check
from harness.scoring.constraints.grammar import Base, Level, Specification, Target
from harness.scoring.constraints.levels import PARAGRAPH_BREAK, Splitter

WORD = re.compile(r"\S+")
LONG_WORD = "incomprehensibilities"
OTHER_WORD = "meanwhile"
ADDED_SENTENCE = "Nothing more was said about it."

DOUBLED = (2, 4, 8)
"""How often a text is repeated, to pass a bound that it is far from."""
MOST_PLACES = 16
"""Words or letters that are changed one by one, from the start of a text."""
MOST_CHANGES = 120
"""Changes tried on a text."""


class NearMisses(NamedTuple):
    """The near misses of a text.

    Attributes:
        texts: Different texts, each of which fails.
        unbroken: The base constraints, by number from 0, that no change violates.
    """

    texts: tuple[str, ...]
    unbroken: tuple[int, ...]


def near_misses(specification: Specification, text: str, units: Splitter) -> NearMisses:
    """Change a text that passes, at most once for each base constraint."""
    bases = list(specification.bases())
    unbroken = set(range(len(bases)))
    texts: dict[str, None] = {}
    changes = _changes(text, specification.level, bases, units)
    for _, changed in zip(range(MOST_CHANGES), changes, strict=False):
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


def _changes(
    text: str, level: Level, bases: Sequence[tuple[Base, Target]], units: Splitter
) -> Iterator[str]:
    """Yield changed texts: small changes first, then ones that the targets suggest, then large
    ones.
    """
    yield from _letters(text, level)
    if level == "word":
        return
    words = [match.span() for match in WORD.finditer(text)]
    if not words:
        return
    middle = words[len(words) // 2]
    for base, target in bases:
        wanted = [part for part in _texts(target) if part]
        if base.relation == "not in":
            yield from (f"{text[: middle[0]]}{part} {text[middle[0] :]}" for part in wanted)
        elif base.relation == "in":
            yield from (_without(text, part) for part in wanted)
    yield _cut(text, words[-1], "")
    yield _cut(text, middle, "")
    yield f"{text[: middle[0]]}{OTHER_WORD} {text[middle[0] :]}"
    for span in [*words[:MOST_PLACES], words[-1]]:
        yield _cut(text, span, OTHER_WORD + _end(text[slice(*span)]))
    yield f"{text[: middle[0]]}{LONG_WORD} {text[middle[0] :]}"
    yield from _sentences(text, units)
    paragraphs = text.split(PARAGRAPH_BREAK)
    if len(paragraphs) > 1:
        yield PARAGRAPH_BREAK.join(paragraphs[:-1])
    yield f"{text}{PARAGRAPH_BREAK}{ADDED_SENTENCE}"
    yield from _halved_and_doubled(text, words)


def _letters(text: str, level: Level) -> Iterator[str]:
    """Yield texts with a letter removed, added or changed; in a word, at each position."""
    yield text[:-1]
    yield text[1:]
    if level != "word":
        place = len(text) // 2
        yield text[:place] + "e" + text[place:]
        return
    yield f"{text}e"
    for place, letter in enumerate(text[:MOST_PLACES]):
        yield text[:place] + ("o" if letter.lower() != "o" else "u") + text[place + 1 :]
    yield from (text[:length] for length in range(len(text) - 2, 0, -1))


def _sentences(text: str, units: Splitter) -> Iterator[str]:
    """Yield texts with a sentence shortened, changed at either end, doubled, added or removed."""
    spans = []
    at = 0
    for sentence in units.sentences(text):
        begin = text.find(sentence, at)
        if begin < 0:
            continue
        at = begin + len(sentence)
        spans.append((begin, at))
    for begin, end in spans[:MOST_PLACES]:
        words = text[begin:end].split()
        if not words:
            continue
        last = words[-1]
        yield _cut(text, (begin, end), f"{words[0].rstrip('.')}.")
        yield _cut(text, (begin, end), " ".join([OTHER_WORD.title(), *words[1:]]))
        yield _cut(text, (begin, end), " ".join([*words[:-1], OTHER_WORD + _end(last)]))
        doubled = [*(word.rstrip(".!?") for word in words), *words]
        yield _cut(text, (begin, end), " ".join(doubled))
    yield f"{text} {ADDED_SENTENCE}"
    for kept in range(len(spans) - 1, 0, -1):
        yield text[: spans[kept - 1][1]]


def _halved_and_doubled(text: str, words: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield a half and a multiple of the text, for a bound that it is far from."""
    kept = len(words) // 2
    while kept:
        yield text[: words[kept - 1][1]]
        kept //= 2
    for times in DOUBLED:
        yield " ".join([text] * times)


def _without(text: str, wanted: str) -> str:
    """Return a text without the words of a target."""
    kept = [word for word in text.split(" ") if bare(word) != bare(wanted)]
    return " ".join(kept) if len(kept) < len(text.split(" ")) else text.replace(wanted, "")


def _cut(text: str, span: tuple[int, int], new: str) -> str:
    return text[: span[0]] + new + text[span[1] :]


def _end(word: str) -> str:
    """Return the end mark of a sentence, if a word has one."""
    return word[-1] if word[-1] in ".!?" else ""


def _texts(target: Target) -> Iterator[str]:
    if isinstance(target, str):
        yield target
    elif isinstance(target, tuple):
        for part in target:
            yield from _texts(part)
