"""What OpenAI tells beside a body."""

import pytest

from harness.mock.openai import OpenAIChat
from harness.mock.wire import Level, Unit


def level(unit: Unit, reset_s: float) -> Level:
    return Level(unit, limit=100, used=40, wanted=0, wait_s=0.0, reset_s=reset_s)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0s"),
        (0.0001, "1ms"),
        (0.02, "20ms"),
        (1, "1s"),
        (1.5, "1.5s"),
        (59.9989, "59.999s"),
        (59.9999, "1m0s"),
        (360, "6m0s"),
        (75.25, "1m15.25s"),
    ],
)
def test_resets_are_durations(seconds: float, told: str) -> None:
    headers = dict(OpenAIChat().headers("req", [level("requests", seconds)]))
    assert headers[b"x-ratelimit-reset-requests"] == told.encode()


def test_limits_are_told_by_their_names() -> None:
    levels = [level("requests", 1), level("tokens", 0), level("input tokens", 0)]
    assert OpenAIChat().headers("req", levels) == [
        (b"x-request-id", b"req"),
        (b"x-ratelimit-limit-requests", b"100"),
        (b"x-ratelimit-remaining-requests", b"60"),
        (b"x-ratelimit-reset-requests", b"1s"),
        (b"x-ratelimit-limit-tokens", b"100"),
        (b"x-ratelimit-remaining-tokens", b"60"),
        (b"x-ratelimit-reset-tokens", b"0s"),
    ]


def test_waiting_is_told_in_seconds_and_milliseconds() -> None:
    headers = dict(OpenAIChat().headers("req", [], retry_after=5.6215))
    assert (headers[b"retry-after"], headers[b"retry-after-ms"]) == (b"6", b"5622")
    assert list(dict(OpenAIChat().headers("req", []))) == [b"x-request-id"]


def test_a_limit_says_when_to_come_again() -> None:
    problem = OpenAIChat().rate_limited("m", level("tokens", 1), 0.02)
    assert "(TPM): Limit 100, Used 40, Requested 0. Please try again in 20ms." in str(
        problem.error["message"]
    )
