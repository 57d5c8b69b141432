"""Pays for each call only once: finds its reply in the cache or in flight, or has it made.

`CachedCalls` is near the top of the call stack. `ClaimedCalls`, further down, claims a call just
before it is sent, so that several processes pay for it only once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property

from msgspec.structs import replace

from harness.calls.backend_layers import ModelAnswers
from harness.calls.budget import Budgeted
from harness.calls.reply_cache import Payment, ReplyCache, StoreBusy
from harness.calls.signals import Ask, NotSent
from harness.errors import CallError, StoreFailed
from harness.records import Call, Reply, Request, budget_account

Calls = Callable[[Request], Awaitable[Call]]
"""A complete call stack: takes a worker's request, and returns the call with its reply."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.2  # between checks whether another process has paid
NOTICE_S = 5.0  # seconds that a call waits for another process before the user is notified


class PaidElsewhere(NotSent):
    """Another process has paid for this call, or is still paying for it (``reply`` is None)."""

    def __init__(self, reply: Reply | None = None) -> None:
        self.reply = reply


class Postponed(NotSent):
    """The call is not sent because another layer makes it later, such as in a batch."""


@dataclass(eq=False)
class ClaimedCalls:
    """The layer that claims each call, so that several processes pay for it only once.

    The layers above make calls wait for limits before they are claimed here. A process that is
    suspended or waits for its limits therefore blocks others only on calls that it has sent.
    """

    ask: Ask
    replies: ReplyCache
    key: Callable[..., str]  # `call_key` of the backend
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    is_postponed: Callable[[str], bool] = lambda key: False

    def __post_init__(self) -> None:
        self._held: set[str] = set()
        self._waiting_long: set[str] = set()

    async def __call__(self, request: Request) -> Reply:
        """Claim a call, send it and return its reply.

        Other samples of the request that cannot be claimed are left out.

        Raises:
            PaidElsewhere: If another process has claimed the call or already saved its reply.
            Postponed: If another layer makes the call later.
        """
        await self._take(self.key(request))
        if request.others:
            others = []
            for number in request.others:
                key = self.key(replace(request, sample=number, others=()))
                try:
                    await self._take(key)
                    others.append(number)
                except (PaidElsewhere, Postponed):
                    self.release(key)
            request = replace(request, others=tuple(others))
        return await self.ask(request)

    async def _take(self, key: str) -> None:
        if key in self._held:  # a retry
            return
        if not self.replies.claim(key):
            raise PaidElsewhere
        self._held.add(key)
        if self.is_postponed(key):
            self.release(key)
            raise Postponed
        shared = self.replies.shared
        if shared is not None and not await shared.claim_shared(key):
            self.release(key)
            raise PaidElsewhere
        # Another process may have paid since the first look-up.
        if (reply := await self.replies.find(key, self.sleep)) is not None:
            raise PaidElsewhere(reply)

    def hand_over(self, key: str) -> None:
        """Keep a call's claim until the commit of its reply, which releases the claim."""
        self._held.discard(key)

    def release(self, key: str) -> None:
        """Release the claim on a call, if this layer holds one."""
        if key in self._held:
            self._held.remove(key)
            self.replies.release(key)

    async def _claim(self, key: str) -> bool:
        if not self.replies.claim(key):
            return False
        try:
            shared = self.replies.shared
            claimed = shared is None or self.is_postponed(key) or await shared.claim_shared(key)
        except BaseException:
            self.replies.release(key)
            raise
        if not claimed:
            self.replies.release(key)
        return claimed

    async def wait(self, key: str) -> Reply | None:
        """Wait until no other process is paying for a call. Return the saved reply, or None."""
        waited = 0.0
        pause = FIRST_PAUSE_S
        try:
            while not await self._claim(key):
                await self.sleep(pause)
                waited += pause
                pause = min(1.5 * pause, LONGEST_PAUSE_S)
                if waited >= NOTICE_S:
                    if not self._waiting_long:
                        self.replies.notify(
                            "Another process is making the same calls: waiting for its answers, so "
                            "that they are paid for only once."
                        )
                    self._waiting_long.add(key)
            self.replies.release(key)
            return await self.replies.find(key, self.sleep)
        finally:
            if key in self._waiting_long:
                self._waiting_long.remove(key)
                if not self._waiting_long:
                    self.replies.notify("")


class Unused:
    """The replies that a run has paid for, but not yet used for an attempt.

    They remain from an earlier session that was killed, or a batch delivered them early.

    Args:
        replies: The cache.
        runs: Ids of the run and of those that were merged into it.
        used: Returns the keys of the replies that earlier sessions have used. None if this is
            unknown: all replies of earlier sessions then count as used.
    """

    def __init__(
        self,
        replies: ReplyCache,
        runs: Collection[str],
        used: Callable[[], set[str]] | None = None,
    ) -> None:
        self._replies = replies
        self._runs = runs
        self._read = used or set
        self._since = time.time() if used is None else 0.0

    @cached_property
    def _used(self) -> set[str]:
        return self._read()

    def take(self, key: str) -> bool:
        """Return whether the run has paid for a reply but not used it, and mark it as used."""
        if key in self._used or not self._replies.was_paid(key, self._runs, self._since):
            return False
        self._used.add(key)
        return True

    def use(self, key: str) -> None:
        """Mark a newly paid reply as used."""
        self._used.add(key)


class ReplyUnsaved(StoreFailed):
    """A paid reply, or its payment, could not be saved. The run can still record the ``call``."""

    def __init__(self, cause: StoreFailed, call: Call) -> None:
        super().__init__(cause.message, cause.remedy)
        self.call = call


@dataclass(eq=False)
class CachedCalls:
    """The top layer for backends whose replies are cached, including local models.

    Args:
        ask: The layers below the cache, down to the claim and the backend.
        claim: The claim layer among these layers.
        backend: The backend's name, recorded with each reply.
        cost: Returns a reply's cost in US dollars, or None if unknown, to record with the reply.
        run: Id of the run, recorded with each reply as its payer.
        unused: The replies that the run has paid for, but not used. None if it has none.
        budgeted: The budget layer among these layers, or None without a budget.
        answered: Learns of replies from the cache: code that has answered is not wrong.
        on_cached: Called with each request whose reply comes from the cache.
        merged_keys: Return the keys that a request had in the runs which were merged into this one,
            if replies are not shared between runs.
    """

    ask: Ask
    claim: ClaimedCalls
    _: KW_ONLY
    backend: str
    cost: Callable[[Reply], float | None]
    run: str = ""
    unused: Unused | None = None
    budgeted: Budgeted | None = None
    answered: ModelAnswers = field(default_factory=ModelAnswers)
    on_cached: Callable[[Request], None] = lambda _: None
    merged_keys: Sequence[Callable[..., str]] = ()

    async def __call__(self, request: Request) -> Call:
        """Return the call. Its reply may come from the cache or an identical call in flight.

        Raises:
            ReplyUnsaved: If the reply or its payment could not be saved.
            Stopping: If the run stops before the call is made.
            CallError: If the call fails.
        """
        replies = self.claim.replies
        key = self.claim.key(request)
        in_flight = replies.in_flight
        while (same := in_flight.get(key)) is not None:
            try:
                call = await asyncio.shield(same)
            except asyncio.CancelledError:
                here = asyncio.current_task()
                if same.cancelled() and not (here and here.cancelling()):
                    continue  # the other call was cancelled, not this one: take over
                raise
            except CallError as failure:
                shared_failure = copy(failure)
                shared_failure.latency_s = None  # it counts for the attempt that made the call
                raise shared_failure from None
            return Call(call.id, call.reply, True, call.started_at, call.ended_at)
        with contextlib.suppress(StoreBusy):  # it is looked up again once the call is claimed
            if (reply := replies.get(key)) is not None:
                return self._cached(key, request, reply)
            for key_of_shard in self.merged_keys:
                shard_key = key_of_shard(request)
                if (reply := replies.get(shard_key)) is not None:
                    return self._cached(shard_key, request, reply)
        shared: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        in_flight[key] = shared
        try:
            call = await self._made(key, request)
            shared.set_result(call)
            return call
        except asyncio.CancelledError:
            shared.cancel()
            raise
        except BaseException as error:
            shared.set_exception(error)
            shared.exception()  # avoids "exception was never retrieved"
            raise
        finally:
            del in_flight[key]

    def _cached(self, key: str, request: Request, reply: Reply) -> Call:
        now = time.time()
        self.answered.any = True
        self.on_cached(request)
        return Call(key, reply, not (self.unused and self.unused.take(key)), now, now)

    async def _made(self, key: str, request: Request) -> Call:
        """Make a call and save its reply, unless another process has paid for it meanwhile."""
        replies = self.claim.replies
        saving: asyncio.Future[None] | None = None
        try:
            if replies.shared is not None:
                saved = await replies.shared.fetch(key)
                if saved is not None:
                    return self._cached(key, request, saved)
            started = time.time()
            while True:
                try:
                    reply = await self.ask(request)
                    break
                except PaidElsewhere as paid:
                    saved = paid.reply or await self.claim.wait(key)
                if saved is not None:
                    return self._cached(key, request, saved)
            reply = replace(reply, cost_usd=self.cost(reply))
            payment = None
            if self.budgeted is not None and not reply.batch:  # batches record their payments
                payment = Payment(budget_account(self.run), self.budgeted.cost(request, reply))
            if reply.is_answer:
                call = Call(key, reply, False, started, time.time())
                saving = replies.put(key, reply, self.backend, request.model, payment, self.run)
                self.claim.hand_over(key)
                if self.unused is not None:
                    self.unused.use(key)
        finally:
            self.claim.release(key)
        if saving is None:
            # An empty reply is never cached, because an outage may be the cause. An identical call
            # is paid for again, so each has a separate id.
            own_key = self.claim.key(request, by_instance=True)
            call = Call(own_key, reply, False, started, time.time())
            if payment is not None:
                saving = replies.charge(bytes.fromhex(own_key), payment)
        try:
            if saving is not None:
                if (budgeted := self.budgeted) is not None:
                    saving.add_done_callback(lambda _: budgeted.settle(request, reply))
                await saving  # continues in spite of a Ctrl-C
        except StoreFailed as error:
            raise ReplyUnsaved(error, call) from None
        return call


@dataclass(eq=False)
class UncachedCalls:
    """The top layer for recorded and simulated answers, which are neither cached nor paid for."""

    ask: Ask
    key: Callable[[Request], str]

    async def __call__(self, request: Request) -> Call:
        """Return the reply as a `Call`."""
        started = time.time()
        reply = await self.ask(request)
        return Call(self.key(request), reply, False, started, time.time())
