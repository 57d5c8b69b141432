"""A session of paid work (for a run, a later judge or a data-set build), and its reply cache."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum
from pathlib import Path
from typing import Literal
from uuid import uuid4

import msgspec

from harness.calls.batch_jobs import BatchJobs
from harness.calls.batch_lane import BatchLane
from harness.calls.batch_ledger import BatchLedger, batched_calls
from harness.calls.budget import Budget, Budgeted
from harness.calls.calls import CachedCalls, Calls, UncachedCalls, Unused
from harness.calls.circuit import Circuit, Retry, Startup
from harness.calls.claims import ClaimedCalls
from harness.calls.concurrency import START, ConcurrencyLimiter
from harness.calls.database import SESSION
from harness.calls.joint_draws import JointDraws
from harness.calls.keys import backend_key
from harness.calls.prompt_cache import PromptCaching
from harness.calls.reply_cache import Payment, ReplyCache, encoded
from harness.calls.signals import Ask, Load, Notices, Report, Stop
from harness.calls.time_limit import Timed
from harness.config.sections import BatchSection
from harness.config.settings import Settings
from harness.errors import HarnessError, StoreFailed, keys_of
from harness.ports import Batched, CachesPrompts, PreferredConcurrency, Startable
from harness.records import REFUSALS, SCHEMA_VERSION, Attempt, Reply, Request, Usage
from harness.run.models import FREE, Model, apply_limits
from harness.store.files import make_folder
from harness.store.json_lines import lines
from harness.store.run_folder import RunFolder, Spending
from harness.store.runs import all_runs


@dataclass(frozen=True, slots=True)
class BoundModel:
    """A model and its call stack: cache, retries, budget and limits."""

    model: Model
    call: Calls


@dataclass(frozen=True, slots=True)
class Session:
    """Resources shared by all work of a session."""

    run_id: str  # in payment records
    stop: Stop  # asks the session to end after the calls in flight
    notices: Notices
    replies: ReplyCache | None = None  # None: no backend is cacheable
    budget: Budget | None = None  # None: no backend is cacheable, or no cap is set
    unused: Unused | None = None  # None: no backend is cacheable
    lanes: list[BatchLane] = field(default_factory=list)
    limiters: list[ConcurrencyLimiter] = field(default_factory=list)
    _bound: dict[int, BoundModel] = field(default_factory=dict)

    def bind(self, model: Model) -> BoundModel:
        """Return the model with its call stack, which is built once per session and model."""
        if id(model) not in self._bound:
            self._bound[id(model)] = BoundModel(model, _call_stack(model, self))
        return self._bound[id(model)]

    def busy(self) -> bool:
        """Return whether any call outside batches is in flight or waiting."""
        return any(one.in_flight or one.load.waiting for one in self.limiters)

    def detach(self) -> None:
        """End the session if each waiting call is in a batch that the provider is working on."""
        waiting = [lane for lane in self.lanes if lane.waits]
        if all(lane.settled for lane in waiting):
            self.stop.request()

    @property
    def ended(self) -> Literal["budget", "interrupted"]:
        """Why the session left work unfinished: its budget is spent, or it was interrupted."""
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
    """Lock a run, and yield a session with its cache and budget.

    On exit, the cache, the budget and the models' backends are closed, and the lock is released.
    Payments are recorded under ``run_id``, and the models' prices in ``folder``. ``folder`` is None
    if the caller holds a lock of its own. ``usd`` is the budget in US dollars (None: no cap), which
    runs in ``sharing`` share.

    Raises:
        RunConflict: If another process is working on the run.
        StoreFailed: If the run's folder or the cache cannot be read or written.
    """
    stop, notices = Stop(), Notices()
    async with contextlib.AsyncExitStack() as stack:
        if folder is not None:
            stack.enter_context(folder.hold())
        for model in {id(model): model for model in models}.values():
            stack.push_async_callback(model.backend.aclose)
            model.rates.report = notices.status(f"{model.section.name}, rate limit")
        replies = budget = unused = None
        if any(model.backend.cacheable for model in models):
            replies = stack.enter_context(open_cache(settings, notices.status("cache")))
            replies.check_room()
            used = None if folder is None else partial(_used_calls, folder)
            unused = Unused(replies, run_id, used)
            if usd is not None:
                session = uuid4().hex
                own = await _paid(folder, replies, run_id)
                others = [await _paid(one, replies, one.run_id()) for one in sharing]
                others += [(_in_batches(replies, one.run_id()), 0.0) for one in sharing]
                spent, unsure = (fsum(column) for column in zip(own, *others, strict=True))

                async def record(more: float, most: float) -> None:
                    # A killed run's calls in flight then count as paid, even if the cache or the
                    # folder is deleted.
                    await replies.charge(SESSION + session.encode(), Payment(run_id, more))
                    if folder is not None:
                        await asyncio.to_thread(folder.write_spending, session, most)

                shared = fsum(paid for paid, _ in others)
                status = notices.status("budget")
                budget = Budget(
                    usd, spent, stop, unsure=unsure, shared=shared, record=record, status=status
                )
                for call in batched_calls(replies, "run = ?", run_id):
                    budget.hold(call.key, call.usd)
                stack.push_async_callback(_close, budget)
        if folder is not None:
            folder.write_prices(
                {
                    model.where: price
                    for model in models
                    if model.backend.cacheable and (price := model.usual_price)
                }
            )
        apply_limits(models)  # only now: an earlier variant may have set other limits
        session_ = Session(run_id, stop, notices, replies, budget, unused)
        stack.push_async_callback(_close_lanes, session_.lanes)
        yield session_
    if budget is not None and budget.broken is not None:
        raise budget.broken


async def _close_lanes(lanes: Sequence[BatchLane]) -> None:
    for lane in lanes:
        await lane.aclose()


def _used_calls(folder: RunFolder) -> set[str]:
    if not folder.begun():
        return set()
    from harness.store.calls import read_paid  # NumPy takes 0.2 s to import

    return read_paid(folder.attempts)


def _in_batches(replies: ReplyCache, run_id: str) -> float:
    return fsum(call.usd for call in batched_calls(replies, "run = ?", run_id))


async def _close(budget: Budget) -> None:
    with contextlib.suppress(StoreFailed):  # its reservations then count as spent
        await budget.close()


async def _paid(folder: RunFolder | None, replies: ReplyCache, run_id: str) -> tuple[float, float]:
    """Return a run's spending, and the part of it that no recorded call accounts for (US dollars).

    The payment records include failed calls that may be billed, and amounts reserved by sessions
    that were killed. But the cache may have been deleted, and the budget may have been set later.
    Missing calls are therefore taken from the attempts and judgements, and the run's maximum cost
    from its folder.
    """
    from harness.store.calls import read_payments  # NumPy takes 0.2 s to import

    booked = replies.booked(run_id)
    recorded = {} if folder is None else read_payments(folder.attempts)
    unsure = fsum(usd for key, usd in booked.items() if key not in recorded)
    spent = fsum(booked.get(key, usd) for key, usd in recorded.items()) + unsure
    spending = Spending() if folder is None else folder.read_spending()
    lost = spending.usd - spent
    if lost > 0 and (key := SESSION + spending.session.encode()) not in booked:
        await replies.charge(key, Payment(run_id, lost))
        spent, unsure = spent + lost, unsure + lost
    return spent, unsure


def _call_stack(model: Model, session: Session) -> Calls:
    """Build the call stack between the workers and a model's backend.

    A request passes through these layers, from the top down: cache, batches (if the provider has
    them), joint draws (if several samples are drawn with one call), prompt caching (if the backend
    does it), retry, circuit, startup (if the backend starts a server), limiter, claim, budget (if
    the run has one and the model has a price), time limit. Simulated and recorded models have no
    cache, claim or budget (`UncachedCalls`). Local models, which cost no money, have a cache and
    claims.
    """
    limits, stop, backend, price = model.limits, session.stop, model.backend, model.price
    name, replies, budget = model.section.backend, session.replies, session.budget
    source = model.section.name or name
    status = session.notices.status(source)
    key = backend_key(name, backend)
    asking: Ask = Timed(backend, limits.timeout_s)
    claim = budgeted = ledger = None
    if backend.cacheable and replies is not None:
        if budget is not None and price not in (None, FREE):

            def charge(usd: float) -> asyncio.Future[None]:
                return replies.charge(uuid4().hex, Payment(session.run_id, usd))

            # The provider may answer in the standard tier instead of the one asked for.
            prices = [price, price.tier(model.tier) or price]

            def most(read: int, written: int) -> float:
                return max(one.most(read, written) for one in prices)

            def cost(usage: Usage, tier: str | None) -> float | None:
                return None if (of_tier := price.tier(tier)) is None else of_tier.cost(usage)

            asking = budgeted = Budgeted(asking, budget, most=most, cost_of=cost, charge=charge)
        asking = claim = ClaimedCalls(asking, replies, key, stop.sleep)
        if ledger := _ledger(model, replies):
            claim.in_batch = lambda key: ledger.tag(key) is not None
    limiter = ConcurrencyLimiter(
        asking,
        stop,
        most=limits.concurrency,
        rates=model.rates,
        # Our own server queues what it cannot process yet, and refuses no call.
        start=backend.preferred_concurrency if isinstance(backend, PreferredConcurrency) else START,
        status=session.notices.status(f"{source}, limits"),
    )
    session.limiters.append(limiter)
    session.notices.loads[model.where] = lambda: limiter.load
    circuit = Circuit(
        Startup(limiter, backend, stop, status) if isinstance(backend, Startable) else limiter,
        tries=limits.attempts,
        outage_s=limits.outage_s,
        sleep=stop.sleep,
        status=status,
        opened=limiter.admit_only,
        restored=limiter.admit_all,
    )
    retry: Ask = Retry(circuit, tries=limits.attempts, sleep=stop.sleep)
    if isinstance(backend, CachesPrompts) and backend.prompt_caching:
        saved = price.saved if price is not None else lambda usage: 0.0
        retry = PromptCaching(retry, model.beginnings, saved)
    if limits.samples_per_call > 1 and limits.batch is None:
        retry = JointDraws(retry, limits.samples_per_call)

    async def ask(request: Request) -> Reply:
        with keys_of(model.where):
            return await top(request)

    top: Ask = retry
    if claim is None:
        return UncachedCalls(ask, partial(key, by_instance="by_instance" in backend.features))

    if ledger is not None:
        top = _lane(model, session, retry, ledger, key, budgeted is not None)
    return CachedCalls(
        ask,
        claim,
        backend=name,
        run=session.run_id,
        unused=session.unused,
        budgeted=budgeted,
    )


def _ledger(model: Model, replies: ReplyCache) -> BatchLedger | None:
    backend = model.backend
    if not isinstance(backend, Batched) or backend.batch_limits is None:
        return None
    return BatchLedger(replies, model.section.backend, backend.endpoint, model.section.name)


def _lane(
    model: Model,
    session: Session,
    ask: Ask,
    ledger: BatchLedger,
    key: Callable[..., str],
    priced: bool,
) -> BatchLane:
    """Build the layer of a model's batches, and start working on those of earlier sessions."""
    limits, backend = model.limits, model.backend
    assert isinstance(backend, Batched)
    limiter = session.limiters[-1]
    batching = limits.batch or BatchSection()
    section = model.section.model_copy(update={"price": model.price})
    jobs = BatchJobs(
        backend,
        ledger,
        batching,
        run=session.run_id,
        section=section.model_dump_json(exclude={"limits"}).encode(),
        price=model.price,
        budget=session.budget if priced else None,
        outage_s=limits.outage_s,
    )
    lane = BatchLane(
        ask,
        jobs,
        key,
        session.stop,
        batching=limits.batch is not None,
        tries=limits.attempts,
        busy=session.busy,
        report=session.notices.status(f"{model.section.name}, batches"),
        on_settled=session.detach if batching.detach else lambda: None,
    )
    session.lanes.append(lane)
    session.notices.loads[model.where] = lambda: _sum(limiter.load, lane.load)
    lane.start()
    return lane


def _sum(calls: Load, batches: Load) -> Load:
    flying, waiting = calls.in_flight + batches.in_flight, calls.waiting + batches.waiting
    reason = calls.limited_by or batches.limited_by
    return Load(flying, waiting, calls.failed, calls.rate_limited, reason)


def replies_path(settings: Settings) -> Path:
    """Return the path of the reply cache, which all runs share."""
    return settings.cache_dir / "replies.sqlite"


def open_cache(settings: Settings, notice: Report = lambda _: None) -> ReplyCache:
    """Open the reply cache. ``notice`` receives its warnings for the user."""
    with contextlib.suppress(OSError):  # opening the cache reports why
        make_folder(settings.cache_dir)
    restore = partial(recorded_replies, settings.runs_dir)
    return ReplyCache(replies_path(settings), notice=notice, restore=restore)


def recorded_replies(runs_dir: Path) -> Iterator[tuple[bytes, bytes, str, str, float]]:
    """Yield the replies in all runs' attempts, as rows for a new cache.

    A row holds the call's key, encoded reply, backend, model and Unix time. Replies with
    log-probabilities are skipped, since attempts do not record these. Unreadable files are skipped
    as well.
    """
    decoder = msgspec.json.Decoder(Attempt)
    for folder in all_runs(runs_dir):
        try:
            backend = folder.read_config().model.backend
            for _, text in lines(folder.attempts):
                try:
                    attempt = decoder.decode(text)
                    key = bytes.fromhex(attempt.call_id or "")
                except (msgspec.MsgspecError, ValueError):
                    continue
                model = attempt.request.get("model")
                if (reply := _reply(attempt)) and len(key) == 16 and isinstance(model, str):
                    yield key, encoded(reply), backend, model, attempt.ended_at
        except HarnessError:  # skip a folder that cannot be read
            continue


def _reply(attempt: Attempt) -> Reply | None:
    text, reason = attempt.text, attempt.finish_reason
    if attempt.v != SCHEMA_VERSION or text is None or reason is None:
        return None
    decoding = attempt.request.get("decoding")
    if not isinstance(decoding, dict) or decoding.keys() & {"logprobs", "prompt_logprobs"}:
        return None
    if not text.strip() and reason not in REFUSALS:  # empty replies are never cached
        return None
    return Reply(
        text,
        reason,
        attempt.usage,
        latency_s=attempt.latency_s or 0.0,
        reasoning=attempt.reasoning,
        reasoning_state=attempt.reasoning_state or None,
    )
