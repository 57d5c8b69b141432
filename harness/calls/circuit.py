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

MAX_FAILURES_IN_A_ROW = 10  # so many failures, over all calls, open the circuit
MAX_RETRYING_S = 1800.0  # a call's last try starts within this many seconds of its first failure
MAX_BACKOFF_S = 60.0  # longest wait after a failed try, unless the provider asks for more
MAX_FIRST_CONTACT_S = 3.0  # an outage ends the run after this time if the provider never responded
MAX_STEP_S = 30.0  # longest wait between calls in an outage, unless the provider asks for more
MIN_STEP_S = 0.5  # first wait of both kinds
STEP_GROWTH = 2.0  # factor from one wait to the next, of both kinds
UNREACHED_KINDS: frozenset[FailureKind] = frozenset({"unreachable", "malformed"})
"""Failures that a wrong address may cause. They do not prove that the provider was reached."""
MAX_DENIED_PROMPTS = 3  # the run ends once this many prompts are denied, if none was ever answered
CONTROL_PROMPT = "Reply with OK."


def control_request(request: Request) -> Request:
    """Return a request that any working provider of the model answers, whatever the prompt.

    Its number is random, so that a gateway cannot answer it from a cache.
    """
    answers = [Message("assistant", " OK")] if request.loglikelihoods else []
    return replace(
        request,
        messages=(Message("user", f"{CONTROL_PROMPT} ({random.getrandbits(32)})"), *answers),
        decoding=with_fields(request.decoding, constraint=None),
        window=0,
        others=(),
    )


def second_control_request(answered: Request) -> Request:
    """Return a request like one that was answered, with a random number at its end."""
    *earlier_messages, last_message = answered.messages
    content = f"{last_message.content} ({random.getrandbits(32)})"
    messages = (*earlier_messages, replace(last_message, content=content))
    return replace(answered, messages=messages, others=())


@dataclass(eq=False)
class _Streak:
    """The failures, over all calls, since the last success."""

    n_failures: int = 0
    last_error: CallError | None = None
    is_outage: bool = False  # whether the control call has failed, too: no failure uses up a try
    denied_prompts: set[tuple[Message, ...]] = field(default_factory=set)


class _Failure(NamedTuple):
    """A failed try of a call."""

    error: AccessDenied | TransientError
    streak: _Streak
    failed_at: float  # seconds on the circuit's clock

    @property
    def may_be_its_fault(self) -> bool:
        """Whether the call itself may be at fault."""
        return not (self.streak.is_outage or self.error.shared)


def _used_tries(failures: list[_Failure]) -> list[_Failure]:
    """Return those of a call's failures that use up one of its tries.

    If calls of other programs use up what the provider accepts at once, the call is not at fault.
    """
    return [f for f in failures if f.may_be_its_fault and f.error.kind != "crowded"]


@dataclass(eq=False)
class _Outage:
    """An open circuit. Waiting calls take turns in the order in which they arrived."""

    started_at: float  # seconds on the circuit's clock
    streak: _Streak
    last_error: CallError  # of the control call, or of a call whose turn it was
    step_s: float = 0.0  # seconds until the next call
    is_denied: bool = False  # whether access was denied to the last two calls
    skipped: set[int] = field(default_factory=set)  # ids of denied requests that are not sent again
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    pause: asyncio.Future[None] | None = None


@dataclass(eq=False)
class Circuit:
    """The layer that retries failed calls, and stops all calls while the provider is down.

    A call that fails backs off exponentially with full jitter (Brooker, "Exponential Backoff And
    Jitter", AWS, 2015). It fails for good once it has used up its tries (or one try, if access is
    denied) and another call has succeeded since.

    While the circuit is open, it sends one request at a time, for which it first calls
    ``on_probe``. Until it calls ``on_restored``, the layers below must raise `CircuitOpen` in all
    other waiting calls.

    Args:
        ask: The layers below.
        control: Sends a control call, which is no call of the run.
        max_tries: Maximum number of tries per call.
        outage_s: Seconds without a success after which the run ends.
        max_retrying_s: A call is not retried after this many seconds.
        sleep: Waits for a number of seconds.
        status: Receives a message while the circuit is open.
        find_earlier: Returns a request that was answered in an earlier session, or None.
        on_probe: Called with the next request that may be sent while the circuit is open.
        on_restored: Called when the circuit closes.
        clock: Returns the time in seconds.
        is_program: Whether the backend is a program without a server, which may hang.
    """

    ask: Ask
    control: Ask
    _: KW_ONLY
    max_tries: int
    outage_s: float
    max_retrying_s: float = MAX_RETRYING_S
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    status: Report = lambda _: None
    find_earlier: Callable[[], Request | None] = lambda: None
    on_probe: Callable[[Request], None] = lambda _: None
    on_restored: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    is_program: bool = False

    def __post_init__(self) -> None:
        self._was_reached = False  # whether the provider has ever responded
        self._n_sent = 0  # calls in the layers below
        self._streak = _Streak()
        self._outage: _Outage | None = None  # while the circuit is open
        self._final_error: FatalCallError | None = None  # once the run is given up
        self._last_answered: Request | None = None  # by the provider, of the run's requests
        self._control_fails = False  # although other calls are answered
        self._changed = asyncio.Event()  # set if `_streak` or `_outage` changes, or no call is sent

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
            if self._final_error is not None:
                raise self._final_error
            last = self._last_failure(failures) if failures else None
            if self._outage is not None:
                reply = await self._probe(self._outage, request)
                if reply is not None:
                    return reply
            elif last is not None and last.streak is not self._streak:  # another call has succeeded
                is_denied = isinstance(last.error, AccessDenied)
                raise CallError(last.error.message) if is_denied else last.error
            elif last is not None or self._may_be_in_outage(failures):
                if self._n_sent:
                    await self._changed.wait()
                else:
                    self._open(request, failures[-1].error)
            elif (wait_s := retry_at - self.clock()) > 0:
                retry_at = 0.0
                await self.sleep(wait_s)
            else:
                try:
                    return await self._send(request)
                except CircuitOpen:
                    continue
                except (AccessDenied, TransientError) as error:
                    now = self.clock()
                    failures.append(_Failure(error, self._streak, now))
                    retry_at = now + _backoff_s(len(failures)) + (error.retry_after or 0.0)

    def _last_failure(self, failures: list[_Failure]) -> _Failure | None:
        """Return the failure after which a call is not retried, or None if it is to be retried."""
        # A gateway may reject all calls for a while because of this one: LiteLLM's proxy does for
        # some seconds after a 404. It then fails after every such outage.
        by_outage: dict[_Streak, _Failure] = {}
        for failure in failures:
            has_ended = failure.streak.is_outage and failure.streak is not self._streak
            if has_ended and not failure.error.shared:
                by_outage[failure.streak] = failure
        in_outages = list(by_outage.values())
        denied = [failure for failure in in_outages if isinstance(failure.error, AccessDenied)]
        if len(denied) > 1:
            return denied[-1]
        if len(in_outages) > self.max_tries:
            return in_outages[-1]
        faults = [failure for failure in failures if failure.may_be_its_fault]
        if not faults:
            return None
        last = faults[-1]
        is_late = self.clock() - faults[0].failed_at > self.max_retrying_s
        has_tries = not is_late and len(_used_tries(failures)) < self.max_tries
        return None if has_tries and not isinstance(last.error, AccessDenied) else last

    def _may_be_in_outage(self, failures: list[_Failure]) -> bool:
        """Return whether a call has one try left, and no call has succeeded since its first try.

        The circuit then opens before the last try. Otherwise, an outage of fewer failures than
        `MAX_FAILURES_IN_A_ROW` could use up the call's tries.
        """
        tries = _used_tries(failures)
        return 0 < len(tries) == self.max_tries - 1 and tries[0].streak is self._streak

    def remember_answered(self, request: Request) -> None:
        """Remember a request that was answered, such as one whose reply is in the cache."""
        self._last_answered = request

    async def _send(self, request: Request, *, control: bool = False) -> Reply:
        self._n_sent += 1
        try:
            reply = await (self.control if control else self.ask)(request)
        except (AccessDenied, TransientError) as error:
            if isinstance(error, AccessDenied) and not (control or error.shared):
                self._streak.denied_prompts.add(request.messages)
            self._record_failure(request, error)
            raise
        except CallError:  # the provider has processed the call
            self._record_success()
            raise
        finally:
            self._n_sent -= 1
            if not self._n_sent and self._streak.n_failures:
                self._notify_changed()
        self._record_success()
        if not control:
            self.remember_answered(request)
        return reply

    def _record_success(self) -> None:
        self._was_reached = True
        if self._streak.n_failures:
            self._streak = _Streak()
            self._close()

    def _record_failure(self, request: Request, error: AccessDenied | TransientError) -> None:
        streak = self._streak
        if error is not streak.last_error:  # several calls may fail together, with the same error
            streak.last_error = error
            streak.n_failures += 1
        is_denied_first = isinstance(error, AccessDenied) and not self._was_reached
        is_long = streak.n_failures >= MAX_FAILURES_IN_A_ROW
        if (is_denied_first or is_long) and self._outage is None:
            self._open(request, error)
        hangs = self.is_program and error.kind == "timed_out"
        if not hangs and error.kind not in UNREACHED_KINDS:
            self._was_reached = True

    def _open(self, request: Request, error: CallError) -> None:
        self._outage = _Outage(self.clock(), self._streak, error)
        self.on_probe(request)
        self._notify_changed()

    def answered_request(self) -> Request | None:
        """Return a request of the run that was answered, in this session or before, or None."""
        if self._last_answered is None:
            self._last_answered = self.find_earlier()
        return self._last_answered

    def _control_requests(self, request: Request) -> list[Request]:
        """Return one or two control requests. The provider works if one of them succeeds."""
        answered = self.answered_request()
        if answered is None:
            return [control_request(request)]
        second = second_control_request(answered)
        if self._control_fails or self._streak.is_outage:
            return [second]
        return [control_request(request), second]

    async def _probe(self, outage: _Outage, request: Request) -> Reply | None:
        """When it is the request's turn, send the control requests and, if they fail, the request.

        Returns:
            The reply to the request, or None if the request must be sent again.
        """
        async with outage.turn:
            if not outage.is_denied and not await self._do_controls_fail(outage, request):
                return None
            outage.streak.is_outage = True
            if outage.is_denied and await self._must_skip(outage, request):
                return None
            if not await self._wait_for_step(outage, request, at_once=outage.is_denied):
                return None
            try:
                return await self._send(request)
            except (AccessDenied, TransientError) as error:
                self._record_outage_error(outage, error)
                if outage.is_denied:
                    await self._must_skip(outage, request)
        return None

    async def _do_controls_fail(self, outage: _Outage, request: Request) -> bool:
        """Send control requests, and return whether all of them failed."""
        controls = self._control_requests(request)
        for control in controls:
            is_second = control is not controls[0]
            if not await self._wait_for_step(outage, control, at_once=is_second):
                return False
            try:
                await self._send(control, control=True)
            except (AccessDenied, TransientError) as error:
                self._record_outage_error(outage, error)
                continue
            except FatalCallError:
                raise
            except CallError:
                return False
            self._control_fails = self._control_fails or is_second
            return False
        return True

    def _record_outage_error(self, outage: _Outage, error: CallError) -> None:
        outage.is_denied = all(isinstance(e, AccessDenied) for e in (outage.last_error, error))
        outage.last_error = error

    async def _must_skip(self, outage: _Outage, request: Request) -> bool:
        """Return whether a request is not sent now, because access to the provider is denied.

        If it is denied to all requests, end the run. As long as no request was ever answered, a
        gateway may deny the control request and some prompts, but not all.
        """
        if self._last_answered is None:
            while self._n_sent and self._outage is outage:  # one of them may be answered
                await self._changed.wait()
            denied_prompts = outage.streak.denied_prompts
            if len(denied_prompts) < MAX_DENIED_PROMPTS and id(request) not in outage.skipped:
                if request.messages not in denied_prompts:
                    return False
                outage.skipped.add(id(request))
                return True
        if isinstance(outage.last_error, FatalCallError):
            self._give_up(outage, outage.last_error)
        return True

    async def _wait_for_step(
        self, outage: _Outage, request: Request, *, at_once: bool = False
    ) -> bool:
        """Wait until the next request may be sent, and return whether the circuit is still open."""
        wait_s = 0.0 if at_once else self._step_wait_s(outage)
        if self._outage is not outage:
            return False
        if wait_s:
            end = time.strftime("%H:%M:%S", time.localtime(time.time() + wait_s))
            self.status(f"paused until {end}: {outage.last_error.message}")
        outage.pause = asyncio.ensure_future(self.sleep(wait_s))
        try:
            await asyncio.wait({outage.pause})
        finally:
            outage.pause.cancel()
        if not outage.pause.cancelled():
            outage.pause.result()  # raises Stopping if the run stops
        if self._outage is not outage:
            return False
        if not at_once:
            outage.step_s = min(max(MIN_STEP_S, STEP_GROWTH * outage.step_s), MAX_STEP_S)
        self.on_probe(request)
        return True

    def _step_wait_s(self, outage: _Outage) -> float:
        """Return the seconds until the next request of an outage, or end the run if it is too long.

        The last step is shorter than the others, so that it ends with the time for the outage.
        """
        elapsed_s = self.clock() - outage.started_at
        max_outage_s = self.outage_s if self._was_reached else MAX_FIRST_CONTACT_S
        remaining_s = max_outage_s - elapsed_s
        requested_s = (outage.step_s and outage.last_error.retry_after) or 0.0
        if outage.step_s and (remaining_s <= 0 or requested_s > remaining_s):
            self._give_up(outage, _outage_error(outage.last_error, elapsed_s, requested_s))
        return min(max(outage.step_s, requested_s), remaining_s)

    def _give_up(self, outage: _Outage, error: FatalCallError) -> None:
        if self._outage is outage:
            self._final_error = error
            self._close()

    def _close(self) -> None:
        outage = self._outage
        if outage is not None:
            self._outage = None
            if outage.pause is not None:
                outage.pause.cancel()
            self.status("")
            self.on_restored()
        self._notify_changed()

    def _notify_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _backoff_s(n_failures: int) -> float:
    longest_s = min(STEP_GROWTH**n_failures * MIN_STEP_S / 2, MAX_BACKOFF_S)
    return random.uniform(0, longest_s)


def _outage_error(error: CallError, elapsed_s: float, wait_s: float) -> FatalCallError:
    """Return the error that ends a run after an outage, given the outage's last error."""
    problem = f"All calls have failed for {elapsed_s:.0f} s"
    if error.kind == "rate_limited":
        problem = f"The provider has accepted no call for {elapsed_s:.0f} s"
        if error.retry_after:
            problem += f", and asks to wait {wait_s:.0f} s more"
    return FatalCallError(
        f"{problem}. Last error: {error.message}",
        f"{error.remedy} All answers so far are saved: run again once calls succeed; "
        "limits.outage_s sets how long a run waits for that.".strip(),
    )


NOTICE_S = 5.0  # longest wait that is not reported
ALWAYS_ACCEPTED_S = 30.0  # a provider may always ask for a wait of up to this many seconds


@dataclass(eq=False)
class RetryWaits:
    """The layer below the circuit that limits the waits for retries, and reports long ones.

    Args:
        ask: The layer below.
        max_wait_s: The longest accepted wait in seconds, if above `ALWAYS_ACCEPTED_S`. If a
            provider asks for more, the call counts as denied and is not retried.
        pause: Waits for a number of seconds.
        status: Receives the cause and the end of a long wait.
        on_long_wait: Called with the Unix time at which a long wait ends.
        clock: Returns the Unix time.
    """

    ask: Ask
    _: KW_ONLY
    max_wait_s: float
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    status: Report = lambda _: None
    on_long_wait: Callable[[float], None] = lambda _: None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._errors = WeakKeyDictionary[asyncio.Task[object], TransientError]()
        """The last failure of a task's call, until the task waits."""
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
            if seconds > max(self.max_wait_s, ALWAYS_ACCEPTED_S):
                problem = f"{error.message} It asks to wait until {format_time_after(seconds)}."
                denied = AccessDenied(
                    problem, "Run again then; limits.outage_s is the longest wait in seconds."
                )
                denied.shared = error.shared
                raise denied from error
            if (task := asyncio.current_task()) is not None:
                self._errors[task] = error
            raise

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds before the next try, and report a long wait."""
        task = asyncio.current_task()
        error = self._errors.pop(task, None) if task is not None else None
        ends = self.clock() + seconds
        if seconds > NOTICE_S:
            self.on_long_wait(ends)
        if error is not None and seconds > NOTICE_S and ends > self._reported_until + NOTICE_S:
            self._reported_until = ends
            self.status(f"waiting until {format_time_after(seconds)} to retry: {error.message}")
        await self.pause(seconds)
        if ends == self._reported_until:
            self.status("")
