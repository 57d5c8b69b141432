"""Builds a model's call stack: the layers of `harness.calls` between workers and a backend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple
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
from harness.engine.infrastructure import DeferredCalls, ModelCalls
from harness.engine.models import Model
from harness.engine.reasoning import SeparatedCalls
from harness.engine.session import BoundModel, Session
from harness.errors import rename_model_keys
from harness.ports import Backend, overrides_method
from harness.records import Reply, Request


def bind(session: Session, model: Model) -> BoundModel:
    """Return a model with its call stack, which is built once per session."""
    if id(model) not in session.bound:
        session.bound[id(model)] = BoundModel(model, build_call_stack(model, session))
    return session.bound[id(model)]


class _LowerLayers(NamedTuple):
    """The layers of a call stack between its retries and the backend."""

    top: Ask
    limiter: ConcurrencyLimiter
    claim: ClaimedCalls | None  # None: the replies are not cached
    budgeted: BudgetedCalls | None  # None: the calls have no price or budget


def build_call_stack(model: Model, session: Session) -> Calls:
    """Build the call stack between the workers and a model's backend.

    A request passes through these layers, from the top down: reasoning, cache, rejections, layers
    of plug-ins (such as batches), joint draws (if several samples are drawn with one call), prompt
    caching (if the backend supports it), circuit with retries, waits for retries, startup (if the
    backend has to start), limiter, claim, budget (if the run has one and the model has a price),
    time limit, errors of the backend's code. Simulated and recorded models have no cache, claim or
    budget (`UncachedCalls`).
    """
    backend = model.backend
    price = model.price
    key = model.key(session.run_id)
    answers = session.answered if model.evaluated else ModelAnswers()
    lower = _build_lower_layers(model, session, key, answers)
    claim = lower.claim
    circuit = _build_circuit(model, session, key, lower)
    layer: Ask = circuit
    if backend.prompt_caching:
        savings = price.cache_savings if price is not None else lambda usage: 0.0
        layer = PromptCaching(layer, model.prefixes, savings)
    if model.limits.samples_per_call > 1 and model.deferral is None:
        layer = JointDraws(layer, model.limits.samples_per_call)
    if claim is not None:
        budget = session.budget if lower.budgeted is not None else None
        layer = _add_plugin_layers(model, session, layer, claim, lower.limiter, budget)
    control = circuit.control if model.deferral is None else None
    rejections = RejectionLimit(layer, circuit.answered_request, control)

    def remember_answered(request: Request) -> None:
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
            budgeted=lower.budgeted,
            answers=answers,
            on_cached=remember_answered,
            merged_key_functions=session.merged_key_functions(model),
        )
    return SeparatedCalls(
        calls,
        model.reasoning,
        model.evaluated,
        session.unknown_marks[model.where],
        session.unknown_reasons[model.where],
    )


def _build_lower_layers(
    model: Model, session: Session, key: Callable[..., str], answers: ModelAnswers
) -> _LowerLayers:
    limits = model.limits
    stop = session.stop
    backend = model.backend
    price = model.price
    source = _status_source(model)
    backend_calls = BackendCalls(backend, session.first, model.counts_crashes, answers)
    on_timeout = backend_calls.timeout_error if model.counts_crashes else timeout_error
    layer: Ask = TimedCalls(backend_calls, limits.timeout_s, on_timeout)
    claim: ClaimedCalls | None = None
    budgeted: BudgetedCalls | None = None
    if backend.cacheable and session.replies is not None:
        if session.budget is not None and price is not None and price != FREE:
            layer = budgeted = _budget_layer(layer, model, price, session, session.replies)
        layer = claim = ClaimedCalls(layer, session.replies, key, stop.sleep)
    layer = limiter = ConcurrencyLimiter(
        layer,
        stop,
        ceiling=limits.concurrency,
        rates=model.rates,
        # Our own server queues what it cannot process yet, and refuses no call.
        start=backend.preferred_concurrency or INITIAL_LIMIT,
        capacity=_capacity(backend),
        status=session.notices.reporter(f"{source}, limits"),
    )
    session.limiters.append(limiter)
    session.notices.loads[model.where] = lambda: limiter.load
    if overrides_method(backend, Backend.start):
        layer = Startup(limiter, backend, stop, session.notices.reporter(source))
    return _LowerLayers(layer, limiter, claim, budgeted)


def _build_circuit(
    model: Model, session: Session, key: Callable[..., str], lower: _LowerLayers
) -> Circuit:
    limits = model.limits
    source = _status_source(model)
    waits = RetryWaits(
        lower.top,
        max_wait_s=limits.outage_s,
        pause=session.stop.sleep,
        status=session.notices.reporter(f"{source}, retries"),
        on_long_wait=partial(session.notices.pauses.__setitem__, model.where),
    )

    async def control(request: Request) -> Reply:
        try:
            reply = await waits(request)
            if lower.budgeted is not None:
                await lower.budgeted.charge(lower.budgeted.cost(request, reply))
                lower.budgeted.settle(request, reply)
            return reply
        finally:
            if lower.claim is not None:
                lower.claim.release(key(request))

    return Circuit(
        waits,
        control,
        max_tries=limits.attempts,
        outage_s=limits.outage_s,
        sleep=waits.sleep,
        status=session.notices.reporter(source),
        find_earlier=cache(lambda: session.earlier.get(model.where, lambda: None)()),
        on_probe=lower.limiter.admit_only,
        on_restored=lower.limiter.admit_all,
        is_program=not model.backend.endpoint,
    )


def _status_source(model: Model) -> str:
    return model.section.name or model.section.backend


def _budget_layer(
    ask: Ask, model: Model, price: Price, session: Session, replies: ReplyCache
) -> BudgetedCalls:
    """Return the layer that makes a model's calls under the session's budget."""
    assert session.budget is not None
    # The provider may answer in the standard tier instead of the requested one.
    tier_price = price.tier(model.tier) or price

    def max_cost(read: int, written: int) -> float:
        return max(price.max_cost(read, written), tier_price.max_cost(read, written))

    def charge(usd: float) -> asyncio.Future[None]:
        return replies.charge(uuid4().hex, Payment(session.account, usd))

    return BudgetedCalls(ask, session.budget, max_cost=max_cost, cost_of=model.cost, charge=charge)


def _capacity(backend: Backend) -> Callable[[], int] | None:
    """Return a function that returns how many calls may be in flight, or None if it is constant."""
    if backend.capacity is None:
        return None
    return lambda: backend.capacity or 0


def _add_plugin_layers(
    model: Model,
    session: Session,
    ask: Ask,
    claim: ClaimedCalls,
    limiter: ConcurrencyLimiter,
    budget: Budget | None,
) -> Ask:
    """Add the layers of plug-ins above a model's call stack, and return the top one."""
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
            busy=session.is_busy,
            leave=session.detach,
        )
        if (deferring := layer.deferring_layer(calls)) is not None:
            ask = deferring
            session.deferred.append(deferring)
            session.notices.loads[model.where] = partial(_total_load, limiter, deferring)
            deferring.start()
    return ask


def _total_load(limiter: ConcurrencyLimiter, layer: DeferredCalls) -> Load:
    load = limiter.load
    deferred = layer.load
    return Load(
        load.in_flight + deferred.in_flight,
        load.waiting + deferred.waiting,
        load.failed,
        load.rate_limited,
        load.limited_by or deferred.limited_by,
    )
