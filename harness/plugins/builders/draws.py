"""Random draws that are the same in every process and on every version of Python.

Only ``random.Random.random`` is used, because Python guarantees its sequence.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """A stream of random draws that are always the same for a seed and a name."""

    def __init__(self, seed: int, *name: object) -> None:
        digest = hashlib.sha256(repr((seed, *name)).encode()).digest()
        self._random = random.Random(int.from_bytes(digest[:16], "big"))

    def chance(self, probability: float) -> bool:
        """Return True with the given probability (0 to 1)."""
        return self._random.random() < probability

    def integer(self, low: int, high: int) -> int:
        """Return a random integer from ``low`` to ``high``, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def choice(self, items: Sequence[T]) -> T:
        """Return a random item, all equally probable."""
        return items[self.integer(0, len(items) - 1)]

    def weighted(self, weights: Mapping[T, int]) -> T:
        """Return a random key of ``weights``, with a probability proportional to its weight."""
        pool: list[T] = []
        for item, weight in weights.items():
            pool += [item] * weight
        return self.choice(pool)

    def sample(self, items: Sequence[T], size: int) -> list[T]:
        """Return up to ``size`` random items, drawn without replacement, in the order drawn."""
        remaining = list(items)
        drawn = []
        for _ in range(min(size, len(remaining))):
            drawn.append(remaining.pop(self.integer(0, len(remaining) - 1)))
        return drawn

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return all items in random order."""
        return self.sample(items, len(items))


def hashed(key: str, size: int = 8) -> Callable[[str], bytes]:
    """Return a function that hashes a string to ``size`` bytes.

    Sorting by these hashes gives a random but reproducible order, another one for each ``key``.
    """

    def rank(text: str) -> bytes:
        content = text.encode("utf-8", "surrogatepass")  # a file's name may not be UTF-8
        return hashlib.blake2b(content, key=key.encode(), digest_size=size).digest()

    return rank
