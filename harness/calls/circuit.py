"""The circuit breaker for outages (Nygard, "Release It!", 2007, "Circuit Breaker").

A provider is down only if no call succeeds. While the circuit is open, all calls wait except one,
and after each pause the turn passes to another call: a prompt that always fails does not speak for
its provider. Failures during an outage use up no tries. Any success closes the circuit. After
``outage_s`` seconds without one, the run ends and can be resumed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field

from harness.calls.signals import Ask, CircuitOpen, Report, Stopping
from harness.errors import (
    AccessDenied,
    CallError,
    FailureKind,
    FatalCallError,
    RequestRejected,
    TransientError,
)
from harness.records import Reply, Request

FAILURES_IN_A_ROW = (3, 10)
"""Bounds on the number of consecutive failures, over all calls, that open the circuit.

The number itself is one less than the maximum tries of a call, if that is within the bounds. No
call then uses up its tries because of an outage.
"""
FEW = 0.25
"""Maximum share (0 to 1) of a run's calls that may fail because of their prompts alone."""
KEY_REJECTIONS = 2  # number of calls in a row, whose key is rejected (401), that end the run
DENIALS = 25  # minimum number of calls in a row, denied in other ways (403, 404), that end the run
FIRST_CONTACT_S = 3.0  # limit if the provider never responded: a wrong address fails quickly
FIRST_STEP_S = 0.5  # between the first tries during an outage
LONGEST_STEP_S = 30.0  # between tries during an outage, unless the provider asks for more
GROWTH = 2.0  # of the steps, from one try to the next
GROWTH_UNTRIED = 1.1
"""Growth of the steps while there are calls that have not failed yet.

Within ten minutes, about fifty prompts are tried. A run may begin with some that always fail.
"""
PROVIDER_WIDE: frozenset[FailureKind] = frozenset({"unreachable", "connection_lost", "overloaded"})
"""Failures that are hardly ever the fault of a single call."""
NEVER_REACHED: frozenset[FailureKind] = frozenset({"unreachable", "malformed"})
"""Failures that a wrong address may cause. They do not prove that the provider was reached."""


@dataclass(eq=False)
class _Outage:
    """An open circuit: when it opened, the last failure, and the calls that wait.

    The future of a waiting call completes when it is the call's turn, or when the circuit closes.
    """

    began: float
    error: CallError
    step: float = FIRST_STEP_S
    waiting: dict[asyncio.Future[None], Request] = field(default_factory=dict)
    tried: asyncio.Event = field(default_factory=asyncio.Event)  # set when a turn has ended


@dataclass(eq=False)
class Circuit:
    """The circuit breaker: passes calls on while the provider responds.

    It opens after several failures in a row, if possible before a call has used all of its
    ``tries``. It then passes one request at a time to ``opened`` and to the layers below, for up to
    ``outage_s`` seconds (`FIRST_CONTACT_S` if the provider has never responded). Until the circuit
    calls ``restored``, the layers below must raise `CircuitOpen` in all other waiting calls.

    If all calls that are left have failed, and they are `FEW`, their prompts may be the cause. The
    circuit then stays closed, and each call fails once its tries are used up.

    An `AccessDenied` is the failure of one call if another call is answered, and ends the run if
    all are denied.

    Attributes:
        answered_before: Returns how many calls to the model earlier sessions have recorded.
        idle: Returns whether no other model has calls, which may lead to calls to this one.
        program: Whether the backend is a program with no server, which may hang.
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
    answered_before: Callable[[], int] = lambda: 0
    idle: Callable[[], bool] = lambda: True
    program: bool = False

    def __post_init__(self) -> None:
        fewest, most = FAILURES_IN_A_ROW
        self._most_failures = max(fewest, min(most, self.tries - 1))
        self._reached = False
        self._answered = 0
        self._pending: dict[int, Request] = {}  # calls in this layer or below, by identity
        self._outage: _Outage | None = None  # while the circuit is open
        self._given_up: FatalCallError | None = None
        self._forget()

    def _forget(self) -> None:
        self._failures = 0
        self._counted_error: CallError | None = None
        # The calls that have failed since the last success. A retried call is the same object.
        self._failed: dict[int, tuple[Request, CallError]] = {}

    async def __call__(self, request: Request) -> Reply:
        """Send the request as soon as the circuit is closed, and return the reply.

        Raises:
            FatalCallError: If the provider is down for longer than ``outage_s`` seconds, has never
                responded, or denies access to all calls.
            CallError: If the call fails otherwise.
        """
        self._pending[id(request)] = request
        try:
            while True:
                outage = self._outage
                reply = await (self._wait(request, outage) if outage else self._send(request))
                if reply is not None:
                    return reply
        finally:
            self._pending.pop(id(request), None)

    async def _wait(self, request: Request, outage: _Outage) -> Reply | None:
        """Send the request when it is its turn. Return None if it must be sent again."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        outage.waiting[turn] = request
        try:
            await turn
            await self.sleep(0)  # the run may be stopping
            if self._outage is not outage:
                return None
            self.opened(request)
            return await self._send(request)
        finally:
            outage.waiting.pop(turn, None)
            outage.tried.set()

    async def _send(self, request: Request) -> Reply | None:
        """Send the request. Return None if it must be sent again."""
        if self._given_up is not None:  # the first error has not yet ended the run
            raise FatalCallError(self._given_up.message, self._given_up.remedy)
        try:
            reply = await self.ask(request)
        except CircuitOpen:
            return None
        except (AccessDenied, TransientError) as error:
            self._fail(request, error)
            return None
        except CallError:  # the provider has processed the call
            self._succeed()
            raise
        self._succeed()
        return reply

    def _succeed(self) -> None:
        self._reached = True
        self._answered += 1
        self._forget()
        self._close()

    def _fail(self, request: Request, error: AccessDenied | TransientError) -> None:
        """Raise the error if it concerns this call alone. If not, the call must be sent again."""
        hangs = self.program and error.kind == "timed_out"
        self._reached = self._reached or not (hangs or error.kind in NEVER_REACHED)
        self._failed[id(request)] = request, error
        if isinstance(error, AccessDenied) and self._are_denied(error):
            self._give_up(error)
        elif self._outage is not None:
            self._outage.error = error
        elif self._given_up is None and not self._opens(error):
            raise RequestRejected(error.message) if isinstance(error, AccessDenied) else error
        elif self._given_up is None:
            self._outage = _Outage(self.clock(), error)
            self._worker = asyncio.create_task(self._outlast(self._outage))
            self.opened(request)

    def _opens(self, error: AccessDenied | TransientError) -> bool:
        """Count a failed try, once per exception, and return whether it opens the circuit."""
        if isinstance(error, AccessDenied):
            return not (self._answered or self._is_due_to_prompts(error))
        if error is self._counted_error:
            return False
        self._counted_error = error
        self._failures += 1
        # If only one call fails, its own prompt may be the cause (it may crash the server).
        several = len(self._failed) > 1 or error.kind in PROVIDER_WIDE
        enough = several and self._failures >= self._most_failures
        return enough and not self._is_due_to_prompts(error)

    def _are_denied(self, error: AccessDenied) -> bool:
        """Return whether access has been denied to so many calls that it is denied to all."""
        denied = sum(isinstance(failure, AccessDenied) for _, failure in self._failed.values())
        if error.rejects_key:
            return denied >= KEY_REJECTIONS
        return denied >= DENIALS and not self._failed_are_few()

    def _failed_are_few(self) -> bool:
        failed = len(self._failed)
        return failed <= FEW * (failed + self._answered + self.answered_before())

    def _is_due_to_prompts(self, error: CallError) -> bool:
        """Return whether only few calls are left, all of which have failed."""
        possible = error.kind != "unreachable" and self._failed_are_few()
        return possible and not self._has_untried()

    def _has_untried(self) -> bool:
        """Return whether any call that has not failed since the last success may be made."""
        return any(key not in self._failed for key in self._pending) or not self.idle()

    def _untried(self, outage: _Outage) -> list[asyncio.Future[None]]:
        """Return the turns of the waiting calls that have not failed since the last success."""
        return [turn for turn, call in outage.waiting.items() if id(call) not in self._failed]

    async def _outlast(self, outage: _Outage) -> None:
        """Give one waiting call after another its turn, until the circuit closes or time is up."""
        try:
            while not self._is_due_to_prompts(outage.error):
                denied = isinstance(outage.error, AccessDenied)
                if denied and not self._has_untried():
                    return self._give_up(_down(outage.error))
                untried = self._untried(outage)
                wait = max(outage.step, outage.error.retry_after or 0.0)
                if untried and denied:
                    wait = 0.0
                gone = self.clock() - outage.began
                if gone + wait > (self.outage_s if self._reached else FIRST_CONTACT_S):
                    return self._give_up(_down(outage.error, gone, wait))
                then = time.strftime("%H:%M:%S", time.localtime(time.time() + wait))
                self.status(f"paused until {then}: {outage.error.message}")
                await self.sleep(wait)
                growth = GROWTH_UNTRIED if untried else GROWTH
                outage.step = min(growth * outage.step, LONGEST_STEP_S)
                outage.tried.clear()
                turns = [*self._untried(outage), *outage.waiting]
                if turns:
                    _wake(turns[0])
                    await outage.tried.wait()
        except Stopping:
            pass
        finally:
            if self._outage is outage:
                self._close()

    def _give_up(self, error: FatalCallError) -> None:
        self._given_up = error
        self._close()

    def _close(self) -> None:
        outage = self._outage
        if outage is not None:
            self._outage = None
            self._worker.cancel()
            self.status("")
            self.restored()
            for turn in outage.waiting:
                _wake(turn)


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():  # cancelled
        turn.set_result(None)


def _down(error: CallError, gone: float = 0.0, wait: float = 0.0) -> FatalCallError:
    if isinstance(error, FatalCallError):
        return error
    problem = f"All calls have failed for {gone:.0f} s"
    if error.kind == "rate_limited":
        asks = f", and asks to wait {wait:.0f} s more" if error.retry_after else ""
        problem = f"The provider has accepted no call for {gone:.0f} s{asks}"
    return FatalCallError(
        f"{problem}. Last error: {error.message}",
        f"{error.remedy} All answers so far are saved: run again once calls succeed; "
        "limits.outage_s sets how long a run waits for that.".strip(),
    )
