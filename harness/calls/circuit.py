"""A circuit breaker: a provider that fails continually is left alone, and tried now and then.

While the circuit is open all calls wait, but for one that goes on trying in
ever longer steps. Nobody's tries are used up by an outage, and nobody
hammers a provider that is down. After a time the run ends, resumable.
(Nygard, "Release It!", 2007, "Circuit Breaker".)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from harness.calls.calls import Ask
from harness.calls.notices import Tell
from harness.calls.stopping import TurnedBack
from harness.errors import (
    CallError,
    ConnectionFailed,
    ConnectionLost,
    FatalCallError,
    MalformedReply,
    Overloaded,
    ProviderDown,
    RateLimited,
    TransientError,
)
from harness.records import Origin, Reply, Request

FAILURES_IN_A_ROW = (3, 10)
"""So many tries that fail one after the other, of whichever calls, open the circuit: as
many as a call has, less one, so that none is given up, within these bounds."""
REFUSALS_IN_A_ROW = 5
"""So many 429s do: the provider lets nobody in for now."""
FIRST_CONTACT_S = 3.0
"""How long to try a provider that was never reached: a wrong address shows soon."""
LONGEST_STEP_S = 30.0
UNSENT = (ConnectionFailed, Overloaded)
"""What is no single call's fault."""
UNREACHED = (ConnectionFailed, MalformedReply)
"""What a wrong address may look like."""


class Circuit:
    """Lets calls through while the provider is well.

    ask: the stack below.
    attempts: how often a call is tried: the circuit opens before one is given up.
    outage_s: seconds after which the run ends.
    sleep: waits between tries; may end the wait by raising `Stopping`.
    tell: is told when the provider is away and when it is back.
    opened: is called with the one request that goes on trying: the others are to
        be sent back (`TurnedBack`), wherever below they wait.
    restored: is called when it is back.
    """

    def __init__(
        self,
        ask: Ask,
        *,
        attempts: int,
        outage_s: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        tell: Tell = lambda _: None,
        opened: Callable[[Request], None] = lambda _: None,
        restored: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        fewest, most = FAILURES_IN_A_ROW
        self._most_failures = max(fewest, min(most, attempts - 1))
        self._outage_s = outage_s
        self._sleep = sleep
        self._tell = tell
        self._opened = opened
        self._restored = restored
        self._clock = clock
        self._reached = False
        self._forget()
        self._closed: asyncio.Future[None] | None = None
        """While the circuit is open: done when the call that goes on trying has ended."""

    async def __call__(self, request: Request) -> Reply:
        """Ask, or wait until the provider is well again.

        Raises: what the stack below raises; ProviderDown.
        """
        while True:
            while self._closed is not None:
                await asyncio.shield(self._closed)
                await self._sleep(0)  # the run may be stopping
            try:
                return await self._counted(request)
            except TurnedBack:
                continue
            except TransientError as error:
                if self._closed is not None:
                    continue  # it failed in an outage that is known: no try of its own
                if not self._opens(request, error):
                    raise
                return await self._outlast(request, error)

    async def _counted(self, request: Request) -> Reply:
        """Ask once; any answer, welcome or not, shows that the provider is well."""
        try:
            reply = await self._ask(request)
        except TransientError as error:
            if isinstance(error, ConnectionLost) or not isinstance(error, UNREACHED):
                self._reached = True
            raise
        except CallError:
            self._well()
            raise
        self._well()
        return reply

    def _well(self) -> None:
        self._reached = True
        self._forget()

    def _forget(self) -> None:
        """No failure stands against the provider."""
        self._failures = self._refusals = 0
        self._failing: Origin | None = None
        self._several = False

    def _opens(self, request: Request, error: TransientError) -> bool:
        """Count a failed try; whether it is one too many.

        What only one call meets may be that call's own fault (a prompt that the
        server always fails at): it is given up like any, and ends no run.
        """
        self._several = self._several or self._failing not in (None, request.origin)
        self._failing = request.origin
        if isinstance(error, RateLimited):
            self._failures, self._refusals = 0, self._refusals + 1
            return self._several and self._refusals >= REFUSALS_IN_A_ROW
        self._failures, self._refusals = self._failures + 1, 0
        nobodys_fault = isinstance(error, UNSENT)
        return (self._several or nobodys_fault) and self._failures >= self._most_failures

    async def _outlast(self, request: Request, error: TransientError) -> Reply:
        """Open the circuit and go on trying with one call until it is answered."""
        self._closed = asyncio.get_running_loop().create_future()
        self._opened(request)
        began, step = self._clock(), 0.5
        try:
            while True:
                wait = max(step, error.retry_after or 0.0)
                gone = self._clock() - began
                if gone + wait > (self._outage_s if self._reached else FIRST_CONTACT_S):
                    raise _down(error, gone, wait) from error
                then = time.strftime("%H:%M:%S", time.localtime(time.time() + wait))
                self._tell(f"paused until {then}: {error.message}")
                await self._sleep(wait)
                step = min(2 * step, LONGEST_STEP_S)
                try:
                    return await self._counted(request)
                except TransientError as again:
                    error = again
        finally:
            self._tell("")
            self._forget()
            self._restored()
            self._closed.set_result(None)
            self._closed = None


def _down(error: TransientError, gone: float, wait: float) -> FatalCallError:
    if isinstance(error, RateLimited):
        problem = f"The provider has let no call in for {gone:.0f} s"
        if error.retry_after:
            problem += f", and asks to wait {wait:.0f} s more"
    else:
        problem = f"All calls have failed for {gone:.0f} s"
    return ProviderDown(
        f"{problem}. At last: {error.message}",
        f"{error.remedy} What was answered is kept: run again when the provider is well; "
        "limits.outage_s says how long a run waits for it.".strip(),
    )
