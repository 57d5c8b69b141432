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

from harness.errors import (
    ConnectionFailed,
    ProviderDown,
    RequestRejected,
    TransientError,
)
from harness.middleware.calls import Ask
from harness.records import Reply, Request

FIRST_CONTACT_TRIES = 3
"""Tries to reach a provider that has never answered: a wrong address shows at once."""

FAILURES_IN_A_ROW = 50
"""So many calls failing one after the other, retries and all, end the run."""
FIRST_FAILURES = 10
"""So many do where no call was answered before: an outage shows soon."""

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
        self._answered = False
        self._failed_in_a_row = 0
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

        Raises: the last error; ProviderDown where the provider was never
            reached, or fails continually.
        """
        try:
            # A copy per call: tenacity keeps the state of a call in the object.
            reply: Reply = await self._retrying.copy()(self._ask, request)
        except RequestRejected:  # an answer, if not a welcome one: the provider is well
            self._reached = self._answered = True
            self._failed_in_a_row = 0
            raise
        except TransientError as error:
            if isinstance(error, ConnectionFailed) and not self._reached:
                raise ProviderDown(error.message, error.remedy) from error
            self._count_failure(error)
            raise
        self._reached = self._answered = True
        self._failed_in_a_row = 0
        return reply

    def _count_failure(self, error: TransientError) -> None:
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= (FAILURES_IN_A_ROW if self._answered else FIRST_FAILURES):
            raise ProviderDown(
                f"{self._failed_in_a_row} calls in a row have failed, at last: {error.message}",
                "What was answered is kept; run again when the provider is well.",
            ) from error
