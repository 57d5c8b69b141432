"""The circuit breaker for outages (Nygard, "Release It!", 2007, "Circuit Breaker").

While the circuit is open, all calls wait except one, which is retried at growing intervals. An
outage therefore uses up few tries. After ``outage_s`` seconds, the run ends and can be resumed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass

from harness.calls.signals import Ask, CircuitOpen, Report
from harness.errors import CallError, FailureKind, FatalCallError, TransientError
from harness.records import Origin, Reply, Request

FAILURES_IN_A_ROW = (3, 10)
"""Bounds on the number of consecutive failures, over all calls, that open the circuit.

The number itself is one less than the maximum tries of a call, if that is within the bounds. No
call then uses up its tries because of an outage.
"""
REFUSALS_IN_A_ROW = 5  # number of consecutive 429 responses that open the circuit
FIRST_CONTACT_S = 3.0  # limit if the provider never responded: a wrong address fails quickly
LONGEST_STEP_S = 30.0  # between retries during an outage, unless the provider asks for more
PROVIDER_WIDE: frozenset[FailureKind] = frozenset({"unreachable", "connection_lost", "overloaded"})
"""Failures that cannot be the fault of a single call."""
NEVER_REACHED: frozenset[FailureKind] = frozenset({"unreachable", "malformed"})
"""Failures that a wrong address may cause. They do not prove that the provider was reached."""


@dataclass(eq=False)
class Circuit:
    """The circuit breaker: passes calls on while the provider responds.

    It opens after several failures in a row, if possible before a call has used all of its
    ``tries``. It then passes one request to ``opened``, and retries it for up to ``outage_s``
    seconds (`FIRST_CONTACT_S` if the provider has never responded). Until the circuit calls
    ``restored``, the layers below must raise `CircuitOpen` in all other waiting calls.
    """

    ask: Ask
    _: KW_ONLY
    tries: int
    outage_s: float
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    status: Report = lambda _: None
    opened: Callable[[Request], None] = lambda _: None
    restored: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    program: bool = False  # whether the backend is a program with no server, which may hang

    def __post_init__(self) -> None:
        fewest, most = FAILURES_IN_A_ROW
        self._most_failures = max(fewest, min(most, self.tries - 1))
        self._reached = False
        self._forget()
        self._closed: asyncio.Future[None] | None = None
        """Completes when the circuit closes again. None while the circuit is closed."""
        self._given_up: FatalCallError | None = None  # once an outage has lasted too long

    async def __call__(self, request: Request) -> Reply:
        """Send the request as soon as the circuit is closed, and return the reply.

        Raises:
            FatalCallError: If the provider is down for longer than ``outage_s`` seconds, or has
                never responded.
            CallError: If the call fails otherwise.
        """
        while True:
            while self._closed is not None:
                await asyncio.shield(self._closed)
                await self.sleep(0)  # the run may be stopping
            if self._given_up is not None:  # the first error has not yet ended the run
                raise FatalCallError(self._given_up.message, self._given_up.remedy)
            try:
                return await self._counted(request)
            except CircuitOpen:
                continue
            except TransientError as error:
                if self._closed is not None or self._given_up is not None:
                    continue  # failures during a known outage do not count as tries
                if not self._opens(request, error):
                    raise
                return await self._outlast(request, error)

    async def _counted(self, request: Request) -> Reply:
        """Send the request once. A reply or a rejection ends the row of failures."""
        try:
            reply = await self.ask(request)
        except TransientError as error:
            hangs = self.program and error.kind == "timed_out"
            self._reached = self._reached or not (hangs or error.kind in NEVER_REACHED)
            raise
        except CallError:
            self._reached = True
            self._forget()
            raise
        self._reached = True
        self._forget()
        return reply

    def _forget(self) -> None:
        self._failures = self._refusals = 0
        self._failing: Origin | None = None
        self._counted_error: TransientError | None = None
        self._several = False

    def _opens(self, request: Request, error: TransientError) -> bool:
        """Count a failed try, once per exception, and return whether it opens the circuit."""
        if error is self._counted_error:
            return False
        self._counted_error = error
        # If only one call fails, its own prompt may be the cause (it may crash the server): the
        # call is then abandoned like any other, and the run continues.
        self._several = self._several or self._failing not in (None, request.origin)
        self._failing = request.origin
        if error.kind == "rate_limited":
            self._failures, self._refusals = 0, self._refusals + 1
            return self._several and self._refusals >= REFUSALS_IN_A_ROW
        self._failures, self._refusals = self._failures + 1, 0
        provider_wide = error.kind in PROVIDER_WIDE
        return (self._several or provider_wide) and self._failures >= self._most_failures

    async def _outlast(self, request: Request, error: TransientError) -> Reply:
        """Open the circuit until a retry of the request is answered or rejected, or time is up."""
        self._closed = asyncio.get_running_loop().create_future()
        self.opened(request)
        began, step = self.clock(), 0.5
        try:
            while True:
                wait = max(step, error.retry_after or 0.0)
                gone = self.clock() - began
                if gone + wait > (self.outage_s if self._reached else FIRST_CONTACT_S):
                    self._given_up = _down(error, gone, wait)
                    raise self._given_up from error
                then = time.strftime("%H:%M:%S", time.localtime(time.time() + wait))
                self.status(f"paused until {then}: {error.message}")
                await self.sleep(wait)
                step = min(2 * step, LONGEST_STEP_S)
                try:
                    return await self._counted(request)
                except TransientError as again:
                    error = again
        finally:
            self.status("")
            self._forget()
            self.restored()
            self._closed.set_result(None)
            self._closed = None


def _down(error: TransientError, gone: float, wait: float) -> FatalCallError:
    problem = f"All calls have failed for {gone:.0f} s"
    if error.kind == "rate_limited":
        asks = f", and asks to wait {wait:.0f} s more" if error.retry_after else ""
        problem = f"The provider has accepted no call for {gone:.0f} s{asks}"
    return FatalCallError(
        f"{problem}. Last error: {error.message}",
        f"{error.remedy} All answers so far are saved: run again once calls succeed; "
        "limits.outage_s sets how long a run waits for that.".strip(),
    )
