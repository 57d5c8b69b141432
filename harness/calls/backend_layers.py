"""The layers around a backend: its start, and the time limit of a call, which excludes pauses.

While the process is suspended (Ctrl-Z, ``docker pause``), the clock continues. When the process
resumes, its calls may be overdue, but the paid replies are waiting in the sockets.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from harness.calls.signals import Ask, Report, Stop, Stopping
from harness.errors import CallError, PromptRefused, TransientError
from harness.ports import Backend
from harness.records import Reply, Request, Usage, encodable

LATE_S = 0.1  # if the timer fires more than this many seconds late, the process has been paused
GRACE_S = 10.0
"""Seconds that calls get after a pause, to read the replies that arrived during the pause.

If the time limit is shorter, they get as many seconds as the limit.
"""
PASSES = 10
"""How many turns of the event loop a late task gets before it is cancelled.

In each turn, the loop reads data that has arrived at the sockets.
"""


def timed_out(seconds: float) -> CallError:
    """Return the error of a call to a provider that takes too long. The call is retried."""
    return TransientError(
        f"No complete answer within {seconds:g} s.",
        "Raise limits.timeout_s if the model is slow.",
        kind="timed_out",
    )


@dataclass(eq=False)
class Timed:
    """The layer that waits for the backend for at most ``timeout_s`` seconds.

    ``hung`` returns the error of a call that takes longer, given the limit.
    """

    ask: Ask
    timeout_s: float
    hung: Callable[[float], CallError] = timed_out
    clock: Callable[[], float] = time.perf_counter

    async def __call__(self, request: Request) -> Reply:
        """Return the backend's reply with the call's latency. A refused prompt counts as a reply.

        Raises:
            CallError: If the call fails, or takes longer than ``timeout_s`` seconds.
        """
        sent = self.clock()
        try:
            async with TimeLimit(self.timeout_s):
                reply = await self.ask(request)
        except TimeoutError:
            failure = self.hung(self.timeout_s)
            failure.latency_s = max(self.timeout_s, self.clock() - sent)
            raise failure from None
        except PromptRefused as error:  # an answer, always the same: cached like any other
            reply = Reply(error.message, "content_filter", Usage())
        except CallError as failure:
            failure.latency_s = self.clock() - sent
            raise
        latency_s = self.clock() - sent

        def finished(reply: Reply) -> Reply:
            text, reasoning = encodable(reply.text), reply.reasoning and encodable(reply.reasoning)
            return replace(reply, text=text, reasoning=reasoning, latency_s=latency_s)

        if not reply.others:
            return finished(reply)
        others = {number: finished(other) for number, other in reply.others.items()}
        return replace(finished(reply), others=others)


class TimeLimit:
    """A context manager like `asyncio.timeout` whose time excludes pauses of the process.

    It raises TimeoutError after a number of seconds (None: never), or once `expire` is called. Data
    that has already arrived is read first.
    """

    __slots__ = ("_due", "_passes", "_seconds", "_timeout", "_timer")

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._passes = PASSES
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.Handle | None = None

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        if self._seconds is not None:
            self._wait(self._seconds)

    async def __aexit__(self, *error: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(*error)

    def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + seconds
        self._timer = loop.call_at(self._due, self._check, seconds)

    def _check(self, seconds: float) -> None:
        if asyncio.get_running_loop().time() - self._due > LATE_S:
            self._wait(min(seconds, GRACE_S))
        else:
            self.expire()

    def expire(self) -> None:
        """Cancel the task now, after data that has arrived is read."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        if self._passes:
            self._passes -= 1
            self._timer = loop.call_soon(self.expire)
        elif not self._timeout.expired():
            self._timeout.reschedule(loop.time())


@dataclass(eq=False)
class Startup:
    """The layer that starts a backend such as a local server.

    Calls wait until the backend is ready or the run stops. As loading a large model takes minutes,
    this layer is above the limiter, below which calls have a time limit. It is below the circuit so
    that waiting uses up no tries.
    """

    ask: Ask
    backend: Backend
    stop: Stop
    status: Report

    def __post_init__(self) -> None:
        self._going: asyncio.Task[None] | None = None
        self.stop.on_stop(self._cancel)

    async def __call__(self, request: Request) -> Reply:
        """Send the request once the backend is ready, and return the reply.

        Raises:
            Stopping: If the run stops first.
            CallError: If the backend cannot be started, or the call fails.
        """
        if not self.backend.ready:
            if self.stop.requested:
                raise Stopping
            if self._going is None or self._going.done():
                self._going = asyncio.create_task(self._start())
            going = self._going  # the one startup that all calls share
            await asyncio.wait({going})
            if going.cancelled():
                raise Stopping
            await going
        return await self.ask(request)

    def _cancel(self) -> None:
        if self._going is not None:
            self._going.cancel()

    async def _start(self) -> None:
        try:
            await self.backend.start(self.status)
        finally:
            self.status("")
