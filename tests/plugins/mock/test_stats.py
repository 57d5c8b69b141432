"""The peak of any 60 seconds, and the rate limits of each model."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from harness.plugins.mock.stats import WINDOW_S, Limits, MockRateLimits, Peak, PerMinute
from harness.plugins.mock.wire import MockError

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


def test_no_limits_admit_all() -> None:
    limits = MockRateLimits(Limits())
    assert limits.admit("m", 10**9, 0) is None
    assert limits.levels("m") == []


def test_refusal_says_when_there_is_room(clock: Clock) -> None:
    limits = MockRateLimits(Limits(requests_per_minute=2), clock)
    assert limits.admit("m", 1, 0) is None
    clock.now += 10
    assert limits.admit("m", 1, 0) is None
    refused = limits.admit("m", 1, 0)
    assert refused is not None
    assert (refused.unit, refused.used, refused.limit) == ("requests", 2, 2)
    assert refused.wait_s == pytest.approx(WINDOW_S - 10)
    clock.now += refused.wait_s
    assert limits.admit("m", 1, 0) is None


def test_refused_request_uses_nothing_up(clock: Clock) -> None:
    limits = MockRateLimits(Limits(requests_per_minute=10, tokens_per_minute=100), clock)
    assert limits.admit("m", 90, 0) is None
    refused = limits.admit("m", 20, 0)
    assert refused is not None
    assert refused.unit == "tokens"
    assert [level.used for level in limits.levels("m")] == [1, 90]


def test_input_and_output_have_limits_of_their_own(clock: Clock) -> None:
    limits = MockRateLimits(Limits(input_tokens_per_minute=50, output_tokens_per_minute=60), clock)
    assert limits.admit("m", 40, 50) is None
    broken = [limits.admit("m", *amounts) for amounts in ((20, 0), (0, 20), (10, 10))]
    assert [level and level.unit for level in broken] == ["input tokens", "output tokens", None]
    assert [level.limit - level.used for level in limits.levels("m")] == [0, 0]


def test_more_than_the_limit_never_fits(clock: Clock) -> None:
    refused = MockRateLimits(Limits(tokens_per_minute=100), clock).admit("m", 101, 0)
    assert refused is not None
    assert refused.wait_s == WINDOW_S


def test_no_window_of_sixty_seconds_holds_more(clock: Clock) -> None:
    limits = MockRateLimits(Limits(requests_per_minute=50, tokens_per_minute=1000), clock)
    luck = random.Random(0)
    admitted: list[tuple[float, int]] = []
    for _ in range(5000):
        clock.now += luck.expovariate(2.0)
        tokens = luck.randint(1, 60)
        if limits.admit("m", tokens, 0) is None:
            admitted.append((clock.now, tokens))
    for start, _ in admitted:
        window = [tokens for at, tokens in admitted if start <= at < start + WINDOW_S]
        assert len(window) <= 50
        assert sum(window) <= 1000


def test_each_model_has_windows_of_its_own(clock: Clock) -> None:
    limits = MockRateLimits(Limits(requests_per_minute=1, tokens_per_minute=100), clock)
    assert limits.admit("a", 30, 20) is None
    assert limits.admit("a", 1, 1) is not None
    clock.now += 10
    assert limits.admit("b", 30, 40) is None
    assert [level.used for level in limits.levels("a")] == [1, 50]
    assert [level.used for level in limits.levels("b")] == [1, 70]
    assert [level.limit - level.used for level in limits.levels("c")] == [1, 100]
    clock.now += WINDOW_S - 10
    assert limits.admit("a", 1, 1) is None
    assert limits.admit("b", 1, 1) is not None


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_that_lets_nothing_in_is_refused(limit: int) -> None:
    with pytest.raises(MockError, match="input_tokens_per_minute must be at least 1, not"):
        Limits(input_tokens_per_minute=limit)
