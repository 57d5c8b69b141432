"""The call stack of a model: cache, retry, circuit, budget and limits, put together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from uuid import uuid4

from harness.calls.budget import Budget, Budgeted
from harness.calls.calls import Ask, Calls, FreeCalls, PaidCalls
from harness.calls.circuit import Circuit, Startup
from harness.calls.concurrency import START, ConcurrencyLimiter
from harness.calls.reply_cache import Payment, ReplyCache
from harness.calls.retry import Retry
from harness.calls.signals import Notices, Stop
from harness.ports import PreferredConcurrency, Startable
from harness.records import Reply, Request
from harness.run.parts import FREE, Model


@dataclass(frozen=True, slots=True)
class Session:
    """What all models of one session on a run share.

    run_id: the run's, in the book of payments.
    replies: the file of paid replies; None where nothing is paid for.
    budget: None where the run has none.
    """

    run_id: str
    stop: Stop
    notices: Notices
    replies: ReplyCache | None
    budget: Budget | None


def call_stack(model: Model, session: Session) -> Calls:
    """All that stands between the scheduler and a model's backend."""
    limits, stop, backend = model.limits, session.stop, model.backend
    name = model.section.backend
    limiter = ConcurrencyLimiter(
        backend,
        stop,
        most=limits.concurrency,
        timeout_s=limits.timeout_s,
        limits=model.rates,
        # A server of one's own queues what it cannot take yet, and refuses nobody.
        start=backend.preferred_concurrency if isinstance(backend, PreferredConcurrency) else START,
    )
    ask: Ask = limiter
    status = session.notices.status(model.section.name or name)
    if isinstance(backend, Startable):
        ask = Startup(limiter, backend, stop, status)
    budgeted = None
    costs = model.price not in (None, FREE)
    if costs and session.budget is not None and session.replies is not None:
        ask = budgeted = _budgeted(ask, model, session.budget, session.replies, session.run_id)
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
    if not backend.cacheable or session.replies is None:
        by_instance = "by_instance" in backend.features
        return FreeCalls(retry, backend=name, endpoint=backend.endpoint, by_instance=by_instance)

    def pays(request: Request, reply: Reply) -> Payment | None:
        return Payment(session.run_id, budgeted.cost(request, reply)) if budgeted else None

    return PaidCalls(
        retry,
        backend=name,
        endpoint=backend.endpoint,
        replies=session.replies,
        pays=pays,
        sleep=stop.sleep,
    )


def _budgeted(ask: Ask, model: Model, budget: Budget, replies: ReplyCache, run_id: str) -> Budgeted:
    price = model.price
    assert price is not None

    def charge(_: Request, usd: float) -> asyncio.Future[None]:
        return replies.charge(uuid4().hex, Payment(run_id, usd))

    return Budgeted(ask, budget, most=price.most, cost=price.cost, charge=charge)
