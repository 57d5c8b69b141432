"""Retries, the only layer that makes them: the SDKs' own are off.

Full-jitter exponential backoff (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
2015), on top of the retry-after that a provider asks for.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass

from harness.calls.calls import Ask
from harness.errors import TransientError
from harness.records import Reply, Request

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
TOTAL_S = 1800.0
"""Seconds after a call's first failure within which its last try begins."""


@dataclass(eq=False)
class Retry:
    """Tries a call again after a transient failure.

    Args:
        total_s: Seconds after its first failure within which a call is tried again.
        sleep: Waits between tries.
    """

    ask: Ask
    _: KW_ONLY
    attempts: int
    total_s: float = TOTAL_S
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def __call__(self, request: Request) -> Reply:
        """Ask until there is a reply or no further try is due; then raise the last error."""
        tries, longest, end = 0, FIRST_WAIT_S, float("inf")
        while True:
            try:
                return await self.ask(request)
            except TransientError as error:
                tries += 1
                now = time.monotonic()
                end = min(end, now + self.total_s)
                wait = random.uniform(0, longest) + (error.retry_after or 0.0)
                if tries >= self.attempts or now + wait >= end:
                    raise
            await self.sleep(wait)
            longest = min(2 * longest, LONGEST_WAIT_S)
