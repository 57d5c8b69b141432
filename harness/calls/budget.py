"""The budget: a hard cap on a run's total cost, over all of its models.

Before a call starts, its maximum cost is reserved; when it ends, its actual cost is charged. A call
that does not fit waits for calls in flight. If there are none, the run ends and can be resumed.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import msgspec

from harness.calls.backend_layers import TimeLimit
from harness.calls.signals import Ask, Report, Stop, Stopping
from harness.config.prices import FREE, Price
from harness.errors import (
    BudgetBroken,
    CallError,
    ConfigError,
    FailureKind,
)
from harness.records import REFUSALS, DecodingConstraint, Reply, Request, Usage

MAYBE_BILLED: frozenset[FailureKind] = frozenset(
    {"timed_out", "malformed", "connection_lost", "interrupted"}
)
"""Kinds of failure after which the provider may still have processed the call, and may bill it."""

MESSAGE_TOKENS = 32  # upper bound on the tokens that a chat template adds to a message
FORM_PARAMETERS = frozenset({"functions", "response_format", "tools"})  # extra parameters
FORM_TOKENS = 600  # upper bound on the tokens that a provider adds to tools or a schema
ROUNDING_USD = 1e-9  # tolerance in US dollars: sums of prices are not exact
WAITING_STATUS = "waiting for calls in flight, which may cost less than is reserved for them"


class Need(NamedTuple):
    """Bounds on a run's cost over all of its sessions, for a shared budget (US dollars)."""

    spent: float
    reserved: float  # `spent`, and the calls in flight
    with_next: float  # `reserved`, and the next waiting call
    with_all: float  # `reserved`, and all waiting calls


class PastSpending(NamedTuple):
    """The amounts spent from a shared budget before a session (US dollars)."""

    by_run: float  # by earlier sessions of the session's run
    by_others: float
    unsure: float  # the part of `by_run` that was reserved by sessions that were killed


class SharedBudget(ABC):
    """A run's part of a budget that runs on several machines share. All amounts are in US dollars.

    Attributes:
        granted: The amount that the run's cost may not exceed.
        need: Returns the amounts that the run needs now.
        answered: Called with the spending of all other sessions when more was granted or refused.
    """

    granted: float
    need: Callable[[], Need]
    on_answer: Callable[[float], None]

    @abstractmethod
    async def join(self) -> PastSpending:
        """Take over the spending of the run's earlier sessions, and return all past spending."""

    @abstractmethod
    def start(self, report: Report) -> None:
        """Start to exchange amounts with the other runs. ``report`` receives what prevents it."""

    @abstractmethod
    def request_more(self) -> bool:
        """Return whether the amount that the run needs may be granted, and ask for it if so."""

    @abstractmethod
    async def aclose(self) -> None:
        """Give back what the run was granted but has not used."""


SaveReservations = Callable[[float, float], Awaitable[None]]
"""Saves to disk what a session has reserved.

Takes two amounts in US dollars: the change in the reservations since the last record, and an upper
bound on the run's cost so far.
"""


class Budget:
    """A run's budget: a cap on its cost. All amounts are in US dollars.

    Reservations are saved before calls are sent. If a session is killed, its reservations
    therefore count as spent.

    Args:
        usd: The cap.
        spent: Cost so far of this run and of the other runs that share the budget.
        stop: Stops the run when a call does not fit.
        unsure: The part of ``spent`` for calls without an answer, which may have been billed.
        shared: The part of ``spent`` that is the other runs' cost.
        record: Saves the reservations, or None to keep them in memory only.
        sharing: The run's part of a budget that it shares with runs on other machines.
        status: Receives the budget's status messages.
    """

    def __init__(
        self,
        usd: float,
        spent_usd: float,
        stop: Stop,
        *,
        unsure_usd: float = 0.0,
        spent_by_others: float = 0.0,
        save: SaveReservations | None = None,
        shared_budget: SharedBudget | None = None,
        status: Report = lambda _: None,
    ) -> None:
        self.usd = usd
        self.spent_usd = spent_usd
        self.unsure_usd = unsure_usd
        self.unmet_usd = 0.0
        self.broken: BudgetBroken | None = None
        self._shared = spent_by_others
        self._record = save
        self._sharing = shared_budget
        self._status = status
        self._reserved = 0.0
        self._held: dict[str, float] = {}
        """Reservations of calls in batches, by key. The cache records them with the batches."""
        self._held_usd = 0.0
        # The amounts last saved to disk: the reservations, and the run's maximum cost
        self._recorded = 0.0
        self._most = 0.0
        self._recording: asyncio.Future[None] | None = None
        self._stop = stop
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()
        self._in_flight: set[TimeLimit] = set()
        stop.on_stop(self._dismiss)
        if shared_budget is not None:
            shared_budget.need = self._need
            shared_budget.on_answer = self._answered

    @property
    def is_exhausted(self) -> bool:
        """Whether a call that did not fit into the budget has stopped the run."""
        return self.unmet_usd > 0

    def reserve_batched(self, key: str, max_usd: float) -> None:
        """Reserve the maximum cost of a call in a batch, even if it does not fit."""
        self._held_usd += max_usd - self._held.get(key, 0.0)
        self._held[key] = max_usd

    def batched_reservation(self, key: str) -> float:
        """Return the amount reserved for a call in a batch (0 if none is)."""
        return self._held.get(key, 0.0)

    def settle_batched(self, key: str, cost: float = 0.0, *, unsure: bool = False) -> None:
        """Replace a batched call's reservation, if any, with the call's cost."""
        if (max_usd := self._held.pop(key, None)) is not None:
            self._held_usd = self._held_usd - max_usd if self._held else 0.0
            self.settle(0.0, cost, unsure=unsure)

    async def reserve(self, max_usd: float, key: str = "") -> None:
        """Reserve a call's maximum cost, waiting until it fits into the budget.

        Args:
            max_usd: The maximum cost.
            key: The key of a call that is to be made in a batch, whose reservation `release` ends.
                Empty for any other call.

        Raises:
            Stopping: If the cost can never fit, or if the run is stopping for another reason.
        """
        if self._stop.requested:
            raise Stopping
        if not self._waiting and self._fits(max_usd):
            self._reserved += max_usd
        else:
            await self._turn(max_usd)
        if key:  # at once, so that the sum of both stays the same
            self._reserved -= max_usd
            self.reserve_batched(key, max_usd)
        try:
            while (record := self._record) and not self._is_recorded():
                if self._recording is None or self._recording.done():
                    self._recording = asyncio.ensure_future(self._raise(record))
                await asyncio.shield(self._recording)
            if self._stop.requested:
                raise Stopping
        except BaseException:
            if key:
                self.settle_batched(key)
            else:
                self.settle(max_usd, 0.0)
            raise

    async def _turn(self, max_usd: float) -> None:
        """Wait until a call's maximum cost fits, and reserve it."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((max_usd, turn))
        if len(self._waiting) == 1 and self._sharing is None:
            self._status(WAITING_STATUS)
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:  # served at the same moment
                self.settle(max_usd, 0.0)
            raise

    def _is_recorded(self) -> bool:
        return max(self._reserved - self._recorded, self._own - self._most) <= ROUNDING_USD

    @property
    def _own(self) -> float:
        """An upper bound on the run's cost so far, over all its sessions (US dollars)."""
        # Failed calls release what they reserved, which may leave a remainder slightly below 0.
        return max(0.0, self.spent_usd - self._shared + self._reserved + self._held_usd)

    async def _raise(self, record: SaveReservations) -> None:
        """Record higher reservations on disk: more than needed, so that few later calls wait."""
        reserved = max(self._reserved, min(1.2 * self._reserved, self.usd - self.spent_usd))
        more = max(0.0, reserved - self._recorded)
        max_usd = min(self._own + max(self._reserved, self.usd / 20), self.usd - self._shared)
        max_usd = max(self._most, self._own, max_usd)  # other calls use the old value meanwhile
        await record(more, max_usd)
        self._recorded += more  # added up as in the database, so that `close` leaves no remainder
        self._most = max_usd

    async def close(self) -> None:
        """Release the unused part of the session's recorded reservations."""
        if self._record is not None and self._recording is not None:
            await asyncio.wait([self._recording])
            left = self._reserved if self._reserved > ROUNDING_USD else 0.0
            await self._record(left - self._recorded, self._own)

    def settle(self, max_usd: float, cost: float, *, unsure: bool = False) -> None:
        """Replace a call's reservation (``max_usd``) with its cost.

        ``unsure`` says that the cost is a maximum which the provider may not have billed.
        """
        self._reserved -= max_usd
        self.spent_usd += cost
        if unsure:
            self.unsure_usd += cost
        self._serve()

    def _fits(self, max_usd: float) -> bool:
        cap = self.usd if self._sharing is None else self._sharing.granted + self._shared
        return self.spent_usd + self._reserved + self._held_usd + max_usd <= cap + ROUNDING_USD

    def _need(self) -> Need:
        waiting = [max_usd for max_usd, turn in self._waiting if not turn.done()]
        return Need(
            spent=max(0.0, self.spent_usd - self._shared),
            reserved=self._own,
            with_next=self._own + sum(waiting[:1]),
            with_all=self._own + sum(waiting),
        )

    def _answered(self, by_others: float) -> None:
        self.spent_usd += by_others - self._shared
        self._shared = by_others
        self._serve()
        if self._waiting:
            self._status(WAITING_STATUS)

    def _serve(self) -> None:
        while self._waiting:
            max_usd, turn = self._waiting[0]
            if turn.done():  # cancelled
                self._waiting.popleft()
            elif self._fits(max_usd):
                self._waiting.popleft()
                self._reserved += max_usd
                turn.set_result(None)
            elif self._sharing is not None and self._sharing.request_more():
                return  # the answer serves again
            elif self._reserved + self._held_usd > ROUNDING_USD:
                return  # a call in flight may cost less than it has reserved
            else:
                self.unmet_usd = max_usd
                self._stop.request()
                return
        self._status("")

    @contextlib.asynccontextmanager
    async def cancellable(self) -> AsyncIterator[None]:
        """Let `abort` cancel the call that is made in the ``with`` block.

        Raises:
            TimeoutError: If the call is cancelled in this way.
        """
        limit = TimeLimit()
        self._in_flight.add(limit)
        try:
            async with limit:
                yield
        finally:
            self._in_flight.discard(limit)

    def abort(self, problem: BudgetBroken) -> None:
        """Stop the run because a call has cost more than its maximum: cancel the other calls."""
        if self.broken is None:
            self.broken = problem
            for limit in self._in_flight:
                limit.expire()
        self._stop.request()

    def _dismiss(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()[1]
            if not turn.done():
                turn.set_exception(Stopping())


@dataclass(eq=False)
class BudgetedCalls:
    """The layer that makes a model's calls under a budget. Amounts are in US dollars.

    ``most`` returns the maximum cost of a call, given its maximum input and output tokens.
    ``cost_of`` returns the cost of a reply, or None if unknown. ``charge`` saves the cost of a call
    that got no reply but may be billed.
    """

    ask: Ask
    budget: Budget
    _: KW_ONLY
    max_cost: Callable[[int, int], float]
    cost_of: Callable[[Reply], float | None]
    charge: Callable[[float], asyncio.Future[None]]

    async def __call__(self, request: Request) -> Reply:
        """Make a call as soon as the budget allows it.

        The caller must `settle` the reply, and each of the replies to the request's other samples.

        Raises:
            Stopping: If the maximum cost can never fit, or the run is stopping.
        """
        per_sample = self.max_cost(*token_bounds(request))
        max_usd = per_sample * (1 + len(request.others))
        await self.budget.reserve(max_usd)
        try:
            async with self.budget.cancellable():
                reply = await self.ask(request)
            if lacking := len(request.others) - len(reply.others):
                self.budget.settle(per_sample * lacking, 0.0)
            return reply
        except (asyncio.CancelledError, TimeoutError) as error:
            # The provider may still finish the call and bill it. Nothing awaits the payment, so its
            # exception is consumed here.
            self.charge(max_usd).add_done_callback(lambda f: f.cancelled() or f.exception())
            self.budget.settle(max_usd, max_usd, unsure=True)
            if isinstance(error, TimeoutError):  # the budget is broken
                raise Stopping from None
            raise
        except BaseException as error:
            billed = isinstance(error, CallError) and (error.billed or error.kind in MAYBE_BILLED)
            try:
                if billed:
                    await self.charge(max_usd)
            finally:
                self.budget.settle(max_usd, max_usd if billed else 0.0, unsure=billed)
            raise

    def cost(self, request: Request, reply: Reply) -> float:
        """Return a reply's cost, or the maximum if unknown. Stop the run if the cost is higher."""
        usage = plausible_usage(reply)
        cost = self.cost_of(reply)
        read, written = token_bounds(request)
        max_usd = self.max_cost(read, written)
        if cost is None:
            return max_usd
        if usage is not None and cost > max_usd + ROUNDING_USD:
            self.budget.abort(
                BudgetBroken(
                    f"The provider counts {usage.input_tokens:,} input and "
                    f"{usage.output_tokens:,} output tokens for a call of at most "
                    f"{written:,} output tokens: it has cost ${cost:,.4f}, and at most "
                    f"${max_usd:,.4f} was expected. The budget cannot be kept.",
                    "Raise decoding.max_tokens to what its answers use, or remove budget.usd.",
                )
            )
        return cost

    def settle(self, request: Request, reply: Reply) -> None:
        """Replace the reservation of an answered call with its cost."""
        max_usd = self.max_cost(*token_bounds(request))
        cost = self.cost(request, reply)
        self.budget.settle(max_usd, cost, unsure=self.cost_of(reply) is None)


def plausible_usage(reply: Reply) -> Usage | None:
    """Return a reply's usage, or None if it is missing or implausibly zero."""
    usage = reply.usage
    if usage is not None and not (usage.input_tokens or usage.output_tokens):
        return None if reply.text.strip() and reply.finish_reason not in REFUSALS else usage
    return usage


def reply_cost(reply: Reply, price: Price | None) -> float | None:
    """Return a reply's cost in US dollars, or None if unknown."""
    if price is None:
        return None
    if price == FREE:
        return 0.0
    usage = plausible_usage(reply)
    tier_price = price.batch if reply.batch else price.tier(reply.tier)
    return None if usage is None or tier_price is None else tier_price.cost(usage)


def token_bounds(request: Request) -> tuple[int, int]:
    """Return upper bounds on a request's input and output tokens.

    The input bound counts one token per byte of UTF-8, since no tokeniser uses more. The output
    bound covers the answers that ``n`` or ``best_of`` in the extra parameters add, but not
    `Request.others`.

    Raises:
        ConfigError: If the request does not limit the length of an answer.
    """
    read = sum(len(m.content.encode()) + MESSAGE_TOKENS for m in request.sent_messages)
    read += sum(len(m.reasoning_state or "") for m in request.messages)
    extra = request.decoding.extra
    constraint = request.decoding.constraint
    form = constraint.specified_fields() if isinstance(constraint, DecodingConstraint) else {}
    read += sum(len(msgspec.json.encode(fields)) for fields in (extra, form) if fields)
    if form or extra.keys() & FORM_PARAMETERS:
        read += FORM_TOKENS
    stated = [request.decoding.max_tokens, *map(extra.get, ("max_tokens", "max_completion_tokens"))]
    written = max((n for n in stated if isinstance(n, int)), default=None)
    if written is None:
        problem = "budget.usd is set, but the length of an answer is not limited."
        raise ConfigError(problem, "Set decoding.max_tokens.")
    answers = [n for n in (extra.get("n"), extra.get("best_of")) if isinstance(n, int)]
    return read, written * max([1, *answers])
