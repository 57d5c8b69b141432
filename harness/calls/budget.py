"""The budget: a hard cap on what a run may cost, over all of its models.

Before a call starts, its maximum cost is reserved; when it ends, its actual cost is spent and
the rest is free again. A call that does not fit waits for those in flight; if none is left, the
run ends and can be resumed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import msgspec

from harness.calls.calls import Ask
from harness.calls.signals import Stop, Stopping
from harness.errors import ConfigError, FailureKind, TransientError
from harness.records import Reply, Request, Usage

MAYBE_BILLED: frozenset[FailureKind] = frozenset(
    {"timed_out", "malformed", "connection_lost", "interrupted"}
)
"""Failures after which the provider may have done the work, and may bill it."""

MESSAGE_TOKENS = 32
"""Tokens that a chat template may put around a message: a generous bound."""

ROUNDING = 1e-9
"""US dollars: sums of prices are not exact."""


class BudgetSpent(Stopping):
    """The next call might cost more than is left, so it is not made."""


class Budget:
    """US dollars that a run may cost.

    Args:
        spent: What the run has cost before.
        unsure: The part of `spent` for calls without an answer, which may have been billed.

    Attributes:
        ended: Whether a call did not fit and the run was stopped.
        wanted: The maximum cost of that call.
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
        stop.on_stop(self._dismiss)

    async def reserve(self, most: float) -> None:
        """Reserve the maximum cost of a call, first come, first served.

        Raises:
            BudgetSpent: It does not fit, and no call in flight can free more.
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
        """Replace a call's reservation with its actual cost."""
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
                return  # a call in flight may cost less than it has reserved
            else:
                self.ended, self.wanted = True, most
                self._stop.request()
                return

    def _dismiss(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()[1]
            if not turn.done():
                turn.set_exception(BudgetSpent() if self.ended else Stopping())


@dataclass(eq=False)
class Budgeted:
    """A model's calls under a budget.

    Args:
        most: The maximum cost of a call, from its input and output tokens.
        cost_of: The cost of a call, from its usage.
        charge: Books what a call without a usable reply may have cost; begins at once.
    """

    ask: Ask
    budget: Budget
    _: KW_ONLY
    most: Callable[[int, int], float]
    cost_of: Callable[[Usage], float]
    charge: Callable[[Request, float], asyncio.Future[None]]

    async def __call__(self, request: Request) -> Reply:
        """Make the call if the budget allows it."""
        most = self.most(*bounds(request))
        await self.budget.reserve(most)
        spent, unsure = 0.0, False
        try:
            reply = await self.ask(request)
            spent = self.cost(request, reply)
            return reply
        except TransientError as error:
            if error.kind in MAYBE_BILLED:
                spent, unsure = most, True
                await self.charge(request, most)
            raise
        except asyncio.CancelledError:  # stopped midway: the provider continues, and bills
            spent, unsure = most, True
            self.charge(request, most).add_done_callback(_retrieved)
            raise
        finally:
            self.budget.settle(most, spent, unsure=unsure)

    def cost(self, request: Request, reply: Reply) -> float:
        """Return what a reply cost, or its maximum if the provider did not count tokens."""
        return self.most(*bounds(request)) if reply.usage is None else self.cost_of(reply.usage)


def bounds(request: Request) -> tuple[int, int]:
    """Return the maximum input and output tokens of a request.

    A token is at least one byte of UTF-8, whatever the tokeniser. The model also reads what else
    is sent (a schema, tools).
    """
    read = sum(len(m.content.encode()) + MESSAGE_TOKENS for m in request.messages)
    extra = request.decoding.extra
    if extra:
        read += len(msgspec.json.encode(extra))
    stated = [request.decoding.max_tokens, extra.get("max_tokens")]
    stated.append(extra.get("max_completion_tokens"))
    written = max((n for n in stated if isinstance(n, int)), default=None)
    if written is None:
        raise ConfigError(
            "budget.usd is set, but nothing says how long an answer may be.",
            "Set decoding.max_tokens.",
        )
    answers = [n for n in (extra.get("n"), extra.get("best_of")) if isinstance(n, int)]
    return read, written * max([1, *answers])


def _retrieved(booked: asyncio.Future[None]) -> None:
    """Consume the result of a future that nobody awaits; closing the cache reports failures."""
    if not booked.cancelled():
        booked.exception()
