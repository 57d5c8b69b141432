"""Builds a model's call stack: the layers of `harness.calls` between workers and a backend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache, partial
from uuid import uuid4

from harness.calls.backend_layers import (
    BackendCalls,
    ModelAnswers,
    Startup,
    TimedCalls,
    timeout_error,
)
from harness.calls.budget import Budget, BudgetedCalls
from harness.calls.calls import CachedCalls, Calls, ClaimedCalls, UncachedCalls
from harness.calls.circuit import Circuit, RetryWaits
from harness.calls.concurrency import INITIAL_LIMIT, ConcurrencyLimiter
from harness.calls.joint_draws import JointDraws
from harness.calls.prompt_cache import PromptCaching
from harness.calls.rejections import RejectionLimit
from harness.calls.reply_cache import Payment, ReplyCache
from harness.calls.signals import Ask, Load
from harness.config.prices import FREE, Price
from harness.engine.infrastructure import LaterCalls, ModelCalls
from harness.engine.models import Model
from harness.engine.reasoning import SeparatedCalls
from harness.engine.session import BoundModel, Session
from harness.errors import rename_model_keys
from harness.ports import Backend, overrides_method
from harness.records import Reply, Request


def bind(session: Session, model: Model) -> BoundModel:
    """Return a model with its call stack, which is built once per session."""
    if id(model) not in session.bound:
        session.bound[id(model)] = BoundModel(model, call_stack(model, session))
    return session.bound[id(model)]


def call_stack(model: Model, session: Session) -> Calls:
    """Build the call stack between the workers and a model's backend.

    A request passes through these layers, from the top down: reasoning, cache, rejections, layers
    of plug-ins (such as batches), joint draws (if several samples are drawn with one call), prompt
    caching (if the backend supports it), circuit with retries, waits for retries, startup (if the
    backend has to start), limiter, claim, budget (if the run has one and the model has a price),
    time limit, code errors. Simulated and recorded models have no cache, claim or budget
    (`UncachedCalls`).
    """
    limits = model.limits
    stop = session.stop
    backend = model.backend
    price = model.price
    source = model.section.name or model.section.backend
    status = session.notices.reporter(source)
    key = model.key(session.run_id)
    answered = session.answered if model.evaluated else ModelAnswers()
    code = BackendCalls(backend, session.first, model.counts_crashes, answered)
    hung = code.timeout_error if model.counts_crashes else timeout_error
    layer: Ask = TimedCalls(code, limits.timeout_s, hung)
    claim: ClaimedCalls | None = None
    budgeted: BudgetedCalls | None = None
    if backend.cacheable and session.replies is not None:
        if session.budget is not None and price is not None and price != FREE:
            layer = budgeted = _budgeted(layer, model, price, session, session.replies)
        layer = claim = ClaimedCalls(layer, session.replies, key, stop.sleep)
    layer = limiter = ConcurrencyLimiter(
        layer,
        stop,
        ceiling=limits.concurrency,
        rates=model.rates,
        # Our own server queues what it cannot process yet, and refuses no call.
        start=backend.preferred_concurrency or INITIAL_LIMIT,
        capacity=_room(backend),
        status=session.notices.reporter(f"{source}, limits"),
    )
    session.limiters.append(limiter)
    session.notices.loads[model.where] = lambda: limiter.load
    if overrides_method(backend, Backend.start):
        layer = Startup(limiter, backend, stop, status)
    waits = RetryWaits(
        layer,
        max_wait_s=limits.outage_s,
        pause=stop.sleep,
        status=session.notices.reporter(f"{source}, retries"),
        on_long_wait=partial(session.notices.pauses.__setitem__, model.where),
    )

    async def control(request: Request) -> Reply:
        try:
            reply = await waits(request)
            if budgeted is not None:
                await budgeted.charge(budgeted.cost(request, reply))
                budgeted.settle(request, reply)
            return reply
        finally:
            if claim is not None:
                claim.release(key(request))

    layer = circuit = Circuit(
        waits,
        control,
        max_tries=limits.attempts,
        outage_s=limits.outage_s,
        sleep=waits.sleep,
        status=status,
        find_earlier=cache(lambda: session.earlier.get(model.where, lambda: None)()),
        on_probe=limiter.admit_only,
        on_restored=limiter.admit_all,
        is_program=not backend.endpoint,
    )
    if backend.prompt_caching:
        saved = price.cache_savings if price is not None else lambda usage: 0.0
        layer = PromptCaching(layer, model.prefixes, saved)
    if limits.samples_per_call > 1 and model.later is None:
        layer = JointDraws(layer, limits.samples_per_call)
    if claim is not None:
        priced = session.budget if budgeted is not None else None
        layer = _with_layers(model, session, layer, claim, limiter, priced)
    live = control if model.later is None else None
    rejections = RejectionLimit(layer, circuit.answered_request, live)

    def learn(request: Request) -> None:
        rejections.reset()
        circuit.remember_answered(request)

    async def ask(request: Request) -> Reply:
        with rename_model_keys(model.where):
            return await rejections(request)

    calls: Calls = UncachedCalls(ask, key)
    if claim is not None:
        calls = CachedCalls(
            ask,
            claim,
            backend=model.section.backend,
            cost_of=model.cost,
            run_id=session.run_id,
            unused=session.unused,
            budgeted=budgeted,
            answers=answered,
            on_cached=learn,
            merged_key_functions=session.merged_keys(model),
        )
    return SeparatedCalls(
        calls,
        model.reasoning,
        model.evaluated,
        session.unknown_marks[model.where],
        session.unknown_reasons[model.where],
    )


def _budgeted(
    ask: Ask, model: Model, price: Price, session: Session, replies: ReplyCache
) -> BudgetedCalls:
    """Return the layer that makes a model's calls under the session's budget."""
    assert session.budget is not None
    # The provider may answer in the standard tier instead of the one asked for.
    tier = price.tier(model.tier) or price

    def most(read: int, written: int) -> float:
        return max(price.max_cost(read, written), tier.max_cost(read, written))

    def charge(usd: float) -> asyncio.Future[None]:
        return replies.charge(uuid4().hex, Payment(session.account, usd))

    return BudgetedCalls(ask, session.budget, max_cost=most, cost_of=model.cost, charge=charge)


def _room(backend: Backend) -> Callable[[], int] | None:
    """Return the function that says how many calls may be in flight, if that changes."""
    if backend.capacity is None:
        return None
    return lambda: backend.capacity or 0


def _with_layers(
    model: Model,
    session: Session,
    ask: Ask,
    claim: ClaimedCalls,
    limiter: ConcurrencyLimiter,
    budget: Budget | None,
) -> Ask:
    """Put the layers that plug-ins add above a model's call stack."""
    for layer in session.layers:
        calls = ModelCalls(
            section=model.section,
            limits=model.limits,
            backend=model.backend,
            price=model.price,
            budget=budget,
            run=session.run_id,
            ask=ask,
            claim=claim,
            stop=session.stop,
            status=session.notices.reporter,
            busy=session.busy,
            leave=session.detach,
        )
        if (later := layer.above(calls)) is not None:
            ask = later
            session.later.append(later)
            session.notices.loads[model.where] = partial(_sum, limiter, later)
            later.start()
    return ask


def _sum(limiter: ConcurrencyLimiter, layer: LaterCalls) -> Load:
    calls = limiter.load
    later = layer.load
    return Load(
        calls.in_flight + later.in_flight,
        calls.waiting + later.waiting,
        calls.failed,
        calls.rate_limited,
        calls.limited_by or later.limited_by,
    )
