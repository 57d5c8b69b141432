"""Retries of failed calls.

Outside batches, the circuit breaker is the only other layer that retries (during an outage). The
SDKs' own retries are off.
"""

import asyncio
from collections.abc import Awaitable, Callable

import tenacity

from harness.calls.signals import Ask
from harness.errors import TransientError
from harness.records import Reply, Request

RETRYING_S = 1800.0  # A call's last try starts within this many seconds of its first failure

_backoff = tenacity.wait_random_exponential(multiplier=0.5, max=60)
"""Exponential backoff with full jitter (Brooker, "Exponential Backoff And Jitter", AWS, 2015)."""


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, TransientError) else None
    return _backoff(state) + (asked or 0.0)


class Retry:
    """The layer that retries a call after transient failures, with exponential backoff.

    Args:
        ask: The layer below.
        tries: Maximum number of tries.
        total_s: No further try starts more than this many seconds after the first failure.
        sleep: Sleeps for a number of seconds.
    """

    def __init__(
        self,
        ask: Ask,
        *,
        tries: int,
        total_s: float = RETRYING_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ask = ask
        self._retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(TransientError),
            wait=_wait,
            stop=tenacity.stop_after_attempt(tries) | tenacity.stop_before_delay(total_s),
            sleep=sleep,
            reraise=True,
        )

    async def __call__(self, request: Request) -> Reply:
        """Return the reply of the first successful try, or raise the last error."""
        try:
            return await self._ask(request)
        except TransientError as error:
            first = [error]

        async def ask() -> Reply:
            if first:
                raise first.pop()
            return await self._ask(request)

        # Tenacity costs as much as the rest of the stack together, so only failed calls go
        # through it. A copy, since a Tenacity object keeps a call's state.
        reply: Reply = await self._retrying.copy()(ask)
        return reply
