"""Reproducible luck: numbers that depend on the request, not on when it came.

A shared random generator would hand its numbers out in order of arrival, which
differs from run to run as soon as requests are concurrent. Here each number is
a hash of the seed, the body's digest and how often that body has been asked.
So the order does not matter, and yet a retried request draws anew and can
succeed.

>>> draw(0, "c0ffee", 1) == draw(0, "c0ffee", 1) != draw(0, "c0ffee", 2)
True
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple


class Draw(NamedTuple):
    """Two independent numbers, uniform in [0, 1): one for each decision about a request."""

    fault: float
    latency: float


def draw(seed: int, digest: str, attempt: int) -> Draw:
    """The luck of the n-th request with this body."""
    noise = blake2b(f"{seed}:{digest}:{attempt}".encode(), digest_size=16).digest()
    return Draw(_unit(noise[:8]), _unit(noise[8:]))


def _unit(noise: bytes) -> float:
    # 53 bits: all that a float holds, so that the result stays below 1.
    return (int.from_bytes(noise, "big") >> 11) / (1 << 53)
