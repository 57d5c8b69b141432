"""The budget: a hard cap on what a run may cost, over all of its models.

Before a call starts, the most that it can cost is reserved; when it ends, what
it did cost is spent and the rest is free again. A call that does not fit waits
for those on the way; where none is left, the run ends and can be continued.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from harness.calls.calls import Ask
from harness.calls.stopping import Stop, Stopping
from harness.errors import BrokenOff, ConfigError, ConnectionLost, MalformedReply, TimedOut
from harness.records import Reply, Request, Usage

MAYBE_BILLED = (TimedOut, MalformedReply, ConnectionLost, BrokenOff)
"""Failures after which a provider may well have done the work, and bills it."""

MESSAGE_TOKENS = 32
"""Tokens that a chat template may put around a message, generously."""

ROUNDING = 1e-9
"""US dollars: sums of prices are not exact."""


class BudgetSpent(Stopping):
    """The next call might cost more than is left: it is not made."""


class Budget:
    """US dollars that a run may cost.

    usd: the cap.
    spent: what the run has cost before.
    stop: is requested when a call does not fit any more.
    unsure: the part of it that is for calls without an answer, which may be billed.

    wanted: the most that the call may cost that did not fit, when the budget has ended.
    """

    def __init__(self, usd: float, spent: float, stop: Stop, *, unsure: float = 0.0) -> None:
        self.usd = usd
        self.spent = spent
        self.unsure = unsure
        self.wanted = 0.0
        self.ended = False
        self._reserved = 0.0
        self._stop = stop
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()
        stop.tell(self._send_home)

    async def reserve(self, most: float) -> None:
        """Set the most that a call can cost aside; the first come is the first served.

        Raises: BudgetSpent where it does not fit and nothing on the way can free more.
        """
        if self._stop.requested:
            raise Stopping
        if not self._waiting and self._fits(most):
            self._reserved += most
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((most, turn))
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:  # served at the same moment
                self.settle(most, 0.0)
            raise

    def settle(self, most: float, cost: float, *, unsure: bool = False) -> None:
        """A call has ended that had set so much aside, and has cost so much."""
        self._reserved -= most
        self.spent += cost
        if unsure:
            self.unsure += cost
        self._serve()

    def _fits(self, most: float) -> bool:
        return self.spent + self._reserved + most <= self.usd + ROUNDING

    def _serve(self) -> None:
        while self._waiting:
            most, turn = self._waiting[0]
            if turn.done():  # cancelled
                self._waiting.popleft()
            elif self._fits(most):
                self._waiting.popleft()
                self._reserved += most
                turn.set_result(None)
            elif self._reserved > ROUNDING:
                return  # a call on the way may cost less than it set aside
            else:
                self.ended, self.wanted = True, most
                self._stop.request()
                return

    def _send_home(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()[1]
            if not turn.done():
                turn.set_exception(BudgetSpent() if self.ended else Stopping())


class Budgeted:
    """A model's calls under a budget.

    ask: the stack below.
    most: the most that a call of so many input and output tokens can cost.
    cost: what a reply has cost, None where the provider has not counted.
    charge: books what a call without a usable reply may have cost; begun at once.
    """

    def __init__(
        self,
        ask: Ask,
        budget: Budget,
        *,
        most: Callable[[int, int], float],
        cost: Callable[[Usage], float],
        charge: Callable[[Request, float], asyncio.Future[None]],
    ) -> None:
        self._ask = ask
        self._budget = budget
        self._most = most
        self._cost = cost
        self._charge = charge

    async def __call__(self, request: Request) -> Reply:
        """Ask within the budget.

        Raises: what the stack below raises; BudgetSpent; Stopping.
        """
        most = self._most(*bounds(request))
        await self._budget.reserve(most)
        spent, unsure = 0.0, False
        try:
            reply = await self._ask(request)
            spent = self.cost(request, reply)
            return reply
        except MAYBE_BILLED:
            spent, unsure = most, True
            await self._charge(request, most)
            raise
        except asyncio.CancelledError:  # stopped in the middle: the provider goes on, and bills
            spent, unsure = most, True
            self._charge(request, most).add_done_callback(_heard)
            raise
        finally:
            self._budget.settle(most, spent, unsure=unsure)

    def cost(self, request: Request, reply: Reply) -> float:
        """What a reply has cost; the most that it can have where nobody counted."""
        return self._most(*bounds(request)) if reply.usage is None else self._cost(reply.usage)


def bounds(request: Request) -> tuple[int, int]:
    """The most tokens that a request can have and be answered with.

    A token is at least one byte of UTF-8, whatever the tokeniser. What else is sent
    (a schema, tools) is read by the model too.

    Raises: ConfigError where nothing bounds the answer.
    """
    read = sum(len(m.content.encode()) + MESSAGE_TOKENS for m in request.messages)
    extra = request.decoding.extra
    if extra:
        read += len(msgspec.json.encode(extra))
    told = [extra.get(name) for name in ("max_tokens", "max_completion_tokens")]
    written = max(
        (n for n in (request.decoding.max_tokens, *told) if isinstance(n, int)), default=None
    )
    if written is None:
        raise ConfigError(
            "budget.usd is set, but nothing says how long an answer may be.",
            "Set decoding.max_tokens.",
        )
    answers = [n for n in (extra.get("n"), extra.get("best_of")) if isinstance(n, int)]
    return read, written * max([1, *answers])


def _heard(booked: asyncio.Future[None]) -> None:
    """Nobody waits for it any more; whether it failed is told when the file is closed."""
    if not booked.cancelled():
        booked.exception()
