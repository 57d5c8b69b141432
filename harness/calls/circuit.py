"""Retries of failed calls, and the circuit breaker for outages (Nygard, "Release It!", 2007).

A provider is down only if no call succeeds, and a prompt is at fault only if another call does. All
failures between two successes therefore form a streak. If a streak grows long, or may cost a call
its last try, the circuit opens: all calls wait, except a short control call.

- If the control succeeds, the provider works, and each failure counts as a try of its own prompt.
- If it fails too, the provider is down, and the failures of the streak count for no prompt. The
  control and the waiting calls, one after another, are sent in turn until one succeeds. After
  ``outage_s`` seconds without any success, the run ends and can be resumed.

A gateway may answer a model's prompts, but not the control. If the control fails, a request of the
run that was answered before is therefore sent as a second control, and its result counts.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from dataclasses import replace as with_fields
from typing import NamedTuple
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from harness.calls.signals import Ask, CircuitOpen, Report
from harness.errors import (
    AccessDenied,
    CallError,
    FailureKind,
    FatalCallError,
    TransientError,
    format_time_after,
)
from harness.records import Message, Reply, Request

FAILURES_IN_A_ROW = 10  # over all calls; they open the circuit
RETRYING_S = 1800.0  # a call's last try starts within this many seconds of its first failure
LONGEST_BACKOFF_S = 60.0  # after a failed try of a call, unless the provider asks for more
FIRST_CONTACT_S = 3.0  # limit if the provider never responded: a wrong address fails quickly
LONGEST_STEP_S = 30.0  # between calls during an outage, unless the provider asks for more
FIRST_STEP_S = 0.5  # of both kinds of pauses
GROWTH = 2.0  # of both, from one pause to the next
NEVER_REACHED: frozenset[FailureKind] = frozenset({"unreachable", "malformed"})
"""Failures that a wrong address may cause. They do not prove that the provider was reached."""
DENIED_PROMPTS = 3  # if none was ever answered, the run ends once this many are denied
CONTROL = "Reply with OK."


def control_of(request: Request) -> Request:
    """Return a request that any working provider of the model answers, whatever the prompt.

    Its number is random, so that a gateway cannot answer it from a cache.
    """
    answers = [Message("assistant", " OK")] if request.loglikelihoods else []
    return replace(
        request,
        messages=(Message("user", f"{CONTROL} ({random.getrandbits(32)})"), *answers),
        decoding=with_fields(request.decoding, constraint=None),
        window=0,
        others=(),
    )


def second_control_of(answered: Request) -> Request:
    """Return a request like one that was answered, with a random number at its end."""
    *messages, last = answered.messages
    last = replace(last, content=f"{last.content} ({random.getrandbits(32)})")
    return replace(answered, messages=(*messages, last), others=())


@dataclass(eq=False)
class _Streak:
    """The failures, over all calls, since the last success."""

    failures: int = 0
    error: CallError | None = None  # the last one
    outage: bool = False  # whether the control has failed, too: they count for no call
    denied: set[tuple[Message, ...]] = field(default_factory=set)  # the prompts


class _Failure(NamedTuple):
    """A failed try of a call."""

    error: AccessDenied | TransientError
    streak: _Streak
    at: float

    @property
    def counts(self) -> bool:
        """Whether the call itself may be at fault."""
        return not (self.streak.outage or self.error.shared)


def _tries(counted: list[_Failure]) -> list[_Failure]:
    """Return the failures that use up a call's tries.

    Calls of other programs that use up what the provider accepts at once are not the call's fault.
    """
    return [failure for failure in counted if failure.error.kind != "crowded"]


@dataclass(eq=False)
class _Outage:
    """An open circuit. Waiting calls take turns in the order in which they arrived."""

    began: float
    streak: _Streak
    error: CallError  # the last one of the control, or of a call whose turn it was
    step: float = 0.0  # until the next call
    denied: bool = False  # whether the last two calls were
    passed: set[int] = field(default_factory=set)  # ids of denied requests that were not sent again
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    pause: asyncio.Future[None] | None = None


@dataclass(eq=False)
class Circuit:
    """The layer that retries failed calls, and holds all calls while the provider is down.

    A call that fails backs off exponentially with full jitter (Brooker, "Exponential Backoff And
    Jitter", AWS, 2015). It is given up after ``tries`` tries that count, or one if it is denied,
    and only once another call has succeeded since.

    While the circuit is open, it passes one request at a time to ``opened`` and to the layers
    below. Until the circuit calls ``restored``, these must raise `CircuitOpen` in all other waiting
    calls.

    Attributes:
        control: Sends a control call, which is no call of the run.
        earlier: Returns a request that was answered in an earlier session, or None.
        program: Whether the backend is a program with no server, which may hang.
    """

    ask: Ask
    control: Ask
    _: KW_ONLY
    tries: int
    outage_s: float
    total_s: float = RETRYING_S
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    status: Report = lambda _: None
    earlier: Callable[[], Request | None] = lambda: None
    opened: Callable[[Request], None] = lambda _: None
    restored: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    program: bool = False

    def __post_init__(self) -> None:
        self._reached = False  # whether the provider has ever responded
        self._sent = 0  # calls in the layers below
        self._streak = _Streak()
        self._outage: _Outage | None = None  # while the circuit is open
        self._given_up: FatalCallError | None = None
        self._answered: Request | None = None  # the last request of the run that was answered
        self._control_fails = False  # although other calls are answered
        self._changed = asyncio.Event()  # of `_streak`, `_outage`, or of `_sent` to 0

    async def __call__(self, request: Request) -> Reply:
        """Send the request until it is answered, and return the reply.

        Raises:
            FatalCallError: If the provider is down for longer than ``outage_s`` seconds, has never
                responded, or denies access to all calls.
            CallError: If the call fails otherwise.
        """
        failures: list[_Failure] = []
        retry_at = 0.0
        while True:
            if self._given_up is not None:
                raise self._given_up
            last = self._last_try(failures) if failures else None
            if self._outage is not None:
                reply = await self._outlast(self._outage, request)
                if reply is not None:
                    return reply
            elif last is not None and last.streak is not self._streak:  # another call has succeeded
                denied = isinstance(last.error, AccessDenied)
                raise CallError(last.error.message) if denied else last.error
            elif last is not None or self._is_doubtful(failures):
                if self._sent:
                    await self._changed.wait()
                else:
                    self._open(request, failures[-1].error)
            elif (wait := retry_at - self.clock()) > 0:
                retry_at = 0.0
                await self.sleep(wait)
            else:
                try:
                    return await self._send(request)
                except CircuitOpen:
                    continue
                except (AccessDenied, TransientError) as error:
                    now = self.clock()
                    failures.append(_Failure(error, self._streak, now))
                    longest = min(GROWTH ** len(failures) * FIRST_STEP_S / 2, LONGEST_BACKOFF_S)
                    retry_at = now + random.uniform(0, longest) + (error.retry_after or 0.0)

    def _last_try(self, failures: list[_Failure]) -> _Failure | None:
        """Return the failure after which a call is given up, or None if it is to be retried."""
        # A gateway may reject all calls for a while because of this one: LiteLLM's proxy does for
        # some seconds after a 404. It then fails after every such outage.
        outages = {
            failure.streak: failure
            for failure in failures
            if failure.streak.outage
            and failure.streak is not self._streak
            and not failure.error.shared
        }
        ended = list(outages.values())
        denied = [failure for failure in ended if isinstance(failure.error, AccessDenied)]
        if len(denied) > 1:
            return denied[-1]
        if len(ended) > self.tries:
            return ended[-1]
        counted = [failure for failure in failures if failure.counts]
        if not counted:
            return None
        last = counted[-1]
        late = self.clock() - counted[0].at > self.total_s
        used_up = late or len(_tries(counted)) >= self.tries
        return last if used_up or isinstance(last.error, AccessDenied) else None

    def _is_doubtful(self, failures: list[_Failure]) -> bool:
        """Return whether a call has one try left, and no call has succeeded since its first one.

        Otherwise, an outage too short for `FAILURES_IN_A_ROW` could use up the call's tries.
        """
        tries = _tries([failure for failure in failures if failure.counts])
        return 0 < len(tries) == self.tries - 1 and tries[0].streak is self._streak

    def learn(self, request: Request) -> None:
        """Remember a request that was answered, such as one whose reply is in the cache."""
        self._answered = request

    async def _send(self, request: Request, *, control: bool = False) -> Reply:
        self._sent += 1
        try:
            reply = await (self.control if control else self.ask)(request)
        except (AccessDenied, TransientError) as error:
            if isinstance(error, AccessDenied) and not (control or error.shared):
                self._streak.denied.add(request.messages)
            self._fail(request, error)
            raise
        except CallError:  # the provider has processed the call
            self._succeed()
            raise
        finally:
            self._sent -= 1
            if not self._sent and self._streak.failures:
                self._notify()
        self._succeed()
        if not control:
            self.learn(request)
        return reply

    def _succeed(self) -> None:
        self._reached = True
        if self._streak.failures:
            self._streak = _Streak()
            self._close()

    def _fail(self, request: Request, error: AccessDenied | TransientError) -> None:
        streak = self._streak
        if error is not streak.error:  # several calls may fail together, with the same error
            streak.error = error
            streak.failures += 1
        first = isinstance(error, AccessDenied) and not self._reached
        if (first or streak.failures >= FAILURES_IN_A_ROW) and self._outage is None:
            self._open(request, error)
        hangs = self.program and error.kind == "timed_out"
        self._reached = self._reached or not (hangs or error.kind in NEVER_REACHED)

    def _open(self, request: Request, error: CallError) -> None:
        self._outage = _Outage(self.clock(), self._streak, error)
        self.opened(request)
        self._notify()

    def answered(self) -> Request | None:
        """Return a request of the run that was answered, in this session or before, or None."""
        if self._answered is None:
            self._answered = self.earlier()
        return self._answered

    def _controls(self, request: Request) -> list[Request]:
        """Return the requests, one or two, that show whether the provider works.

        It does if any of them succeeds.
        """
        answered = self.answered()
        if answered is None:
            return [control_of(request)]
        second = second_control_of(answered)
        if self._control_fails or self._streak.outage:
            return [second]
        return [control_of(request), second]

    async def _outlast(self, outage: _Outage, request: Request) -> Reply | None:
        """When it is the request's turn, send the controls and, if they fail, the request.

        Returns:
            The reply to the request, or None if the request must be sent again.
        """
        async with outage.turn:
            controls = [] if outage.denied else self._controls(request)
            for control in controls:
                second = control is not controls[0]
                if not await self._is_due(outage, control, at_once=second):
                    return None
                try:
                    await self._send(control, control=True)
                except (AccessDenied, TransientError) as error:
                    outage.denied = _are_denied(outage.error, error)
                    outage.error = error
                    continue
                except FatalCallError:
                    raise
                except CallError:
                    return None
                self._control_fails = self._control_fails or second
                return None
            outage.streak.outage = True
            if outage.denied and await self._is_denied(outage, request):
                return None
            if not await self._is_due(outage, request, at_once=outage.denied):
                return None
            try:
                return await self._send(request)
            except (AccessDenied, TransientError) as error:
                outage.denied = _are_denied(outage.error, error)
                outage.error = error
                if outage.denied:
                    await self._is_denied(outage, request)
        return None

    async def _is_denied(self, outage: _Outage, request: Request) -> bool:
        """Return whether a request is denied, so that another one must be sent.

        The run is given up if this is true of all requests. As long as none was ever answered, a
        gateway may deny the control and some prompts, but not all.
        """
        if self._answered is None:
            while self._sent and self._outage is outage:  # one of them may be answered
                await self._changed.wait()
            few = len(outage.streak.denied) < DENIED_PROMPTS
            if few and id(request) not in outage.passed:
                if request.messages not in outage.streak.denied:
                    return False
                outage.passed.add(id(request))
                return True
        if isinstance(outage.error, FatalCallError):
            self._give_up(outage, outage.error)
        return True

    async def _is_due(self, outage: _Outage, request: Request, *, at_once: bool = False) -> bool:
        """Wait for the next step, and return whether the circuit is still open for the request.

        The last step is shorter than the others, so that it ends with the time for the outage.
        """
        wait = 0.0
        if not at_once:
            elapsed = self.clock() - outage.began
            left = (self.outage_s if self._reached else FIRST_CONTACT_S) - elapsed
            requested = (outage.step and outage.error.retry_after) or 0.0
            if outage.step and (left <= 0 or requested > left):
                self._give_up(outage, _down(outage.error, elapsed, requested))
            wait = min(max(outage.step, requested), left)
        if self._outage is not outage:
            return False
        if wait:
            then = time.strftime("%H:%M:%S", time.localtime(time.time() + wait))
            self.status(f"paused until {then}: {outage.error.message}")
        outage.pause = asyncio.ensure_future(self.sleep(wait))
        try:
            await asyncio.wait({outage.pause})
        finally:
            outage.pause.cancel()
        if not outage.pause.cancelled():
            outage.pause.result()  # raises Stopping if the run stops
        if self._outage is not outage:
            return False
        if not at_once:
            outage.step = min(max(FIRST_STEP_S, GROWTH * outage.step), LONGEST_STEP_S)
        self.opened(request)
        return True

    def _give_up(self, outage: _Outage, error: FatalCallError) -> None:
        if self._outage is outage:
            self._given_up = error
            self._close()

    def _close(self) -> None:
        outage = self._outage
        if outage is not None:
            self._outage = None
            if outage.pause is not None:
                outage.pause.cancel()
            self.status("")
            self.restored()
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _are_denied(*errors: CallError) -> bool:
    return all(isinstance(error, AccessDenied) for error in errors)


def _down(error: CallError, elapsed: float, wait: float) -> FatalCallError:
    problem = f"All calls have failed for {elapsed:.0f} s"
    if error.kind == "rate_limited":
        problem = f"The provider has accepted no call for {elapsed:.0f} s"
        if error.retry_after:
            problem += f", and asks to wait {wait:.0f} s more"
    return FatalCallError(
        f"{problem}. Last error: {error.message}",
        f"{error.remedy} All answers so far are saved: run again once calls succeed; "
        "limits.outage_s sets how long a run waits for that.".strip(),
    )


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
                then = format_time_after(seconds)
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
            self.status(f"waiting until {format_time_after(seconds)} to retry: {error.message}")
        await self.wait(seconds)
        if ends == self._reported_until:
            self.status("")
