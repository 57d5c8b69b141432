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
FORM_PARAMETERS = frozenset({"functions", "response_format", "tools"})
"""Extra parameters that describe the form of an answer, for which providers add tokens."""
FORM_TOKENS = 600  # upper bound on the tokens that a provider adds to tools or a schema
ROUNDING_USD = 1e-9  # tolerance in US dollars: sums of prices are not exact
WAITING_STATUS = "waiting for calls in flight, which may cost less than is reserved for them"


class Need(NamedTuple):
    """Upper bounds on a run's cost over all of its sessions, for a shared budget (US dollars)."""

    spent: float  # so far
    reserved: float  # with the calls in flight
    with_next: float  # with the calls in flight and the next waiting call
    with_all: float  # with the calls in flight and all waiting calls


class PastSpending(NamedTuple):
    """The amounts spent from a shared budget before a session (US dollars)."""

    by_run: float  # by earlier sessions of the session's run
    by_others: float
    unsure: float  # the part of `by_run` that was reserved by sessions that were killed


class SharedBudget(ABC):
    """A run's part of a budget that runs on several machines share. All amounts are in US dollars.

    Attributes:
        granted: The maximum cost of the run so far.
        need: Returns the amounts that the run needs now.
        on_answer: Called when more was granted or refused, with what the other runs have spent.
    """

    granted: float
    need: Callable[[], Need]
    on_answer: Callable[[float], None]

    @abstractmethod
    async def join(self) -> PastSpending:
        """Join the budget, and return what the run's earlier sessions and other runs have spent."""

    @abstractmethod
    def start(self, report: Report) -> None:
        """Start to exchange amounts with the other runs. ``report`` receives any obstacle."""

    @abstractmethod
    def request_more(self) -> bool:
        """Request the amount that the run needs, and return whether it may still be granted."""

    @abstractmethod
    async def aclose(self) -> None:
        """Give back what the run was granted but has not used."""


SaveReservations = Callable[[float, float], Awaitable[None]]
"""Saves a session's reservations to disk.

Takes two amounts in US dollars: the change of the reservations since the last call, and an upper
bound on the run's cost so far.
"""


class Budget:
    """A run's budget: a cap on its cost. All amounts are in US dollars.

    Reservations are saved before calls are sent. If a session is killed, its reservations
    therefore count as spent.

    Args:
        usd: The cap.
        spent_usd: Cost so far of this run and of the other runs that share the budget.
        stop: Stops the run when a call does not fit.
        unsure_usd: The part of ``spent_usd`` for calls without an answer, which the provider may
            not have billed.
        spent_by_others: The part of ``spent_usd`` that is the other runs' cost.
        save: Saves the reservations, or None to keep them in memory only.
        shared_budget: The run's part of a budget that it shares with runs on other machines.
        status: Receives the budget's status messages.

    Attributes:
        unmet_usd: The maximum cost of the call that did not fit and has stopped the run, or 0.
        broken: The error if a call has cost more than its maximum, or None.
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
        self._spent_by_others = spent_by_others
        self._save = save
        self._shared_budget = shared_budget
        self._status = status
        self._reserved = 0.0
        self._batched: dict[str, float] = {}
        """Reservations of calls in batches, by key. The cache records them with the batches."""
        self._batched_usd = 0.0  # their sum
        self._saved_reserved = 0.0  # the reservations last saved to disk
        self._saved_max_usd = 0.0  # the upper bound on the run's cost last saved to disk
        self._saving: asyncio.Future[None] | None = None
        self._stop = stop
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()
        self._in_flight: set[TimeLimit] = set()
        stop.on_stop(self._dismiss)
        if shared_budget is not None:
            shared_budget.need = self._need
            shared_budget.on_answer = self._on_answer

    @property
    def is_exhausted(self) -> bool:
        """Whether the run was stopped because a call did not fit into the budget."""
        return self.unmet_usd > 0

    def reserve_batched(self, key: str, max_usd: float) -> None:
        """Reserve the maximum cost of a batched call, even if it exceeds the budget."""
        self._batched_usd += max_usd - self._batched.get(key, 0.0)
        self._batched[key] = max_usd

    def batched_reservation(self, key: str) -> float:
        """Return the amount reserved for a batched call, or 0."""
        return self._batched.get(key, 0.0)

    def settle_batched(self, key: str, cost: float = 0.0, *, unsure: bool = False) -> None:
        """Replace a batched call's reservation, if any, with the call's cost.

        Args:
            key: The call's key.
            cost: The cost.
            unsure: Whether the cost is a maximum that the provider may not have billed.
        """
        if (max_usd := self._batched.pop(key, None)) is not None:
            self._batched_usd = self._batched_usd - max_usd if self._batched else 0.0
            self.settle(0.0, cost, unsure=unsure)

    async def reserve(self, max_usd: float, key: str = "") -> None:
        """Reserve a call's maximum cost, waiting until it fits into the budget.

        Args:
            max_usd: The maximum cost.
            key: The key of a batched call, whose reservation lasts until `settle_batched`. Empty
                for any other call.

        Raises:
            Stopping: If the cost can never fit, or if the run is stopping for another reason.
        """
        if self._stop.requested:
            raise Stopping
        if not self._waiting and self._fits(max_usd):
            self._reserved += max_usd
        else:
            await self._wait_until_fits(max_usd)
        if key:  # at once, so that the sum of both stays the same
            self._reserved -= max_usd
            self.reserve_batched(key, max_usd)
        try:
            while (save := self._save) and not self._is_saved():
                if self._saving is None or self._saving.done():
                    self._saving = asyncio.ensure_future(self._save_increase(save))
                await asyncio.shield(self._saving)
            if self._stop.requested:
                raise Stopping
        except BaseException:
            if key:
                self.settle_batched(key)
            else:
                self.settle(max_usd, 0.0)
            raise

    async def _wait_until_fits(self, max_usd: float) -> None:
        """Wait until a call's maximum cost fits, and reserve it."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((max_usd, turn))
        if len(self._waiting) == 1 and self._shared_budget is None:
            self._status(WAITING_STATUS)
        self._admit_waiting()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:  # admitted at the same moment
                self.settle(max_usd, 0.0)
            raise

    def _is_saved(self) -> bool:
        unsaved_reserved = self._reserved - self._saved_reserved
        unsaved_max_usd = self._run_max_usd - self._saved_max_usd
        return max(unsaved_reserved, unsaved_max_usd) <= ROUNDING_USD

    @property
    def _run_max_usd(self) -> float:
        """An upper bound on the run's cost so far, over all its sessions."""
        # Failed calls release what they reserved, which may leave a remainder slightly below 0.
        return max(0.0, self.spent_usd - self._spent_by_others + self._reserved + self._batched_usd)

    async def _save_increase(self, save: SaveReservations) -> None:
        """Save higher reservations to disk: more than needed, so that few later calls wait."""
        reserved = max(self._reserved, min(1.2 * self._reserved, self.usd - self.spent_usd))
        increase = max(0.0, reserved - self._saved_reserved)
        max_usd = min(
            self._run_max_usd + max(self._reserved, self.usd / 20), self.usd - self._spent_by_others
        )
        max_usd = max(
            self._saved_max_usd, self._run_max_usd, max_usd
        )  # other calls use the old value meanwhile
        await save(increase, max_usd)
        self._saved_reserved += (
            increase  # added up as in the database, so that `close` leaves no remainder
        )
        self._saved_max_usd = max_usd

    async def close(self) -> None:
        """Release the unused part of the session's saved reservations."""
        if self._save is not None and self._saving is not None:
            await asyncio.wait([self._saving])
            reserved = self._reserved if self._reserved > ROUNDING_USD else 0.0
            await self._save(reserved - self._saved_reserved, self._run_max_usd)

    def settle(self, max_usd: float, cost: float, *, unsure: bool = False) -> None:
        """Replace a call's reservation with its cost.

        Args:
            max_usd: The reservation.
            cost: The cost.
            unsure: Whether the cost is a maximum that the provider may not have billed.
        """
        self._reserved -= max_usd
        self.spent_usd += cost
        if unsure:
            self.unsure_usd += cost
        self._admit_waiting()

    def _fits(self, max_usd: float) -> bool:
        cap = (
            self.usd
            if self._shared_budget is None
            else self._shared_budget.granted + self._spent_by_others
        )
        return self.spent_usd + self._reserved + self._batched_usd + max_usd <= cap + ROUNDING_USD

    def _need(self) -> Need:
        waiting = [max_usd for max_usd, turn in self._waiting if not turn.done()]
        return Need(
            spent=max(0.0, self.spent_usd - self._spent_by_others),
            reserved=self._run_max_usd,
            with_next=self._run_max_usd + sum(waiting[:1]),
            with_all=self._run_max_usd + sum(waiting),
        )

    def _on_answer(self, by_others: float) -> None:
        self.spent_usd += by_others - self._spent_by_others
        self._spent_by_others = by_others
        self._admit_waiting()
        if self._waiting:
            self._status(WAITING_STATUS)

    def _admit_waiting(self) -> None:
        while self._waiting:
            max_usd, turn = self._waiting[0]
            if turn.done():  # cancelled
                self._waiting.popleft()
            elif self._fits(max_usd):
                self._waiting.popleft()
                self._reserved += max_usd
                turn.set_result(None)
            elif self._shared_budget is not None and self._shared_budget.request_more():
                return  # the answer calls this method again
            elif self._reserved + self._batched_usd > ROUNDING_USD:
                return  # a call in flight may cost less than it has reserved
            else:
                self.unmet_usd = max_usd
                self._stop.request()
                return
        self._status("")

    @contextlib.asynccontextmanager
    async def cancellable(self) -> AsyncIterator[None]:
        """Allow `abort` to cancel the call that is made in the ``with`` block.

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
        """Stop the run and cancel its calls, because a call has cost more than its maximum."""
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

    Args:
        ask: The layers below.
        budget: The budget.
        max_cost: Returns the maximum cost of a call, given its maximum input and output tokens.
        cost_of: Returns the cost of a reply, or None if unknown.
        charge: Saves the cost of a call that got no reply but may be billed.
    """

    ask: Ask
    budget: Budget
    _: KW_ONLY
    max_cost: Callable[[int, int], float]
    cost_of: Callable[[Reply], float | None]
    charge: Callable[[float], asyncio.Future[None]]

    async def __call__(self, request: Request) -> Reply:
        """Send the request once the budget allows it, and return the reply.

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
            if n_missing := len(request.others) - len(reply.others):
                self.budget.settle(per_sample * n_missing, 0.0)
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
        """Return a reply's cost, or the call's maximum cost if unknown.

        If the cost exceeds the maximum, the run is stopped.
        """
        usage = plausible_usage(reply)
        cost = self.cost_of(reply)
        max_input, max_output = token_bounds(request)
        max_usd = self.max_cost(max_input, max_output)
        if cost is None:
            return max_usd
        if usage is not None and cost > max_usd + ROUNDING_USD:
            self.budget.abort(
                BudgetBroken(
                    f"The provider counts {usage.input_tokens:,} input and "
                    f"{usage.output_tokens:,} output tokens for a call of at most "
                    f"{max_output:,} output tokens: it has cost ${cost:,.4f}, and at most "
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
    """Return a reply's usage, or None if it is missing or has no output tokens for a text."""
    usage = reply.usage
    if usage is not None and not usage.output_tokens:
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
    max_input = sum(len(m.content.encode()) + MESSAGE_TOKENS for m in request.sent_messages)
    max_input += sum(len(m.reasoning_state or "") for m in request.messages)
    extra = request.decoding.extra
    constraint = request.decoding.constraint
    form = constraint.specified_fields() if isinstance(constraint, DecodingConstraint) else {}
    max_input += sum(len(msgspec.json.encode(fields)) for fields in (extra, form) if fields)
    if form or extra.keys() & FORM_PARAMETERS:
        max_input += FORM_TOKENS
    parameters = ("max_tokens", "max_completion_tokens")
    maxima = [request.decoding.max_tokens, *map(extra.get, parameters)]
    max_output = max((tokens for tokens in maxima if isinstance(tokens, int)), default=None)
    if max_output is None:
        problem = "budget.usd is set, but the length of an answer is not limited."
        raise ConfigError(problem, "Set decoding.max_tokens.")
    n_answers = [n for n in (extra.get("n"), extra.get("best_of")) if isinstance(n, int)]
    return max_input, max_output * max([1, *n_answers])
