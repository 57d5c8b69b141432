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

INITIAL_LIMIT = 16  # initial number of calls in flight
RAISE_INTERVAL_S = 1.0  # seconds between increases of a fully used limit, if no call is pushed back
CAPACITY_POLL_S = 0.25  # seconds between checks whether there is room for waiting calls
MAX_PUSHED_BACK_SHARE = (
    0.2  # maximum share (0 to 1) of pushed-back calls for which the limit is not lowered
)
MIN_ROUND_CALLS = 10  # minimum number of ended calls after which the limit may be lowered
MIN_SEARCH_ROUNDS = 4  # rounds of answers until one more call is tried than were accepted at once
MAX_SEARCH_ROUNDS = 256
NOTICE_S = 5.0  # seconds without admitting any call before the user is notified

PUSHED_BACK: frozenset[FailureKind] = frozenset(
    {"rate_limited", "overloaded", "timed_out", "interrupted"}
)
"""Failures that indicate an overloaded provider."""
UNPROCESSED: frozenset[FailureKind] = frozenset({"rate_limited", "crowded", "unreachable"})
"""Failures of calls that the provider did not accept or never saw, and that used no tokens."""


class AdaptiveLimit:
    """An adaptive limit on the calls in flight, initially ``start`` and never above ``ceiling``."""

    def __init__(self, ceiling: int, start: int = INITIAL_LIMIT) -> None:
        self._most = ceiling
        self._start = start
        self.restart()

    def restart(self) -> None:
        """Reset the limit to its initial value."""
        self._limit = float(min(self._start, self._most))
        self._doubling = True
        self._lowered_at = float("-inf")
        self._search = 0  # rounds until one more call is tried; 0 if no number is known
        self._answers = 0  # in these rounds
        self._begin_round()

    @property
    def current(self) -> int:
        """The current limit on the calls in flight."""
        return int(self._limit)

    def record_end(
        self, sent: float, now: float, *, pushed_back: bool = False, full: bool = False
    ) -> None:
        """Adjust the limit after a call has ended.

        Args:
            sent: When the call was sent (seconds on any clock).
            now: The current time on the same clock.
            pushed_back: Whether the call failed in one of the ways in `PUSHED_BACK`.
            full: Whether the limit is fully used. Only then is the limit raised.
        """
        if full and self._search:
            self._answers += 1
            if self._answers >= self._search * int(self._limit):
                self._answers = 0
                self._search = max(1, self._search // 2)
                self._limit = min(self._limit + 1, self._most)
        elif full and self._limit < self._most:
            more = 1.0 if self._doubling else 1.0 / self._limit
            self._limit = min(self._limit + more, self._most)
        if sent < self._lowered_at:
            return  # sent under the old limit, says nothing about the new one
        self._seen += 1
        self._pushed_back += pushed_back
        if self._seen < self._round:
            return
        share = self._pushed_back / self._seen
        if share > MAX_PUSHED_BACK_SHARE:
            self._limit = max(1.0, self._limit * (1 - share / 2))
            self._doubling = False
            self._lowered_at = now
        self._begin_round()

    def record_crowding(self, sent: float, now: float, accepted: int) -> None:
        """Lower the limit after the provider has rejected one more call than it accepts at once.

        Args:
            sent: When the rejected call was sent.
            now: The current time.
            accepted: The number of other calls in flight.
        """
        self._limit = float(max(1, min(self._limit, accepted)))
        self._doubling = False
        if sent >= self._lowered_at:  # a search has failed
            self._lowered_at = now
            self._answers = 0
            self._search = min(4 * self._search, MAX_SEARCH_ROUNDS) or MIN_SEARCH_ROUNDS
            self._begin_round()

    def grow(self) -> None:
        """Raise the limit by half, unless it was lowered or a call of this round was pushed back.

        Call this after calls have waited for `RAISE_INTERVAL_S` seconds at the full limit.
        """
        # Refusals arrive at once, but answers may take a minute: waiting for them would keep a
        # slow model at a few calls for many minutes.
        if self._doubling and not self._pushed_back:
            self._limit = min(1.5 * self._limit, self._most)

    def _begin_round(self) -> None:
        self._seen = self._pushed_back = 0
        self._round = max(MIN_ROUND_CALLS, int(self._limit))


@dataclass(slots=True)
class _Ticket:
    """A call waiting for its turn. Once admitted, it has reserved its use of the rate limits."""

    request: Request
    turn: asyncio.Future[None] | None = None
    let_in: bool = False
    reserved: Reservation | None = None


class _Crowded(Exception):
    """The provider rejected a call because of others in flight: it waits for one of them to end."""


class ConcurrencyLimiter(WaitingCalls):
    """The layer that sends as many calls concurrently and per minute as the provider accepts.

    Args:
        ask: The layer below.
        stop: When requested, waiting calls are dismissed.
        most: Maximum number of calls in flight.
        rates: The model's rate limits, which other limiters may share.
        start: Initial limit on the calls in flight. It is higher for servers that queue requests.
        room: Returns a further limit, which changes as machines join or fail.
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
        self._room = capacity or (lambda: ceiling)
        self._ask = ask
        self._stop = stop
        self._rates = rates
        self._status = status
        self._most = ceiling
        self._reported = False
        self.limit = AdaptiveLimit(ceiling, start)
        self.in_flight = 0
        self._failed = self._rate_limited = 0
        self._let_in_at = time.perf_counter()
        self._probing: Request | None = None
        self._waiting: deque[_Ticket] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        stop.on_stop(self._dismiss)
        rates.limiters.add(self)

    def admit_only(self, probing: Request) -> None:
        """Raise CircuitOpen in all waiting and new calls but ``probing``: the provider is down."""
        self._probing = probing
        self._dismiss(CircuitOpen)

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
        elif waiting and self._room() <= self.in_flight < self.limit.current:
            reason = "copies of the model"
        elif waiting and self.in_flight < self.limit.current:
            reason = self._rates.waiting_for
        elif waiting and self.limit.current < self._most:
            reason = f"the provider's load ({self.limit.current} calls at once)"
        elif waiting:
            reason = f"limits.concurrency ({self._most})"
        return Load(self.in_flight, waiting, self._failed, self._rate_limited, reason)

    def next_requests(self) -> Iterator[Request]:
        """Return the waiting requests that could be sent now if there were no rate limits."""
        free = max(0, min(self.limit.current, self._room()) - self.in_flight)
        return (ticket.request for ticket in islice(self._waiting, free))

    async def __call__(self, request: Request) -> Reply:
        """Send the request when its turn comes, and return its reply.

        Raises:
            NotSent: If the call is not sent, for example because the run stops.
            CallError: If the call fails. A call that the provider rejects because of others in
                flight fails only if none of these is a call of this limiter.
        """
        first = False
        while True:
            try:
                return await self._send(request, first)
            except _Crowded:
                first = True

    async def _send(self, request: Request, first: bool) -> Reply:
        ticket = await self._enter(request, first)
        sent = time.perf_counter()
        usage: Usage | None = None
        used: UnreportedUse = "all"
        try:
            reply = await self._ask(request)
            self.limit.record_end(
                sent, time.perf_counter(), full=self.in_flight >= self.limit.current
            )
            if reply.usage and reply.usage.input_tokens:
                usage = reply.usage
            return reply
        except NotSent:
            used = "nothing"
            raise
        except CallError as error:
            kind = error.kind
            self._failed += kind is not None
            self._rate_limited += kind in ("rate_limited", "crowded")
            used = "request" if kind in UNPROCESSED else "all"
            if kind != "crowded":
                self.limit.record_end(sent, time.perf_counter(), pushed_back=kind in PUSHED_BACK)
                raise
            others = self.in_flight - 1
            self.limit.record_crowding(sent, time.perf_counter(), others)
            if others:
                raise _Crowded from None
            raise
        finally:
            self._rates.settle(ticket.reserved, request, usage, used)
            self.in_flight -= 1
            self.admit()

    async def _enter(self, request: Request, first: bool) -> _Ticket:
        """Wait for the request's turn, before all other calls if it is ``first``."""
        if self._stop.requested:
            raise Stopping
        if self._probing is not None and request is not self._probing:
            raise CircuitOpen
        ticket = _Ticket(request)
        if first:
            self._waiting.appendleft(ticket)
        else:
            self._waiting.append(ticket)
        self.admit()
        if not ticket.let_in:
            ticket.turn = asyncio.get_running_loop().create_future()
            try:
                await ticket.turn
                if self._stop.requested:
                    raise Stopping
            except (asyncio.CancelledError, Stopping):
                if ticket.let_in:  # admitted at the same moment
                    self._rates.settle(ticket.reserved, request, None, "nothing")
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
        if waiting and self._room() <= self.in_flight < self.limit.current:
            self._timer = asyncio.get_running_loop().call_later(CAPACITY_POLL_S, self.admit)
        elif waiting and self.in_flight < self.limit.current:
            with self._rates.lock() as ours:
                wait = self._let_in() if ours else LOCK_RETRY_S
            if wait > 0:
                self._timer = asyncio.get_running_loop().call_later(wait, self.admit)
            waits_long = wait > 0 and time.perf_counter() - self._let_in_at > NOTICE_S
            if waits_long != self._reported:
                self._reported = waits_long
                self._status(f"waiting for {self._rates.waiting_for}" if waits_long else "")
        if waiting and self._patience is None and self.limit.current < self._most:
            self._patience = asyncio.get_running_loop().call_later(
                RAISE_INTERVAL_S, self._unrefused
            )

    def _let_in(self) -> float:
        """Admit calls, and return the seconds until the rate limits allow the next one, or 0."""
        waiting = self._waiting
        while waiting and self.in_flight < min(self.limit.current, self._room()):
            ticket = waiting[0]
            if ticket.turn is not None and ticket.turn.done():  # cancelled
                waiting.popleft()
                continue
            wait = self._rates.wait_s(ticket.request)
            if wait > 0:
                return wait
            waiting.popleft()
            self.in_flight += 1
            ticket.let_in = True
            ticket.reserved = self._rates.reserve(ticket.request)
            if ticket.turn is not None:
                ticket.turn.set_result(None)
            self._let_in_at = time.perf_counter()
        return 0.0

    def _unrefused(self) -> None:
        self._patience = None
        if self._waiting and self.in_flight >= self.limit.current:
            self.limit.grow()
            self.admit()

    def _dismiss(self, why: type[Stopping] | type[CircuitOpen] = Stopping) -> None:
        """Raise an exception of type ``why`` in all waiting calls."""
        while self._waiting:
            turn = self._waiting.popleft().turn
            if turn is not None and not turn.done():
                turn.set_exception(why())
        self.admit()
