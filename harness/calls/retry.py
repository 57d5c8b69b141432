"""Retries of failed calls. No other layer retries, and the SDKs' own retries are off.

The pause is tenacity's exponential backoff with full jitter (Brooker, "Exponential Backoff And
Jitter", AWS Architecture Blog, 2015) plus the retry-after that the provider requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import tenacity

from harness.calls.calls import Ask
from harness.errors import TransientError
from harness.records import Reply, Request

TOTAL_S = 1800.0
"""A call's last try starts within this many seconds of its first failure."""

_backoff = tenacity.wait_random_exponential(multiplier=0.5, max=60)


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, TransientError) else None
    return _backoff(state) + (asked or 0.0)


class Retry:
    """Retries a call after transient failures: up to ``attempts`` tries in ``total_s`` seconds."""

    def __init__(
        self,
        ask: Ask,
        *,
        attempts: int,
        total_s: float = TOTAL_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ask = ask
        self._retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(TransientError),
            wait=_wait,
            stop=tenacity.stop_after_attempt(attempts) | tenacity.stop_before_delay(total_s),
            sleep=sleep,
            reraise=True,
        )

    async def __call__(self, request: Request) -> Reply:
        """Return the reply of the first try that succeeds; if none does, raise the last error."""
        try:
            return await self._ask(request)
        except TransientError as error:
            first = [error]

        async def ask() -> Reply:
            if first:
                raise first.pop()
            return await self._ask(request)

        # Tenacity costs as much as the rest of the stack together, so only failed calls go
        # through it. A copy, since it keeps a call's state in the object.
        reply: Reply = await self._retrying.copy()(ask)
        return reply
