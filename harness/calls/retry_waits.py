"""The waits that providers ask for before a call is retried (the header ``Retry-After``)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from weakref import WeakKeyDictionary

from harness.calls.signals import Ask, Report
from harness.errors import AccessDenied, TransientError, time_after
from harness.records import Reply, Request

NOTICE_S = 5.0  # longest wait that is not reported
SHORTEST_S = 30.0  # a wait up to this is always accepted


@dataclass(eq=False)
class RetryWaits:
    """The layer below the circuit that limits the waits for retries, and reports long ones.

    Args:
        ask: The layer below.
        longest_s: The longest wait in seconds, if it is more than `SHORTEST_S`. If a provider asks
            for more, it denies access: the call is not retried.
        wait: Waits for a number of seconds.
        status: Receives what is waited for, and until when.
        paused: Called with the Unix time at which a long wait ends.
    """

    ask: Ask
    _: KW_ONLY
    longest_s: float
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep
    status: Report = lambda _: None
    paused: Callable[[float], None] = lambda _: None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._errors = WeakKeyDictionary[asyncio.Task[object], TransientError]()
        """The last failure of each task, until the task waits."""
        self._reported_until = 0.0

    async def __call__(self, request: Request) -> Reply:
        """Send the request once, and return the reply.

        Raises:
            AccessDenied: If the provider asks to wait for too long.
            CallError: If the call fails otherwise.
        """
        try:
            return await self.ask(request)
        except TransientError as error:
            seconds = error.retry_after or 0.0
            if seconds > max(self.longest_s, SHORTEST_S):
                then = time_after(seconds)
                problem = f"{error.message} It asks to wait until {then}."
                denied = AccessDenied(
                    problem, "Run again then; limits.outage_s is the longest wait in seconds."
                )
                denied.shared = error.shared
                raise denied from error
            if (task := asyncio.current_task()) is not None:
                self._errors[task] = error
            raise

    async def sleep(self, seconds: float) -> None:
        """Wait before the next try. If a call of this task has failed, report a long wait."""
        task = asyncio.current_task()
        error = self._errors.pop(task, None) if task is not None else None
        ends = self.clock() + seconds
        if seconds > NOTICE_S:
            self.paused(ends)
        if error is not None and seconds > NOTICE_S and ends > self._reported_until + NOTICE_S:
            self._reported_until = ends
            self.status(f"waiting until {time_after(seconds)} to retry: {error.message}")
        await self.wait(seconds)
        if ends == self._reported_until:
            self.status("")
