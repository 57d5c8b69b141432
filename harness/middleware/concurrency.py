"""The lowest part of the call stack: so many calls at once, each measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from msgspec.structs import replace

from harness.errors import TimedOut
from harness.middleware.stopping import Stop, Stopping
from harness.ports import Backend
from harness.records import Reply, Request, encodable


class Concurrency:
    """Asks the backend, with at most ``most`` calls in flight.

    Queueing and backoff happen above, so that a waiting call holds no slot,
    and the latency is that of the provider alone.

    timeout_s: seconds until a call is given up.
    """

    def __init__(
        self,
        backend: Backend,
        stop: Stop,
        *,
        most: int,
        timeout_s: float,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._backend = backend
        self._stop = stop
        self._slots = asyncio.Semaphore(most)
        self._timeout_s = timeout_s
        self._clock = clock

    async def __call__(self, request: Request) -> Reply:
        """The backend's reply, with its latency.

        Raises: what the backend raises; TimedOut; Stopping instead of beginning a call.
        """
        async with self._slots:
            if self._stop.requested:
                raise Stopping
            started = self._clock()
            try:
                async with asyncio.timeout(self._timeout_s):
                    reply = await self._backend.generate(request)
            except TimeoutError:
                raise TimedOut(
                    f"No complete answer within {self._timeout_s:g} s.",
                    "Raise limits.timeout_s if the model is slow.",
                ) from None
            return replace(
                reply,
                text=encodable(reply.text),
                reasoning=reply.reasoning and encodable(reply.reasoning),
                latency_s=self._clock() - started,
            )
