"""What a part of a corpus has yielded: counts, and candidates. Parts are put together in any order.

>>> whole = Yield()
>>> whole.add(part, Limits(targets=100, background=40), seed=0)  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from harness.builders.collie.pool import Candidate, Pool

MOST_PROBLEMS = 10
"""Unreadable documents that are named."""


class Limits(NamedTuple):
    """How much of what was found is kept.

    targets: candidates of a structure.
    background: texts of a level, whatever structure they suit.
    """

    targets: int
    background: int


class Lengths(Struct):
    """Of texts, in characters."""

    n: int = 0
    total: int = 0
    shortest: int = 0
    longest: int = 0

    @property
    def mean(self) -> float | None:
        """None where there is no text."""
        return self.total / self.n if self.n else None

    def count(self, texts: Iterable[str]) -> None:
        """Count texts in."""
        for text in texts:
            self.add(Lengths(1, len(text), len(text), len(text)))

    def add(self, other: Lengths) -> None:
        """Put those of another part to these."""
        if not other.n:
            return
        self.shortest = min(self.shortest, other.shortest) if self.n else other.shortest
        self.longest = max(self.longest, other.longest)
        self.n += other.n
        self.total += other.total


class Yield(Struct):
    """Of some documents of a source.

    unreadable: documents that could not be read; problems names some, with the reason.
    filtered: ``paragraph``, ``sentence`` and ``passage`` (surviving paragraphs of which no passage
        is made) to filters to how many each left out.
    single: rows of paragraphs that were no passage, having one.
    strings: of each level, those that structures were tried on.
    satisfied, suspicious: by structure; texts with targets, and of these those that were left out
        because a target begins or ends with neither letter nor digit.
    background: of each level, some strings.
    """

    documents: int = 0
    unreadable: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    characters: int = 0
    paragraphs: int = 0
    sentences: int = 0
    filtered: dict[str, dict[str, int]] = field(default_factory=dict)
    single: int = 0
    strings: dict[str, Lengths] = field(default_factory=dict)
    satisfied: dict[str, int] = field(default_factory=dict)
    suspicious: dict[str, int] = field(default_factory=dict)
    candidates: dict[str, list[Candidate]] = field(default_factory=dict)
    background: dict[str, list[str]] = field(default_factory=dict)

    @property
    def surviving(self) -> int:
        """Paragraphs that no filter of theirs left out."""
        return self.paragraphs - sum(self.filtered.get("paragraph", {}).values())

    def add(self, part: Yield, limits: Limits, seed: int) -> None:
        """Put a part to this one."""
        for name in ("documents", "unreadable", "characters", "paragraphs", "sentences", "single"):
            setattr(self, name, getattr(self, name) + getattr(part, name))
        self.problems = dict(sorted({**self.problems, **part.problems}.items())[:MOST_PROBLEMS])
        for unit, counts in part.filtered.items():
            _count(self.filtered.setdefault(unit, {}), counts)
        for level, lengths in part.strings.items():
            self.strings.setdefault(level, Lengths()).add(lengths)
        _count(self.satisfied, part.satisfied)
        _count(self.suspicious, part.suspicious)
        for structure, candidates in part.candidates.items():
            pool = Pool(limits.targets, seed)
            for candidate in [*self.candidates.get(structure, []), *candidates]:
                pool.add(candidate)
            self.candidates[structure] = pool.candidates()
        for level, texts in part.background.items():
            both = [*self.background.get(level, []), *texts]
            self.background[level] = drawn(both, limits.background, seed)


def drawn(texts: Iterable[str], most: int, seed: int) -> list[str]:
    """Different texts by the order of their hash."""
    key = b"background %d" % seed

    def hashed(text: str) -> bytes:
        return hashlib.blake2b(text.encode(), key=key, digest_size=8).digest()

    return sorted(set(texts), key=hashed)[:most]


def _count(to: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        to[name] = to.get(name, 0) + count
