"""Rate limits of each model."""

from __future__ import annotations

import random

import pytest

from harness.mock.stats import WINDOW_S, Limits, MockRateLimits
from harness.mock.wire import MockError


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


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
