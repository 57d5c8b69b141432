"""One session of paid work, as opened by a run, a later judge and a curation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Literal
from uuid import uuid4

from harness.calls.budget import Budget, Budgeted
from harness.calls.calls import Ask, Calls, FreeCalls, PaidCalls
from harness.calls.circuit import Circuit, Startup
from harness.calls.concurrency import START, ConcurrencyLimiter
from harness.calls.reply_cache import Payment, ReplyCache
from harness.calls.retry import Retry
from harness.calls.signals import Notices, Stop
from harness.config.settings import Settings
from harness.ports import PreferredConcurrency, Startable
from harness.records import Call, Reply, Request
from harness.run.cache_file import open_cache
from harness.run.models import FREE, Model, state_limits
from harness.store.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class BoundModel:
    """A model with its call stack: cache, retries, budget and limits."""

    model: Model
    call: Calls

    @property
    def name(self) -> str:
        """Return the model's name as in requests."""
        return self.model.section.name

    def cost(self, call: Call) -> float | None:
        """Return what a call cost in US dollars, or None if unknown."""
        return self.model.cost(call)


@dataclass(frozen=True, slots=True)
class Session:
    """Resources shared by all work of one session.

    Attributes:
        run_id: The run's id in the record of payments.
        stop: Asks the session to end once the calls in flight are done.
        replies, budget: None if nothing is paid for, or there is no cap.
    """

    run_id: str
    stop: Stop
    notices: Notices
    replies: ReplyCache | None = None
    budget: Budget | None = None
    _bound: dict[int, BoundModel] = field(default_factory=dict)

    def bind(self, model: Model) -> BoundModel:
        """Return the model with its call stack, the same one each time."""
        if id(model) not in self._bound:
            self._bound[id(model)] = BoundModel(model, _call_stack(model, self))
        return self._bound[id(model)]

    @property
    def ended(self) -> Literal["budget", "interrupted"]:
        """Return why work is unfinished."""
        return "budget" if self.budget is not None and self.budget.ended else "interrupted"


@contextlib.asynccontextmanager
async def open_session(
    models: Sequence[Model],
    settings: Settings,
    run_id: str,
    *,
    folder: RunFolder | None = None,
    usd: float | None = None,
    sharing: Sequence[RunFolder] = (),
) -> AsyncIterator[Session]:
    """Lock a run's folder, open the cache and the budget, and close the models at the end.

    Args:
        models: All models that may be called.
        settings: Contains the cache folder.
        run_id: Id in the record of payments, unless the folder's manifest has one.
        folder: The run's folder; None for work that has its own lock.
        usd: Budget in US dollars; None for no cap.
        sharing: Folders of further runs that the budget is shared with.
    """
    stop, notices = Stop(), Notices()
    async with contextlib.AsyncExitStack() as stack:
        if folder is not None:
            stack.enter_context(folder.hold())
            run_id = folder.run_id() or run_id
        for model in {id(model): model for model in models}.values():
            stack.push_async_callback(model.backend.aclose)
            model.headers.report = notices.status(f"{model.section.name}, rate limit")
        replies = budget = None
        if any(model.backend.cacheable for model in models):
            replies = stack.enter_context(open_cache(settings, notices.status("cache")))
            if usd is not None:
                paid = [_paid(folder, replies.booked(run_id))]
                paid += [_paid(one, replies.booked(one.run_id() or "")) for one in sharing]
                spent, unsure = (fsum(column) for column in zip(*paid, strict=True))
                budget = Budget(usd, spent, stop, unsure=unsure)
        state_limits(models)  # now and not before: another variant may have stated its own
        yield Session(run_id, stop, notices, replies, budget)


def _paid(folder: RunFolder | None, booked: Mapping[bytes, float]) -> tuple[float, float]:
    """Return what a run has spent (US dollars), and how much of it for calls without an answer.

    The record of payments includes failed calls that may be billed. But it is in the cache, which
    may have been cleared, and it begins with the budget, which may have been set later: the calls
    that it lacks are taken from the attempts and judgements.
    """
    from harness.store.calls import read_payments  # a run without a budget needs no NumPy

    recorded = {} if folder is None else read_payments(folder.attempts)
    unsure = fsum(usd for key, usd in booked.items() if key not in recorded)
    return fsum(booked.get(key, usd) for key, usd in recorded.items()) + unsure, unsure


def _call_stack(model: Model, session: Session) -> Calls:
    """Build everything between the workers and a model's backend, from the bottom up.

    A request passes it from the top down: cache, retry, circuit, budget (for a priced model of a
    run with one), startup (of a backend that has to start), limiter. Simulated and recorded models
    have no cache.
    """
    limits, stop, backend, price = model.limits, session.stop, model.backend, model.price
    name, replies, budget = model.section.backend, session.replies, session.budget
    status = session.notices.status(model.section.name or name)
    limiter = ConcurrencyLimiter(
        backend,
        stop,
        most=limits.concurrency,
        timeout_s=limits.timeout_s,
        rates=model.rates,
        # Our own server queues what it cannot take yet, and refuses no call.
        start=backend.preferred_concurrency if isinstance(backend, PreferredConcurrency) else START,
    )
    ask: Ask = limiter
    if isinstance(backend, Startable):
        ask = Startup(limiter, backend, stop, status)
    budgeted = None
    if budget is not None and replies is not None and price not in (None, FREE):

        def charge(_: Request, usd: float) -> asyncio.Future[None]:
            return replies.charge(uuid4().hex, Payment(session.run_id, usd))

        ask = budgeted = Budgeted(ask, budget, most=price.most, cost_of=price.cost, charge=charge)
    circuit = Circuit(
        ask,
        attempts=limits.attempts,
        outage_s=limits.outage_s,
        sleep=stop.sleep,
        status=status,
        opened=limiter.close,
        restored=limiter.reopen,
    )
    retry = Retry(circuit, attempts=limits.attempts, sleep=stop.sleep)
    if not backend.cacheable or replies is None:
        by_instance = "by_instance" in backend.features
        return FreeCalls(
            ask=retry, backend=name, endpoint=backend.endpoint, by_instance=by_instance
        )

    def pays(request: Request, reply: Reply) -> Payment | None:
        return Payment(session.run_id, budgeted.cost(request, reply)) if budgeted else None

    return PaidCalls(
        retry, backend=name, endpoint=backend.endpoint, replies=replies, pays=pays, sleep=stop.sleep
    )
