"""What a provider asks to wait before a call is retried: how long it may be, and what is said."""

from __future__ import annotations

import re

import pytest

from harness.calls.circuit import Circuit, RetryWaits
from harness.errors import AccessDenied, CallError, TransientError
from harness.records import Decoding, Message, Origin, Reply, Request
from tests.conftest import Scripted


def request(number: int) -> Request:
    messages = (Message("user", f"What is {number} + 1?"),)
    return Request("m", messages, Decoding(), 0, Origin(f"sum/{number}", 0, 1))


class Setting:
    """A circuit over a provider that asks to wait before it answers some prompts."""

    def __init__(self, seconds: float, *numbers: int, outage_s: float = 600.0) -> None:
        self.slow = {request(number).messages for number in numbers}
        self.seconds = seconds
        self.statuses: list[str] = []
        self.paused: list[float] = []
        self.now = 1000.0
        self.backend = Scripted(self._answer)
        waits = RetryWaits(
            self.backend.generate,
            max_wait_s=outage_s,
            pause=self._wait,
            status=self.statuses.append,
            on_long_wait=self.paused.append,
            clock=lambda: self.now,
        )
        self.call = Circuit(waits, waits, max_tries=3, outage_s=outage_s, sleep=waits.sleep)

    async def _wait(self, seconds: float) -> None:
        self.now += seconds

    def _answer(self, sent: Request) -> str | Exception:
        if sent.messages in self.slow and self.now < 1000.0 + self.seconds:
            return TransientError("429", kind="rate_limited", retry_after=self.seconds)
        return "2"


async def test_a_long_wait_is_reported_with_its_end() -> None:
    setting = Setting(50.0, 1)
    assert isinstance(await setting.call(request(1)), Reply)
    waiting, cleared = setting.statuses
    assert re.fullmatch(r"waiting until [-\d: ]+ to retry: 429", waiting)
    assert cleared == ""
    (end,) = setting.paused
    assert 1050 <= end <= 1051


async def test_a_short_wait_is_not_reported() -> None:
    setting = Setting(3.0, 1)
    assert isinstance(await setting.call(request(1)), Reply)
    assert not setting.statuses
    assert not setting.paused


@pytest.mark.parametrize("outage_s", [0.0, 40.0])
async def test_a_wait_within_the_patience_is_accepted(outage_s: float) -> None:
    setting = Setting(25.0, 1, outage_s=outage_s)
    await setting.call(request(0))
    assert isinstance(await setting.call(request(1)), Reply)


async def test_a_wait_beyond_the_patience_is_an_error_of_one_call() -> None:
    setting = Setting(86_400.0, 1)
    await setting.call(request(0))
    with pytest.raises(CallError, match=r"429 It asks to wait until \d{4}-\d\d-\d\d") as raised:
        await setting.call(request(1))
    assert not isinstance(raised.value, AccessDenied)
    assert setting.now == 1000, "nothing is waited for"
    assert isinstance(await setting.call(request(2)), Reply)


async def test_a_wait_beyond_the_patience_for_every_call_ends_the_run() -> None:
    setting = Setting(86_400.0)
    setting.backend.answer = lambda _: TransientError("429", retry_after=86_400.0)
    with pytest.raises(AccessDenied, match="It asks to wait until") as raised:
        await setting.call(request(1))
    assert "limits.outage_s" in raised.value.remedy
    assert setting.now == 1000
