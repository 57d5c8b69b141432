import random

import pytest

from harness.mock.limits import WINDOW_S, RateLimits


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_no_limits_admit_all() -> None:
    limits = RateLimits()
    assert limits.admit(10**9, 0) is None
    assert limits.levels() == []


def test_refusal_says_when_there_is_room(clock: Clock) -> None:
    limits = RateLimits(requests_per_minute=2, clock=clock)
    assert limits.admit(1, 0) is None
    clock.now += 10
    assert limits.admit(1, 0) is None
    refused = limits.admit(1, 0)
    assert refused is not None
    assert (refused.unit, refused.used, refused.remaining) == ("requests", 2, 0)
    assert refused.wait_s == pytest.approx(WINDOW_S - 10)
    clock.now += refused.wait_s
    assert limits.admit(1, 0) is None


def test_refused_request_uses_nothing_up(clock: Clock) -> None:
    limits = RateLimits(requests_per_minute=10, tokens_per_minute=100, clock=clock)
    assert limits.admit(90, 0) is None
    refused = limits.admit(20, 0)
    assert refused is not None
    assert refused.unit == "tokens"
    assert [level.used for level in limits.levels()] == [1, 90]


def test_input_and_output_have_limits_of_their_own(clock: Clock) -> None:
    limits = RateLimits(input_tokens_per_minute=50, output_tokens_per_minute=60, clock=clock)
    assert limits.admit(40, 50) is None
    broken = [limits.admit(*amounts) for amounts in ((20, 0), (0, 20), (10, 10))]
    assert [level and level.unit for level in broken] == ["input tokens", "output tokens", None]
    assert [level.remaining for level in limits.levels()] == [0, 0]


def test_more_than_the_limit_never_fits(clock: Clock) -> None:
    refused = RateLimits(tokens_per_minute=100, clock=clock).admit(101, 0)
    assert refused is not None
    assert refused.wait_s == WINDOW_S


def test_no_window_of_sixty_seconds_holds_more(clock: Clock) -> None:
    limits = RateLimits(requests_per_minute=50, tokens_per_minute=1000, clock=clock)
    luck = random.Random(0)
    admitted: list[tuple[float, int]] = []
    for _ in range(5000):
        clock.now += luck.expovariate(2.0)
        tokens = luck.randint(1, 60)
        if limits.admit(tokens, 0) is None:
            admitted.append((clock.now, tokens))
    for start, _ in admitted:
        window = [tokens for at, tokens in admitted if start <= at < start + WINDOW_S]
        assert len(window) <= 50
        assert sum(window) <= 1000
