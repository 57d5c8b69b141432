"""The time limit of a call to the backend, which excludes pauses of the process.

While the process is suspended (Ctrl-Z, ``docker pause``), the clock continues. When the process
resumes, its calls may be overdue, but the paid replies are waiting in the sockets.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from harness.calls.signals import Ask
from harness.errors import CallError, PromptRefused, TransientError
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
    """A context manager that raises TimeoutError after a number of seconds or, if None, never.

    It also does so when `expire` is called. Data that has already arrived is read first. The task
    is cancelled in the same way as by `asyncio.timeout`, so the two may be nested.
    """

    __slots__ = ("_cancelling", "_due", "_expired", "_passes", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._timer: asyncio.Handle | None = None
        self._passes = PASSES
        self._expired = False

    async def __aenter__(self) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        if self._seconds is not None:
            self._due = loop.time() + self._seconds
            self._timer = loop.call_at(self._due, self._check, self._seconds)

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._expired:
            ours = self._task.uncancel() <= self._cancelling
            if ours and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _check(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._due > LATE_S:
            self._due = now + min(seconds, GRACE_S)
            self._timer = loop.call_at(self._due, self._check, seconds)
        else:
            self.expire()

    def expire(self) -> None:
        """Cancel the task now, after data that has arrived is read."""
        if self._timer is not None:
            self._timer.cancel()
        if self._passes:
            self._passes -= 1
            self._timer = asyncio.get_running_loop().call_soon(self.expire)
        else:
            self._expired = True
            self._task.cancel()
