"""The lowest part of the call stack: a model's calls wait here for their turn, and are made.

One lane for each provider, URL and model: a judge waits in its own and is never
starved by the model it judges. A call enters when the provider's rate limits
and the number in flight allow; the first come is the first served. Retries and
pauses happen above, so that a call that backs off holds no place.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from harness.calls.limits.adaptive_limit import START, UNREFUSED_S, AdaptiveLimit
from harness.calls.limits.rate_limits import RateLimits, Reservation
from harness.calls.stopping import Stop, Stopping, TurnedBack
from harness.errors import (
    BrokenOff,
    CallError,
    ConnectionFailed,
    ConnectionLost,
    Overloaded,
    PromptRefused,
    RateLimited,
    TimedOut,
)
from harness.ports import Backend
from harness.records import Reply, Request, Usage, encodable

PROTESTS = (RateLimited, Overloaded, TimedOut, BrokenOff)


@dataclass(slots=True)
class _Ticket:
    """A call that waits for its turn, and then what it has reserved."""

    request: Request
    turn: asyncio.Future[None] | None = None
    let_in: bool = False
    reserved: Reservation | None = None


class Lane:
    """Asks the backend, as many calls at once and a minute as it takes.

    most: calls in flight, at most.
    timeout_s: seconds until a call is given up, however much of its answer has come.
    limits: the model's rate limits.
    start: calls in flight to begin with.
    """

    def __init__(
        self,
        backend: Backend,
        stop: Stop,
        *,
        most: int,
        timeout_s: float,
        limits: RateLimits,
        start: int = START,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._backend = backend
        self._stop = stop
        self._timeout_s = timeout_s
        self._limits = limits
        self._clock = clock
        self._most = most
        self._limit = AdaptiveLimit(most, start)
        self._in_flight = 0
        self._probing: Request | None = None
        self._waiting: deque[_Ticket] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        stop.tell(self._dismiss)
        limits.attend(self)

    @property
    def in_flight(self) -> int:
        """Calls that the provider has not answered."""
        return self._in_flight

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return self._limit.now

    def close(self, probing: Request) -> None:
        """The provider is away: send everybody back, and let in this one request only."""
        self._probing = probing
        self._dismiss(TurnedBack)

    def reopen(self) -> None:
        """It is back: begin with a few calls again."""
        self._probing = None
        self._limit.restart()

    async def __call__(self, request: Request) -> Reply:
        """The backend's reply, with its latency.

        Raises: what the backend raises; TimedOut; Stopping or TurnedBack instead of
            beginning a call.
        """
        ticket = await self._enter(request)
        sent = self._clock()
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await self._backend.generate(request)
        except TimeoutError:
            self._limit.protested(sent, self._clock())
            self._limits.settle(ticket.reserved, request, None)
            raise TimedOut(
                f"No complete answer within {self._timeout_s:g} s.",
                "Raise limits.timeout_s if the model is slow.",
            ) from None
        except PromptRefused as error:  # an answer, and the same one every time: kept like any
            self._limit.answered(sent, self._clock(), full=False)
            self._limits.settle(ticket.reserved, request, None)
            return Reply(
                encodable(error.message), "content_filter", Usage(), latency_s=self._clock() - sent
            )
        except CallError as error:
            if isinstance(error, PROTESTS):
                self._limit.protested(sent, self._clock())
            else:
                self._limit.answered(sent, self._clock(), full=False)
            self._limits.settle(ticket.reserved, request, None, refused=_was_refused(error))
            raise
        except BaseException:
            self._limits.settle(ticket.reserved, request, None)
            raise
        else:
            now = self._clock()
            self._limit.answered(sent, now, full=self._in_flight >= self._limit.now)
            self._limits.settle(ticket.reserved, request, reply.usage)
            return replace(
                reply,
                text=encodable(reply.text),
                reasoning=reply.reasoning and encodable(reply.reasoning),
                latency_s=now - sent,
            )
        finally:
            self._in_flight -= 1
            self.serve()

    async def _enter(self, request: Request) -> _Ticket:
        """Wait for the turn of a call; on return it counts as in flight."""
        if self._stop.requested:
            raise Stopping
        if self._probing is not None and request is not self._probing:
            raise TurnedBack
        ticket = _Ticket(request)
        self._waiting.append(ticket)
        self.serve()
        if self._waiting and self._waiting[-1] is ticket:
            ticket.turn = asyncio.get_running_loop().create_future()
            try:
                await ticket.turn
                if self._stop.requested:
                    raise Stopping
            except (asyncio.CancelledError, Stopping):
                if ticket.let_in:  # and told to go at the same moment
                    self._limits.settle(ticket.reserved, request, None, refused=True)
                    self._in_flight -= 1
                    self.serve()
                raise
        return ticket

    def serve(self) -> None:
        """Let in who may go now; where time alone will tell, come back then."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = self._waiting
        while waiting and self._in_flight < self._limit.now:
            ticket = waiting[0]
            if ticket.turn is not None and ticket.turn.done():  # cancelled
                waiting.popleft()
                continue
            wait = self._limits.wait(ticket.request)
            if wait > 0:
                self._timer = asyncio.get_running_loop().call_later(wait, self.serve)
                return
            waiting.popleft()
            self._in_flight += 1
            ticket.let_in = True
            ticket.reserved = self._limits.take(ticket.request)
            if ticket.turn is not None:
                ticket.turn.set_result(None)
        if waiting and self._patience is None and self._limit.now < self._most:
            self._patience = asyncio.get_running_loop().call_later(UNREFUSED_S, self._unrefused)

    def _unrefused(self) -> None:
        """A while has gone by."""
        self._patience = None
        if self._waiting and self._in_flight >= self._limit.now:
            self._limit.unrefused()
            self.serve()

    def _dismiss(self, why: type[Stopping] | type[TurnedBack] = Stopping) -> None:
        """Nobody who waits is let in."""
        while self._waiting:
            turn = self._waiting.popleft().turn
            if turn is not None and not turn.done():
                turn.set_exception(why())
        self.serve()


def _was_refused(error: CallError) -> bool:
    """Whether the provider did no work on the call: it has not let it in, or never saw it."""
    unsent = isinstance(error, ConnectionFailed) and not isinstance(error, ConnectionLost)
    return unsent or isinstance(error, RateLimited)
