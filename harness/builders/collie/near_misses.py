"""Near misses: a text that passes, changed a little so that it fails.

Changes are tried from the smallest on (a letter, a word, a sentence); the first one that violates a
base constraint is that constraint's near miss. The checker decides what violates it. A base
constraint that no change violates is reported, since it may demand nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from harness.scoring.constraints.check import check
from harness.scoring.constraints.grammar import Specification, Target
from harness.scoring.constraints.levels import PARAGRAPH_BREAK, Splitter

OTHER_WORD = "incomprehensibilities"
ADDED_SENTENCE = "Nothing more was said about it."

MOST_PLACES = 16
"""Letters, words or sentences that are changed one by one, from the start of a text."""
MOST_CHANGES = 150
"""Changes tried on a text."""


class NearMisses(NamedTuple):
    """Different texts that fail, and the base constraints (from 0) that no change violates."""

    texts: tuple[str, ...]
    unbroken: tuple[int, ...]


def near_misses(specification: Specification, text: str, units: Splitter) -> NearMisses:
    """Change a text that passes, at most once for each base constraint."""
    unbroken = set(range(len(list(specification.bases()))))
    texts: dict[str, None] = {}
    for changed in islice(_changes(specification, text, units), MOST_CHANGES):
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


def _changes(specification: Specification, text: str, units: Splitter) -> Iterator[str]:
    half = len(text) // 2
    yield from (text[:-1], text[1:], f"{text[:half]}e{text[half:]}")
    if specification.level == "word":
        for place, letter in enumerate(text[:MOST_PLACES]):
            yield text[:place] + ("o" if letter.lower() != "o" else "u") + text[place + 1 :]
        yield from (text[:length] for length in range(len(text) - 2, 0, -1))
        return
    words = [match.span() for match in re.finditer(r"[^\s.!?]+", text)]
    some = [*words[:MOST_PLACES], *words[-1:]]
    for wanted in texts_of(specification.targets):
        yield text.replace(wanted, "")
        yield f"{wanted} {text}"
    yield from (text[:begin] + text[end:] for begin, end in some[::-1])
    yield from (f"{text[:begin]}{OTHER_WORD} {text[begin:]}" for begin, _ in some)
    yield from (text[:begin] + OTHER_WORD + text[end:] for begin, end in some)
    ends = list(_ends(text, units.sentences(text)))
    yield f"{text} {ADDED_SENTENCE}"
    yield from (text[:end] for end in reversed(ends[:-1]))
    yield text.rpartition(PARAGRAPH_BREAK)[0]
    yield f"{text}{PARAGRAPH_BREAK}{ADDED_SENTENCE}"
    for begin, end in zip([0, *ends], ends[:MOST_PLACES], strict=False):
        sentence = text[begin:end]
        yield text[:begin] + " ".join([sentence.rstrip(".!?")] * 3) + text[end - 1 :]
        yield text[:begin] + " ".join(sentence.split()[:1]).rstrip(".!?") + text[end - 1 :]
    kept = len(words)  # for a bound that the text is far from: a half and a multiple of it
    while kept := kept // 2:
        yield text[: words[kept - 1][1]]
    yield from (" ".join([text] * times) for times in (2, 4, 8))


def _ends(text: str, sentences: Iterable[str]) -> Iterator[int]:
    end = 0
    for sentence in sentences:
        if (begin := text.find(sentence, end)) >= 0:
            end = begin + len(sentence)
            yield end


def texts_of(target: Target) -> Iterator[str]:
    """Yield the texts among targets."""
    if isinstance(target, str):
        yield target
    elif isinstance(target, tuple):
        for part in target:
            yield from texts_of(part)
