"""The layers that make sure that each call is paid for only once.

`CachedCalls`, near the top of the call stack, looks a reply up in the cache and among the calls in
flight. `ClaimedCalls`, further down, claims a call just before it is sent, so that several
processes pay for it only once.
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
from harness.calls.budget import BudgetedCalls
from harness.calls.reply_cache import Payment, ReplyCache, StoreBusy
from harness.calls.signals import Ask, NotSent
from harness.errors import CallError, StoreFailed
from harness.records import Call, Reply, Request, budget_account

Calls = Callable[[Request], Awaitable[Call]]
"""A complete call stack: takes a worker's request, and returns the call with its reply."""

MIN_POLL_S = 0.05  # shortest time between checks whether another process has paid
MAX_POLL_S = 0.2  # longest time between these checks
NOTICE_S = 5.0  # seconds that a call waits for another process before the user is notified


class PaidElsewhere(NotSent):
    """The call is not sent because another process pays for it.

    ``reply`` is the paid reply, or None while the other process is still waiting for it.
    """

    def __init__(self, reply: Reply | None = None) -> None:
        self.reply = reply


class Postponed(NotSent):
    """The call is not sent because another layer makes it later, such as in a batch."""


@dataclass(eq=False)
class ClaimedCalls:
    """The layer that claims each call, so that several processes pay for it only once.

    Calls wait for limits in the layers above, before they are claimed here. A process that is
    suspended or waits for its limits therefore blocks others only on calls that it has sent.

    Args:
        ask: The layer below.
        replies: The cache, which also manages the claims.
        key: Returns the key of a request (`key_function`).
        sleep: Waits for a number of seconds.
        is_postponed: Returns whether another layer makes the call with a key later.
    """

    ask: Ask
    replies: ReplyCache
    key: Callable[..., str]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    is_postponed: Callable[[str], bool] = lambda key: False

    def __post_init__(self) -> None:
        self._claimed: set[str] = set()
        self._waiting_long: set[str] = set()

    async def __call__(self, request: Request) -> Reply:
        """Claim a call, send it and return its reply.

        The request's other samples that cannot be claimed are not requested.

        Raises:
            PaidElsewhere: If another process has claimed the call or already saved its reply.
            Postponed: If another layer makes the call later.
        """
        await self._claim_unpaid(self.key(request))
        if request.others:
            claimed_samples = []
            for sample in request.others:
                key = self.key(replace(request, sample=sample, others=()))
                try:
                    await self._claim_unpaid(key)
                    claimed_samples.append(sample)
                except (PaidElsewhere, Postponed):
                    self.release(key)
            request = replace(request, others=tuple(claimed_samples))
        return await self.ask(request)

    async def _claim_unpaid(self, key: str) -> None:
        """Claim a call that is about to be sent.

        Raises:
            PaidElsewhere: If another process has claimed the call or already saved its reply.
            Postponed: If another layer makes the call later.
        """
        if key in self._claimed:  # a retry
            return
        if not self.replies.claim(key):
            raise PaidElsewhere
        self._claimed.add(key)
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

    def keep_until_commit(self, key: str) -> None:
        """Leave a call claimed until its reply is committed, which releases the claim."""
        self._claimed.discard(key)

    def release(self, key: str) -> None:
        """Release the claim on a call, if this layer holds one."""
        if key in self._claimed:
            self._claimed.remove(key)
            self.replies.release(key)

    async def _can_claim(self, key: str) -> bool:
        """Claim a call on all machines, and return whether this succeeded."""
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

    async def wait_for_reply(self, key: str) -> Reply | None:
        """Wait until no other process is paying for a call.

        Returns:
            The saved reply, or None if the other process has got none.
        """
        waited = 0.0
        pause = MIN_POLL_S
        try:
            while not await self._can_claim(key):
                await self.sleep(pause)
                waited += pause
                pause = min(1.5 * pause, MAX_POLL_S)
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


class UnusedReplies:
    """The replies that a run has paid for, but not yet used for an attempt.

    An earlier session was killed before it used them, or a batch delivered them early.

    Args:
        replies: The cache.
        run_ids: Ids of the run and of those that were merged into it.
        load_used_keys: Returns the keys of the replies that earlier sessions have used. None: all
            replies of earlier sessions count as used.
    """

    def __init__(
        self,
        replies: ReplyCache,
        run_ids: Collection[str],
        load_used_keys: Callable[[], set[str]] | None = None,
    ) -> None:
        self._replies = replies
        self._run_ids = run_ids
        self._load_used_keys = load_used_keys or set
        self._since = time.time() if load_used_keys is None else 0.0

    @cached_property
    def _used_keys(self) -> set[str]:
        return self._load_used_keys()

    def use_if_unused(self, key: str) -> bool:
        """Mark a reply as used if the run has paid for it, and not used it yet.

        Returns:
            Whether this was so.
        """
        if key in self._used_keys:
            return False
        if not self._replies.was_paid(key, self._run_ids, self._since):
            return False
        self._used_keys.add(key)
        return True

    def mark_used(self, key: str) -> None:
        """Mark a newly paid reply as used."""
        self._used_keys.add(key)


class ReplyUnsaved(StoreFailed):
    """A paid reply, or its payment, could not be saved. The run can still record the ``call``."""

    def __init__(self, cause: StoreFailed, call: Call) -> None:
        super().__init__(cause.message, cause.remedy)
        self.call = call


@dataclass(eq=False)
class CachedCalls:
    """The top layer for backends whose replies are cached, including local models.

    Args:
        ask: The layers below the cache, down to the backend.
        claims: The layer among these that claims calls.
        backend: The backend's name, recorded with each reply.
        cost_of: Returns a reply's cost in US dollars to record with it, or None if unknown.
        run_id: Id of the run, recorded with each reply as its payer.
        unused: The replies that the run has paid for, but not used. None if it has none.
        budgeted: The layer among these that keeps the budget, or None without a budget.
        answers: Records that the model has answered, also if the reply comes from the cache.
        on_cached: Called with each request whose reply comes from the cache.
        merged_key_functions: Functions that return a request's key in a run that was merged into
            this one, if replies are not shared between runs.
    """

    ask: Ask
    claims: ClaimedCalls
    _: KW_ONLY
    backend: str
    cost_of: Callable[[Reply], float | None]
    run_id: str = ""
    unused: UnusedReplies | None = None
    budgeted: BudgetedCalls | None = None
    answers: ModelAnswers = field(default_factory=ModelAnswers)
    on_cached: Callable[[Request], None] = lambda _: None
    merged_key_functions: Sequence[Callable[..., str]] = ()

    async def __call__(self, request: Request) -> Call:
        """Return the call. Its reply may come from the cache or an identical call in flight.

        Raises:
            ReplyUnsaved: If the reply or its payment could not be saved.
            Stopping: If the run stops before the call is made.
            CallError: If the call fails.
        """
        key = self.claims.key(request)
        in_flight = self.claims.replies.in_flight
        while (identical_call := in_flight.get(key)) is not None:
            shared_call = await _join(identical_call)
            if shared_call is not None:
                return shared_call
        with contextlib.suppress(StoreBusy):  # it is looked up again once the call is claimed
            if (cached_call := self._find_cached(key, request)) is not None:
                return cached_call
        shared: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        in_flight[key] = shared
        try:
            call = await self._make_call(key, request)
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

    def _find_cached(self, key: str, request: Request) -> Call | None:
        replies = self.claims.replies
        if (reply := replies.get(key)) is not None:
            return self._cached_call(key, request, reply)
        for merged_key_of in self.merged_key_functions:
            merged_key = merged_key_of(request)
            if (reply := replies.get(merged_key)) is not None:
                return self._cached_call(merged_key, request, reply)
        return None

    def _cached_call(self, key: str, request: Request, reply: Reply) -> Call:
        now = time.time()
        self.answers.has_any = True
        self.on_cached(request)
        was_cached = self.unused is None or not self.unused.use_if_unused(key)
        return Call(key, reply, was_cached, now, now)

    async def _make_call(self, key: str, request: Request) -> Call:
        """Make a call and save its reply, unless another process pays for it meanwhile."""
        payment: Payment | None = None
        saving: asyncio.Future[None] | None = None
        try:
            shared_cache = self.claims.replies.shared
            if shared_cache is not None:
                saved = await shared_cache.fetch(key)
                if saved is not None:
                    return self._cached_call(key, request, saved)
            started = time.time()
            reply, is_saved = await self._ask_or_wait(key, request)
            if is_saved:
                return self._cached_call(key, request, reply)
            reply = replace(reply, cost_usd=self.cost_of(reply))
            if self.budgeted is not None and not reply.batch:  # batches record their payments
                payment = Payment(budget_account(self.run_id), self.budgeted.cost(request, reply))
            if reply.is_answer:
                call = Call(key, reply, False, started, time.time())
                saving = self.claims.replies.put(
                    key, reply, self.backend, request.model, payment, self.run_id
                )
                self.claims.keep_until_commit(key)
                if self.unused is not None:
                    self.unused.mark_used(key)
        finally:
            self.claims.release(key)
        if saving is None:
            # An empty reply is never cached, because an outage may be the cause. An identical call
            # is paid for again, so each has a separate id.
            unique_key = self.claims.key(request, by_instance=True)
            call = Call(unique_key, reply, False, started, time.time())
            if payment is not None:
                saving = self.claims.replies.charge(bytes.fromhex(unique_key), payment)
        try:
            if saving is not None:
                if (budgeted := self.budgeted) is not None:
                    saving.add_done_callback(lambda _: budgeted.settle(request, reply))
                await saving  # continues in spite of a Ctrl-C
        except StoreFailed as error:
            raise ReplyUnsaved(error, call) from None
        return call

    async def _ask_or_wait(self, key: str, request: Request) -> tuple[Reply, bool]:
        """Return a call's reply, and whether another process has paid for and saved it."""
        saved: Reply | None = None
        while saved is None:
            try:
                return await self.ask(request), False
            except PaidElsewhere as paid:
                saved = paid.reply or await self.claims.wait_for_reply(key)
        return saved, True


async def _join(identical_call: asyncio.Future[Call]) -> Call | None:
    """Wait for an identical call in flight, and return a call that shares its reply.

    Returns:
        None if the identical call was cancelled, so that this one must be made.

    Raises:
        CallError: If the identical call fails.
    """
    try:
        call = await asyncio.shield(identical_call)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if identical_call.cancelled() and not (task and task.cancelling()):
            return None
        raise
    except CallError as error:
        shared_error = copy(error)
        shared_error.latency_s = None  # it counts for the attempt that made the call
        raise shared_error from None
    return Call(call.id, call.reply, True, call.started_at, call.ended_at)


@dataclass(eq=False)
class UncachedCalls:
    """The top layer for recorded and simulated answers, which are neither cached nor paid for."""

    ask: Ask
    key: Callable[[Request], str]

    async def __call__(self, request: Request) -> Call:
        """Send the request, and return the call with its reply."""
        started = time.time()
        reply = await self.ask(request)
        return Call(self.key(request), reply, False, started, time.time())
