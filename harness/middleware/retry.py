"""Retries: the one owner of them (the vendors' own are off).

Full-jitter exponential backoff (Brooker, "Exponential Backoff And Jitter",
AWS Architecture Blog, 2015) by tenacity, on top of the retry-after that a
provider asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

from harness.errors import ConnectionFailed, ProviderDown, TransientError
from harness.middleware.calls import Ask
from harness.records import Reply, Request

FIRST_CONTACT_TRIES = 3
"""Tries to reach a provider that has never answered: a wrong address shows at once."""

_backoff = wait_random_exponential(multiplier=0.5, max=60)


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, TransientError) else None
    return _backoff(state) + (asked or 0.0)


class Retry:
    """Tries a call again after a transient failure.

    ask: the stack below.
    attempts: most tries of one call.
    total_s: seconds after which no further try is begun.
    sleep: waits between tries.
    """

    def __init__(
        self,
        ask: Ask,
        *,
        attempts: int,
        total_s: float = 1800.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ask = ask
        self._reached = False
        self._usual_end = stop_after_attempt(attempts) | stop_after_delay(total_s)
        self._retrying = AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            wait=_wait,
            stop=self._ends,
            sleep=sleep,
            reraise=True,
        )

    def _ends(self, state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, ConnectionFailed) and not self._reached:
            return state.attempt_number >= FIRST_CONTACT_TRIES
        self._reached = self._reached or not isinstance(error, ConnectionFailed)
        return self._usual_end(state)

    async def __call__(self, request: Request) -> Reply:
        """Ask until there is a reply or no further try is due.

        Raises: the last error; ProviderDown where the provider never answered anything.
        """
        try:
            # A copy per call: tenacity keeps the state of a call in the object.
            reply: Reply = await self._retrying.copy()(self._ask, request)
        except ConnectionFailed as error:
            if self._reached:
                raise
            raise ProviderDown(error.message, error.remedy) from error
        self._reached = True
        return reply
