"""How hard the server was driven: the most that it let in within any sixty seconds.

This needs no limit to be set: it is what a limit would have seen. Requests are
kept by the millisecond, not one by one, so the memory is bounded. What has only
just left the window may still count: the peak is never told too low, and is at
most what came within sixty seconds and two milliseconds.

>>> peak = Peak()
>>> peak.add(read=10, written=5)
>>> peak.most
PerMinute(requests=1, tokens=15, input_tokens=10, output_tokens=5)
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from harness.mock.limits import WINDOW_S

SLICE_S = 0.001


class PerMinute(Struct, frozen=True):
    """The most of each in any sixty seconds; not always the same sixty for each."""

    requests: int = 0
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class _Slice(Struct):
    """What was let in during one millisecond, or several; last: when the last of it was."""

    last: float = 0.0
    requests: int = 0
    read: int = 0
    written: int = 0


class Peak:
    """Adds up what is let in, in one thread; told in any."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._current = _Slice()
        self._current_ends = float("-inf")
        self._slices: deque[_Slice] = deque()  # Those before, as far as they are in the window,
        self._earlier = _Slice()  # and what they add up to.
        self._most = PerMinute()  # Before the current slice.

    def add(self, read: int, written: int) -> None:
        """Count one request, with its tokens of input and output."""
        now = self._clock()
        if now >= self._current_ends:
            self._begin(now)
        current = self._current
        current.last = now
        current.requests += 1
        current.read += read
        current.written += written

    def _begin(self, now: float) -> None:
        # Nothing has left the window since the current slice began, so this is its peak.
        self._most = self.most
        requests, read, written = self._earlier.requests, self._earlier.read, self._earlier.written
        ended, self._current = self._current, _Slice()
        self._current_ends = now + SLICE_S
        self._slices.append(ended)
        requests += ended.requests
        read += ended.read
        written += ended.written
        while self._slices and self._slices[0].last <= now - WINDOW_S:
            old = self._slices.popleft()
            requests -= old.requests
            read -= old.read
            written -= old.written
        self._earlier = _Slice(now, requests, read, written)

    @property
    def most(self) -> PerMinute:
        """The peaks so far."""
        # In this order: should a slice begin meanwhile, it is in the last of the three.
        earlier = self._earlier
        current = self._current
        most = self._most
        read = earlier.read + current.read
        written = earlier.written + current.written
        return PerMinute(
            max(most.requests, earlier.requests + current.requests),
            max(most.tokens, read + written),
            max(most.input_tokens, read),
            max(most.output_tokens, written),
        )
