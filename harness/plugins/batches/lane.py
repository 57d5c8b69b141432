"""The layer below the cache that makes a model's calls in the provider's batches.

Calls gather here until they fill a batch, or until none has come for a second and none is in flight
elsewhere: every worker then waits for an answer. `batch_jobs` submits them and delivers the
outcomes. A call that is already in a batch, from an earlier session or another process, waits for
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass

from harness.calls.calls import PaidElsewhere, Postponed
from harness.calls.reply_cache import ReplyCache, StoreBusy
from harness.calls.signals import Ask, Load, Report, Stop, Stopping
from harness.config.sections import LimitsSection, ModelSection, SecondModelSection
from harness.config.settings import Settings
from harness.engine.infrastructure import CallLayer, DeferralTerms, DeferredCalls, ModelCalls
from harness.errors import AccessDenied, CallError, ConfigError, RequestRejected, TransientError
from harness.plugins.batches.jobs import LIVE, BatchJobs, Delivered
from harness.plugins.batches.ledger import BatchLedger, calls_of_account
from harness.plugins.batches.provider import BatchSection, batch_provider
from harness.ports import Backend
from harness.records import Reply, Request

READING_S = 3.0  # how long a run that stops goes on reading its batches
QUIET_S = 1.0  # seconds without a further call after which a wave is complete, at most ``poll_s``


@dataclass(eq=False, slots=True)
class _Waiting:
    request: Request
    outcome: asyncio.Future[Delivered]
    tag: str = ""


@dataclass(eq=False)
class BatchLane(DeferredCalls):
    """The layer that makes one model's calls in batches.

    Args:
        ask: The layers below, which make a call without a batch.
        jobs: The model's batches.
        key: Returns a request's key.
        stop: When the run stops, waiting calls are dismissed. Their batches remain.
        batching: Whether to create batches. If not, calls are made without one, or wait for the
            batch that they are in already.
        tries: Maximum number of tries of a call that fails in its batch.
        busy: Returns whether the session has calls in flight outside of batches.
        report: Receives the status.
        on_settled: Called whenever nothing is left to do but wait for batches.
    """

    ask: Ask
    jobs: BatchJobs
    key: Callable[..., str]
    stop: Stop
    _: KW_ONLY
    batching: bool
    tries: int = 6
    busy: Callable[[], bool] = lambda: False
    report: Report = lambda _: None
    on_settled: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._ledger = self.jobs.ledger
        self._queued: dict[str, _Waiting] = {}
        self._elsewhere: dict[str, _Waiting] = {}  # claimed by another process
        self._attached: dict[str, _Waiting] = {}  # in a batch
        self._empty: dict[str, Reply] = {}  # paid for, but not cached
        self._said = ""
        self._broken: BaseException | None = None
        self._closing = False
        self._is_looking = False
        self._arrived_at = 0.0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._poll_s = self.jobs.batching.poll_s
        self._quiet_s = min(QUIET_S, self._poll_s)
        self.jobs.deliver = self._deliver
        self.stop.on_stop(self._dismiss)

    def start(self) -> None:
        """Start working on the batches of earlier sessions, if there are any."""
        if self._ledger.open():
            self._ensure_working()

    async def aclose(self) -> None:
        """Finish the current step, such as creating a batch, and release the claims on batches.

        If the run is stopping, what takes long to read is left to the next session.
        If a call has cost more than its maximum, the run's batches are cancelled.
        """
        self._closing = True
        self._wake.set()
        if self._task is not None:
            if self._is_looking and self.stop.requested:
                await asyncio.wait([self._task], timeout=READING_S)
                self._task.cancel()
            await asyncio.wait([self._task])
        budget = self.jobs.budget
        if budget is not None and budget.broken is not None:
            await self.jobs.cancel()
        self.jobs.close()

    @property
    def load(self) -> Load:
        """Counts of calls in batches (as in flight) and of calls not submitted yet (as waiting)."""
        waiting = len(self._queued) + len(self._elsewhere)
        return Load(len(self._attached), waiting, limited_by="batches" if self._attached else "")

    @property
    def is_settled(self) -> bool:
        """Whether the only thing left to do, if any, is to wait for batches."""
        if self._queued or self._elsewhere or not self._is_quiet():
            return False
        return {waiting.tag for waiting in self._attached.values()} <= self.jobs.running

    @property
    def has_waiting(self) -> bool:
        """Whether any call is waiting: in a batch, to be submitted, or for another process."""
        return bool(self._attached or self._queued or self._elsewhere)

    async def __call__(self, request: Request) -> Reply:
        """Make a call, and return its reply if it was made outside a batch or the reply is empty.

        Raises:
            PaidElsewhere: If the reply is in the cache, as every answer from a batch is. The
                exception holds the reply.
            Stopping: If the run stops while the call is waiting.
            CallError: If the call fails.
        """
        tries = 0
        live = not self.batching
        while True:
            if self._broken is not None:
                raise self._broken
            if self._empty and (empty := self._empty.pop(self.key(request), None)) is not None:
                return empty
            if live:  # the layer of claims looks for the call's batch
                with contextlib.suppress(Postponed):
                    return await self.ask(request)
            key = self.key(request)
            tag = self._ledger.tag(key)
            if live and tag is None:  # the batch has just ended
                continue
            outcome = await self._wait(key, request, tag)
            if isinstance(outcome, Reply):
                if not outcome.is_answer:
                    return outcome
                raise PaidElsewhere(outcome)
            live = live or outcome is LIVE
            if isinstance(outcome, AccessDenied):  # not to all calls: it has accepted the batch
                raise RequestRejected(outcome.message, outcome.remedy)
            if isinstance(outcome, CallError):
                tries += 1
                if not isinstance(outcome, TransientError) or tries >= self.tries:
                    raise outcome

    async def _wait(self, key: str, request: Request, tag: str | None) -> Delivered:
        if self.stop.requested:
            raise Stopping
        self._ensure_working()
        waiting = _Waiting(request, asyncio.get_running_loop().create_future(), tag or "")
        if tag is None:
            await self._admit(key, waiting)
        else:
            await self._ledger.adopt(tag)
            self._attached[key] = waiting
        self._arrived_at = self.clock()
        self._wake.set()
        try:
            return await waiting.outcome
        finally:
            if self._queued.pop(key, None):
                self._ledger.replies.release(key)
                self.jobs.unreserve(key)
            self._attached.pop(key, None)
            self._elsewhere.pop(key, None)

    async def _admit(self, key: str, waiting: _Waiting) -> None:
        """Claim and queue a call, unless it is in a batch, claimed or paid for."""
        replies = self._ledger.replies
        if not replies.claim(key):
            self._elsewhere[key] = waiting
            return
        try:
            if (tag := self._ledger.tag(key)) is not None:
                waiting.tag = tag
                self._attached[key] = waiting
                replies.release(key)
                return
            if replies.shared is not None and not await replies.shared.claim_shared(key):
                self._elsewhere[key] = waiting
                replies.release(key)
                return
            # Another process may have paid since the first look-up.
            if (reply := await replies.find(key, self.stop.sleep)) is not None:
                raise PaidElsewhere(reply)
            await self.jobs.reserve(key, waiting.request)
        except BaseException:
            replies.release(key)
            raise
        self._queued[key] = waiting

    def _dismiss(self, error: Exception | None = None) -> None:
        for part in (self._queued, self._elsewhere, self._attached):
            for waiting in part.values():
                if not waiting.outcome.done():
                    waiting.outcome.set_exception(error or Stopping())

    def _deliver(self, key: str, outcome: Delivered) -> None:
        waiting = self._attached.pop(key, None) or self._elsewhere.pop(key, None)
        if waiting is None:
            if isinstance(outcome, Reply) and not outcome.is_answer:
                self._empty[key] = outcome
        elif not waiting.outcome.done():
            waiting.outcome.set_result(outcome)

    def _ensure_working(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        try:
            look_at = 0.0
            while not self._closing:
                if self._is_complete():
                    await self._submit()
                if self.clock() >= look_at:
                    self._is_looking = True
                    await self.jobs.look()
                    self._is_looking = False
                    self._look_elsewhere()
                    # The pause grows with the time since the last call.
                    pause = min(self._poll_s, 1 + (self.clock() - self._arrived_at) / 10)
                    look_at = self.clock() + pause
                    self._report()
                if self.is_settled and self._attached:
                    self.on_settled()
                busy_s = self._quiet_s / 2
                pause = busy_s if self._queued or not self._is_quiet() else look_at - self.clock()
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), max(busy_s, pause))
        except Exception as error:  # otherwise, all calls would wait forever
            self._broken = error
            self._dismiss(error)
        finally:
            self.report("")

    def _is_quiet(self) -> bool:
        return self.clock() - self._arrived_at >= self._quiet_s and not self.busy()

    def _is_complete(self) -> bool:
        """Return whether the queued calls should be submitted."""
        if not self._queued or self.stop.requested:
            return False
        limit = self.jobs.provider.batch_limits.requests
        return self._is_quiet() or len(self._queued) >= limit

    def _report(self) -> None:
        at_work = self._ledger.open() if self.has_waiting else []
        done, requests = (sum(getattr(batch, n) for batch in at_work) for n in ("done", "requests"))
        batches = f"{len(at_work):,} batch{'es' * (len(at_work) != 1)} with {requests:,} requests"
        status = f"waiting for {batches} ({done:,} done)" if at_work else ""
        if at_work and (longest_s := max(self.jobs.searches_s, default=0.0)):
            until = time.strftime("%H:%M", time.localtime(time.time() + longest_s))
            status += f", and looking for one whose id was lost, until {until}"
        if status != self._said:
            self._said = status
            self.report(status)

    async def _submit(self) -> None:
        while self._queued and not self.stop.requested:
            queued = {key: waiting.request for key, waiting in self._queued.items()}
            keys, size = self.jobs.fitting(queued)
            if not keys:
                return  # until a batch has ended
            tag = self.jobs.begin()
            for key in keys:
                self._attached[key] = self._queued.pop(key)
                self._attached[key].tag = tag
            await self.jobs.create(tag, {key: queued[key] for key in keys}, size)

    def _look_elsewhere(self) -> None:
        """Deliver the calls that other processes have paid for or given up."""
        replies = self._ledger.replies
        ours = self.jobs.ours
        foreign = {
            key: waiting.tag for key, waiting in self._attached.items() if waiting.tag not in ours
        }
        unsettled = {tag: self._ledger.keys(tag) for tag in set(foreign.values())}
        settled = [key for key, tag in foreign.items() if key not in unsettled[tag]]
        for key in [*self._elsewhere, *settled]:
            with contextlib.suppress(StoreBusy):
                if (reply := replies.get(key)) is not None or key in self._attached:
                    self.jobs.unreserve(key, elsewhere=True)
                    self._deliver(key, reply)
                elif replies.claim(key):
                    replies.release(key)
                    self._deliver(key, None)


"""The type of the key ``limits.batch``. ``true`` stands for the section's defaults."""


class BatchesLayer(CallLayer):
    """Makes the calls of models with ``limits.batch`` in batches, and collects earlier batches."""

    def deferral_terms(
        self, where: str, section: ModelSection, limits: LimitsSection, backend: Backend
    ) -> DeferralTerms | None:
        """Return the terms of the provider's batches, if the calls are made in them."""
        batching: BatchSection | None = limits.batch
        if batching is None:
            return None
        provider = batch_provider(section.backend, backend)
        if provider is None:
            own_limits = section.limits if isinstance(section, SecondModelSection) else limits
            if own_limits is None or own_limits.batch is None:
                return None  # the run's limit is for other models
            raise ConfigError(
                f"{where}: the backend {section.backend!r} has no batches, or not those of this "
                "provider (limits.batch).",
                "'harness docs batches' lists the providers that have them. Remove limits.batch or "
                "--batch.",
            )
        if where == "model" and section.options.get("service_tier"):
            raise ConfigError(
                "Batches have no service tiers.", "Remove model.service_tier or batch."
            )
        return DeferralTerms(provider.batch_limits.window_h, batching.detach)

    def reserved_usd(self, replies: ReplyCache, account: str) -> Mapping[str, float]:
        """Return what an account has reserved for calls in batches, by their keys."""
        return {call.key: call.usd for call in calls_of_account(replies, account)}

    def deferring_layer(self, calls: ModelCalls) -> DeferredCalls | None:
        """Return the layer of a model's batches, or None if its provider has none."""
        section = calls.section
        limits = calls.limits
        claim = calls.claim
        provider = batch_provider(section.backend, calls.backend)
        if provider is None:
            return None
        ledger = BatchLedger(claim.replies, section.backend, calls.backend.endpoint, section.name)
        claim.is_postponed = lambda key: ledger.tag(key) is not None
        batching: BatchSection = limits.batch or BatchSection()
        recorded = section.model_copy(update={"price": calls.price})
        jobs = BatchJobs(
            provider,
            ledger,
            batching,
            run=calls.run,
            section=recorded.model_dump_json(
                exclude={"limits", "on_error"}, context="cache"
            ).encode(),
            price=calls.price,
            budget=calls.budget,
            outage_s=limits.outage_s,
        )
        return BatchLane(
            calls.ask,
            jobs,
            claim.key,
            calls.stop,
            batching=limits.batch is not None,
            tries=limits.attempts,
            busy=calls.busy,
            report=calls.status(f"{section.name}, batches"),
            on_settled=calls.leave if batching.detach else lambda: None,
        )


def batches_layer(settings: Settings) -> BatchesLayer:
    """Return the layer, which does not depend on the settings."""
    return BatchesLayer()
