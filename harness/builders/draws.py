"""Random draws that are the same in every process and on every version of Python.

Each place that draws has a stream of its own, named by a path from the seed: what one schema draws
does not move what the next one gets. Only ``random.Random.random`` is used, the one method whose
sequence Python promises to keep.

>>> Draws(0, "schemas", 3).integer(1, 6) == Draws(0, "schemas", 3).integer(1, 6)
True
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """A stream of draws."""

    def __init__(self, seed: int, *name: object) -> None:
        self._name = (seed, *name)
        digest = hashlib.sha256(repr(self._name).encode()).digest()
        self._random = random.Random(int.from_bytes(digest[:16], "big"))

    def stream(self, *name: object) -> Draws:
        """Another stream, named below this one; no draw of either moves the other."""
        seed, *path = self._name
        assert isinstance(seed, int)
        return Draws(seed, *path, *name)

    def chance(self, of: float) -> bool:
        """True in that share of draws."""
        return self._random.random() < of

    def integer(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.integer(0, len(items) - 1)]

    def weighted(self, weights: Mapping[T, int]) -> T:
        """One of the keys, as often as its weight says."""
        left = self.integer(1, sum(weights.values()))
        for item, weight in weights.items():
            left -= weight
            if left <= 0:
                return item
        raise ValueError("no weights")

    def sample(self, items: Sequence[T], size: int) -> list[T]:
        """Different items, in the order drawn; all of them where there are fewer."""
        left = list(items)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in range(min(size, len(left)))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items, in another order."""
        return self.sample(items, len(items))
