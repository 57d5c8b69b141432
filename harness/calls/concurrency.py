"""Limits the number of calls that a model has in flight.

Each model of a run has a limiter, so a judge is not starved by the model that it judges. Models
with the same provider, URL and name share their rate limits. A call that backs off holds no slot.

The limit adapts by additive increase and multiplicative decrease (Chiu and Jain, 1989), with a slow
start as in TCP (RFC 5681): it doubles with each round of answers until the provider first pushes
back. As in DCTCP (RFC 8257), the decrease is proportional to the share of calls pushed back, so a
few of them do not halve the rate.

A provider may also state that it accepts no more calls at once. The limit then falls to the number
of calls that it has accepted, the rejected call waits for one of these to end, and one more call is
tried ever more rarely, as in the search for a path's packet size (RFC 4821).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from harness.calls.rate_limits import (
    LOCK_RETRY_S,
    RateLimits,
    Reservation,
    UnreportedUse,
    WaitingCalls,
)
from harness.calls.signals import Ask, CircuitOpen, Load, NotSent, Report, Stop, Stopping
from harness.errors import CallError, FailureKind
from harness.records import Reply, Request, Usage

INITIAL_LIMIT = 16  # calls in flight
RAISE_INTERVAL_S = 1.0  # between increases of a fully used limit, if no call is pushed back
CAPACITY_POLL_S = 0.25  # between checks whether there is capacity for waiting calls
MAX_PUSHED_BACK_SHARE = 0.2  # of a round's calls (0 to 1): a higher share lowers the limit
MIN_ROUND_CALLS = 10  # ended calls after which the limit may be lowered
MIN_PROBE_INTERVAL_ROUNDS = 4  # of answers until one more call than was accepted is tried
MAX_PROBE_INTERVAL_ROUNDS = 256
NOTICE_S = 5.0  # without admitting any call, before the user is notified

PUSHED_BACK: frozenset[FailureKind] = frozenset(
    {"rate_limited", "overloaded", "timed_out", "interrupted"}
)
"""Failures that indicate an overloaded provider."""
UNPROCESSED: frozenset[FailureKind] = frozenset({"rate_limited", "crowded", "unreachable"})
"""Failures of calls that the provider did not accept or never saw, and that used no tokens."""


class AdaptiveLimit:
    """An adaptive limit on the calls in flight, initially ``start`` and never above ``ceiling``."""

    def __init__(self, ceiling: int, start: int = INITIAL_LIMIT) -> None:
        self._ceiling = ceiling
        self._start = start
        self.restart()

    def restart(self) -> None:
        """Restart from the initial limit."""
        self._limit = float(min(self._start, self._ceiling))
        self._doubling = True
        self._lowered_at = float("-inf")
        # Rounds of answers between attempts to send one more call: halved after a success, times
        # four after a failure (0: the provider stated no maximum)
        self._probe_interval_rounds = 0
        self._answers_since_probe = 0
        self._begin_round()

    @property
    def current(self) -> int:
        """The current limit on the calls in flight."""
        return int(self._limit)

    def record_end(
        self, sent_at: float, now: float, *, pushed_back: bool = False, full: bool = False
    ) -> None:
        """Adjust the limit after a call has ended.

        Args:
            sent_at: When the call was sent (seconds on any clock).
            now: The current time on the same clock.
            pushed_back: Whether the call failed in one of the ways in `PUSHED_BACK`.
            full: Whether the limit is fully used. Only then is the limit raised.
        """
        if full:
            self._raise_limit()
        if sent_at < self._lowered_at:
            return  # a call under the old limit says nothing about the new one
        self._n_ended += 1
        self._n_pushed_back += pushed_back
        if self._n_ended < self._round_calls:
            return
        share = self._n_pushed_back / self._n_ended
        if share > MAX_PUSHED_BACK_SHARE:
            self._limit = max(1.0, self._limit * (1 - share / 2))
            self._doubling = False
            self._lowered_at = now
        self._begin_round()

    def _raise_limit(self) -> None:
        if self._probe_interval_rounds:
            self._answers_since_probe += 1
            if self._answers_since_probe >= self._probe_interval_rounds * int(self._limit):
                self._answers_since_probe = 0
                self._probe_interval_rounds = max(1, self._probe_interval_rounds // 2)
                self._limit = min(self._limit + 1, self._ceiling)
        elif self._limit < self._ceiling:
            increase = 1.0 if self._doubling else 1.0 / self._limit
            self._limit = min(self._limit + increase, self._ceiling)

    def record_crowding(self, sent_at: float, now: float, accepted: int) -> None:
        """Lower the limit after the provider has rejected one more call than it accepts at once.

        Args:
            sent_at: When the rejected call was sent (seconds on any clock).
            now: The current time on the same clock.
            accepted: The number of other calls in flight.
        """
        self._limit = float(max(1, min(self._limit, accepted)))
        self._doubling = False
        if sent_at >= self._lowered_at:  # a probe has failed
            self._lowered_at = now
            self._answers_since_probe = 0
            self._probe_interval_rounds = (
                min(4 * self._probe_interval_rounds, MAX_PROBE_INTERVAL_ROUNDS)
                or MIN_PROBE_INTERVAL_ROUNDS
            )
            self._begin_round()

    def grow(self) -> None:
        """Raise the limit by half, unless it was lowered or a call of this round was pushed back.

        Call this after calls have waited for `RAISE_INTERVAL_S` seconds at the full limit.
        """
        # Refusals arrive at once, but answers may take a minute: waiting for them would keep a
        # slow model at a few calls for many minutes.
        if self._doubling and not self._n_pushed_back:
            self._limit = min(1.5 * self._limit, self._ceiling)

    def _begin_round(self) -> None:
        self._n_ended = 0
        self._n_pushed_back = 0
        self._round_calls = max(MIN_ROUND_CALLS, int(self._limit))


@dataclass(slots=True)
class _Ticket:
    """A call that waits until it is admitted."""

    request: Request
    admission: asyncio.Future[None] | None = None
    is_admitted: bool = False
    reservation: Reservation | None = None  # of the rate limits, once admitted


class _Crowded(Exception):
    """The provider rejected a call because of others in flight. It waits for one to end."""


class ConcurrencyLimiter(WaitingCalls):
    """The layer that sends as many calls concurrently and per minute as the provider accepts.

    Args:
        ask: The layer below.
        stop: When requested, waiting calls raise Stopping.
        ceiling: Maximum number of calls in flight.
        rates: The model's rate limits, which other limiters may share.
        start: Initial limit on the calls in flight. It is higher for servers that queue requests.
        capacity: Returns a second maximum, which changes as machines join or fail.
        status: Receives messages about long waits.
    """

    def __init__(
        self,
        ask: Ask,
        stop: Stop,
        *,
        ceiling: int,
        rates: RateLimits,
        start: int = INITIAL_LIMIT,
        capacity: Callable[[], int] | None = None,
        status: Report = lambda _: None,
    ) -> None:
        self._capacity = capacity or (lambda: ceiling)
        self._ask = ask
        self._stop = stop
        self._rates = rates
        self._status = status
        self._ceiling = ceiling
        self._reported_wait = False
        self.limit = AdaptiveLimit(ceiling, start)
        self.in_flight = 0
        self._n_failed = 0
        self._n_rate_limited = 0
        self._admitted_at = time.perf_counter()  # when the last call was admitted
        self._probing: Request | None = None  # the only request to admit
        self._waiting: deque[_Ticket] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._growth_timer: asyncio.TimerHandle | None = None
        stop.on_stop(self._dismiss_waiting)
        rates.limiters.add(self)

    def admit_only(self, probing: Request) -> None:
        """Admit only one request, and raise CircuitOpen in all other calls."""
        self._probing = probing
        self._dismiss_waiting(CircuitOpen)

    def admit_all(self) -> None:
        """Admit all calls again, starting from the initial limit."""
        self._probing = None
        self.limit.restart()

    @property
    def load(self) -> Load:
        """The current load of the model."""
        waiting = len(self._waiting)
        reason = ""
        if self._probing is not None:
            reason = "failing calls, one of which is retried"
        elif waiting and self._capacity() <= self.in_flight < self.limit.current:
            reason = "copies of the model"
        elif waiting and self.in_flight < self.limit.current:
            reason = self._rates.waiting_for
        elif waiting and self.limit.current < self._ceiling:
            reason = f"the provider's load ({self.limit.current} calls at once)"
        elif waiting:
            reason = f"limits.concurrency ({self._ceiling})"
        return Load(self.in_flight, waiting, self._n_failed, self._n_rate_limited, reason)

    def next_requests(self) -> Iterator[Request]:
        """Return the waiting requests that could be sent now if there were no rate limits."""
        free = max(0, min(self.limit.current, self._capacity()) - self.in_flight)
        return (ticket.request for ticket in islice(self._waiting, free))

    async def __call__(self, request: Request) -> Reply:
        """Send the request once the limits allow it, and return the reply.

        Raises:
            NotSent: If the call is not sent, for example because the run stops.
            CallError: If the call fails. A call that the provider rejects because of others in
                flight fails only if none of these is a call of this limiter.
        """
        is_repeated = False
        while True:
            try:
                return await self._send(request, at_front=is_repeated)
            except _Crowded:
                is_repeated = True

    async def _send(self, request: Request, *, at_front: bool) -> Reply:
        ticket = await self._wait_for_admission(request, at_front=at_front)
        sent_at = time.perf_counter()
        usage: Usage | None = None
        used: UnreportedUse = "all"
        try:
            reply = await self._ask(request)
            is_full = self.in_flight >= self.limit.current
            self.limit.record_end(sent_at, time.perf_counter(), full=is_full)
            if reply.usage and reply.usage.input_tokens:
                usage = reply.usage
            return reply
        except NotSent:
            used = "nothing"
            raise
        except CallError as error:
            kind = error.kind
            self._n_failed += kind is not None
            self._n_rate_limited += kind in ("rate_limited", "crowded")
            used = "request" if kind in UNPROCESSED else "all"
            if kind != "crowded":
                self.limit.record_end(sent_at, time.perf_counter(), pushed_back=kind in PUSHED_BACK)
                raise
            n_others = self.in_flight - 1
            self.limit.record_crowding(sent_at, time.perf_counter(), n_others)
            if n_others:
                raise _Crowded from None
            raise
        finally:
            self._rates.settle(ticket.reservation, request, usage, used)
            self.in_flight -= 1
            self.admit()

    async def _wait_for_admission(self, request: Request, *, at_front: bool) -> _Ticket:
        """Wait until the request is admitted. ``at_front`` puts it before all other calls."""
        if self._stop.requested:
            raise Stopping
        if self._probing is not None and request is not self._probing:
            raise CircuitOpen
        ticket = _Ticket(request)
        if at_front:
            self._waiting.appendleft(ticket)
        else:
            self._waiting.append(ticket)
        self.admit()
        if not ticket.is_admitted:
            ticket.admission = asyncio.get_running_loop().create_future()
            try:
                await ticket.admission
                if self._stop.requested:
                    raise Stopping
            except (asyncio.CancelledError, Stopping):
                if ticket.is_admitted:  # admitted at the same moment
                    self._rates.settle(ticket.reservation, request, None, "nothing")
                    self.in_flight -= 1
                    self.admit()
                raise
        return ticket

    def admit(self) -> None:
        """Admit the calls that the limits allow."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = self._waiting
        if waiting and self._capacity() <= self.in_flight < self.limit.current:
            self._timer = asyncio.get_running_loop().call_later(CAPACITY_POLL_S, self.admit)
        elif waiting and self.in_flight < self.limit.current:
            with self._rates.lock() as is_locked:
                wait_s = self._admit_waiting() if is_locked else LOCK_RETRY_S
            if wait_s > 0:
                self._timer = asyncio.get_running_loop().call_later(wait_s, self.admit)
            waits_long = wait_s > 0 and time.perf_counter() - self._admitted_at > NOTICE_S
            if waits_long != self._reported_wait:
                self._reported_wait = waits_long
                self._status(f"waiting for {self._rates.waiting_for}" if waits_long else "")
        if waiting and self._growth_timer is None and self.limit.current < self._ceiling:
            self._growth_timer = asyncio.get_running_loop().call_later(
                RAISE_INTERVAL_S, self._grow_limit
            )

    def _admit_waiting(self) -> float:
        """Admit calls, and return the seconds until the rate limits allow the next one, or 0."""
        waiting = self._waiting
        while waiting and self.in_flight < min(self.limit.current, self._capacity()):
            ticket = waiting[0]
            if ticket.admission is not None and ticket.admission.done():  # cancelled
                waiting.popleft()
                continue
            wait_s = self._rates.wait_s(ticket.request)
            if wait_s > 0:
                return wait_s
            waiting.popleft()
            self.in_flight += 1
            ticket.is_admitted = True
            ticket.reservation = self._rates.reserve(ticket.request)
            if ticket.admission is not None:
                ticket.admission.set_result(None)
            self._admitted_at = time.perf_counter()
        return 0.0

    def _grow_limit(self) -> None:
        self._growth_timer = None
        if self._waiting and self.in_flight >= self.limit.current:
            self.limit.grow()
            self.admit()

    def _dismiss_waiting(self, error: type[Stopping] | type[CircuitOpen] = Stopping) -> None:
        """Raise an error in all waiting calls."""
        while self._waiting:
            admission = self._waiting.popleft().admission
            if admission is not None and not admission.done():
                admission.set_exception(error())
        self.admit()
