"""The peak of any 60 seconds."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence

import pytest

from harness.mock.limits import WINDOW_S
from harness.mock.stats import SLICE_S, Peak, PerMinute

Event = tuple[float, int, int]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def most(events: Sequence[Event], seconds: float) -> PerMinute:
    """The peaks of any window of so many seconds, by looking at each."""
    peaks = [0, 0, 0, 0]
    for start, _, _ in events:
        window = [(r, w) for at, r, w in events if start <= at < start + seconds]
        read, written = sum(r for r, _ in window), sum(w for _, w in window)
        found = (len(window), read + written, read, written)
        peaks = [max(both) for both in zip(peaks, found, strict=True)]
    return PerMinute(*peaks)


def test_nothing_was_let_in() -> None:
    assert Peak().most == PerMinute(0, 0, 0, 0)


def test_what_left_the_window_is_forgotten_and_the_peak_is_not(clock: Clock) -> None:
    peak = Peak(clock)
    for _ in range(3):
        peak.add(10, 1)
    clock.now += WINDOW_S
    peak.add(2, 25)
    assert peak.most == PerMinute(3, 33, 30, 25)
    clock.now += WINDOW_S - 1
    peak.add(50, 0)
    assert peak.most == PerMinute(3, 77, 52, 25)


@pytest.mark.parametrize("rate", [0.5, 20.0])
def test_peak_is_never_too_low_and_hardly_too_high(clock: Clock, rate: float) -> None:
    peak = Peak(clock)
    luck = random.Random(0)
    events: list[Event] = []
    for _ in range(1500):
        # Steps of a quarter of a slice, so that many share one and some share a moment.
        clock.now += round(luck.expovariate(rate) * 4000) * SLICE_S / 4
        read, written = luck.randint(0, 50), luck.randint(0, 50)
        peak.add(read, written)
        events.append((clock.now, read, written))
    lower, upper = most(events, WINDOW_S), most(events, WINDOW_S + 2 * SLICE_S)
    told = peak.most
    assert lower.requests <= told.requests <= upper.requests
    assert lower.tokens <= told.tokens <= upper.tokens
    assert lower.input_tokens <= told.input_tokens <= upper.input_tokens
    assert lower.output_tokens <= told.output_tokens <= upper.output_tokens


def test_memory_does_not_grow_with_the_requests(clock: Clock) -> None:
    peak = Peak(clock)
    tracemalloc.start()
    for _ in range(20_000):
        clock.now += SLICE_S / 100
        peak.add(1000, 1000)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak.most.requests == 20_000
    assert used < 200_000
