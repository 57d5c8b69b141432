"""Which instances a limited run takes: a seeded order that goes round the groups.

The first N of a file are often of one group; here each group gives its first
instance, then each its second, and so on. A larger limit takes the same ones
and more, so that a run can grow.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

from harness.records import Instance


def rank(seed: int | None, instance_id: str) -> int:
    """An instance's place in the seeded order of its group."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{instance_id}".encode(), digest_size=8).digest())


def limited(
    instances: Callable[[], Iterator[Instance[Any]]], limit: int | None, seed: int | None
) -> Iterator[Instance[Any]]:
    """The instances of a run: all in file order, or ``limit`` of them round the groups.

    instances: gives a new pass over the data set.

    With a limit, holds the ids of at most ``limit`` instances per group and
    ``limit`` instances.
    """
    if limit is None:
        yield from instances()
        return
    # Largest rank on top, so that a better one replaces it.
    groups: dict[str, list[tuple[int, str]]] = {}
    for instance in instances():
        heap = groups.setdefault(next(iter(instance.groups.values()), ""), [])
        place = (-rank(seed, instance.id), instance.id)
        if len(heap) < limit:
            heapq.heappush(heap, place)
        else:
            heapq.heappushpop(heap, place)
    in_order = [sorted(groups[name], reverse=True) for name in sorted(groups)]
    turns = (place[1] for turn in zip_longest(*in_order) for place in turn if place)
    order = {instance_id: number for number, instance_id in zip(range(limit), turns, strict=False)}
    chosen = [instance for instance in instances() if instance.id in order]
    yield from sorted(chosen, key=lambda instance: order[instance.id])
