"""The candidates for a structure's instances from one source: as many as may be needed, no more.

Candidates with targets of their own come first, by the hash of the targets; then those that share
theirs with one candidate, and so on: a data set of 100 has as many different targets as there are.
No text is there twice. What is chosen depends on the seed and on all candidates, not on the order
in which they come: pools of parts of a corpus can be put together in any.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import Any

import msgspec
from msgspec import Struct


class Candidate(Struct, frozen=True):
    """A text with the targets that it satisfies.

    constraint, targets: in their plain form.
    document: the name of where it comes from; about: what the source says of that.
    """

    text: str
    constraint: dict[str, Any]
    targets: Any
    document: str
    about: dict[str, Any]


class Pool:
    """Candidates for the instances of one structure from one source.

    most: instances wanted.
    seed: of what is drawn.
    """

    def __init__(self, most: int, seed: int) -> None:
        self._most = most
        self._seed = seed
        self._candidates: dict[bytes, tuple[bytes, Candidate]] = {}

    def add(self, candidate: Candidate) -> None:
        """Take a candidate in, unless its text is there."""
        text = self._hash(b"text", candidate.text.encode())
        targets = self._hash(b"targets", msgspec.json.encode(candidate.targets))
        there = self._candidates.get(text)
        if there is None or candidate.document < there[1].document:
            self._candidates[text] = (targets, candidate)
        if len(self._candidates) > 2 * self._most:
            self._prune()

    def candidates(self) -> list[Candidate]:
        """The chosen ones, in order."""
        self._prune()
        return [candidate for _, candidate in self._candidates.values()]

    def _prune(self) -> None:
        """Keep the first ones.

        One that is dropped here would be dropped from the whole, too: its rank among those with
        its targets can only fall when more come, and so many stay before it.
        """
        by_targets: dict[bytes, list[bytes]] = defaultdict(list)
        for text, (targets, _) in self._candidates.items():
            by_targets[targets].append(text)
        ranked = sorted(
            (rank, targets, text)
            for targets, texts in by_targets.items()
            for rank, text in enumerate(sorted(texts))
        )
        self._candidates = {text: self._candidates[text] for _, _, text in ranked[: self._most]}

    def _hash(self, what: bytes, content: bytes) -> bytes:
        key = b"%s %d" % (what, self._seed)
        return hashlib.blake2b(content, key=key, digest_size=12).digest()
