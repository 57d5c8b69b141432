"""The peak of any 60 seconds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from harness.mock.stats import WINDOW_S, Peak, PerMinute

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
def test_the_peak_is_exact(clock: Clock, rate: float) -> None:
    peak, luck = Peak(clock), random.Random(0)
    events: list[Event] = []
    for _ in range(300):
        # Whole quarters of a second, so that some share a moment and some are 60 s apart.
        clock.now += round(luck.expovariate(rate) * 20) / 4
        read, written = luck.randint(0, 50), luck.randint(0, 50)
        peak.add(read, written)
        events.append((clock.now, read, written))
    assert peak.most == most(events, WINDOW_S)
