"""The top of the call stack: takes replies from the cache or a call in flight, or pays for them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass

from harness.calls.reply_cache import Payment, ReplyCache, StoreBusy
from harness.calls.signals import NotSent
from harness.errors import StoreFailed
from harness.records import REFUSALS, Call, Reply, Request, content_hash

Ask = Callable[[Request], Awaitable[Reply]]
"""A layer of the call stack: sends a request to the layer below and returns its reply."""

Calls = Callable[[Request], Awaitable[Call]]
"""A backend with its whole call stack: takes a request from a run's worker; returns the call."""

KEY_VERSION = 1
"""Incremented when the meaning of a key changes, so that old replies are not misused."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.2
"""Seconds between checks whether another process has paid: the first pause and the longest."""

CLAIMED_NOTICE_S = 5.0  # seconds that a call waits for another process before the user is notified


def call_key(backend: str, endpoint: str, request: Request, *, by_instance: bool = False) -> str:
    """Return a call's key (32 hex digits): the hash of everything that makes two calls the same.

    With ``by_instance`` (the backend looks up answers by instance), the key includes the origin.
    """
    parts = (
        KEY_VERSION,
        backend,
        endpoint,
        request.model,
        request.messages,
        request.decoding.given(),  # a field added later changes no key unless it is set
        request.seed,
        request.sample,
        request.origin if by_instance else None,
    )
    # Added only if set, so that replies cached by earlier versions keep their keys.
    return content_hash((*parts, request.redraw) if request.redraw else parts)


def provider_seed(
    run_seed: int, prompt: str, sample: int, redraw: int = 0, instance: str | None = None
) -> int:
    """Return the seed of 31 bits that a request sends, given the hash of its messages (``prompt``).

    Instances that share a prompt share the seed, and so the call. With an instance's id, its draws
    are separate. The seed then has 53 bits: few enough for any JSON parser, and enough to make
    collisions among a million samples unlikely.
    """
    name = f"{run_seed}/{sample}/{prompt}" + (f"/{redraw}" if redraw else "")
    size, spare = (4, 1) if instance is None else (8, 11)
    name = name if instance is None else f"{name}/{instance}"
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=size).digest(), "big") >> spare


class ReplyUnsaved(StoreFailed):
    """The paid reply of ``call`` could not be cached; the run should still write its attempt."""

    def __init__(self, cause: StoreFailed, call: Call) -> None:
        super().__init__(cause.message, cause.remedy)
        self.call = call


class PaidElsewhere(NotSent):
    """Another process has paid for this call, or is paying for it now (then `reply` is None)."""

    def __init__(self, reply: Reply | None = None) -> None:
        self.reply = reply


@dataclass(eq=False)
class PaidCalls:
    """Makes paid calls; the processes of a machine together pay for each call only once.

    A call is claimed only after the layers `between` the cache and the claim have let it through.
    So a process that waits for its own limits, or is suspended, blocks others only on calls that it
    sent.

    Args:
        ask: The layers below the claim, which send the call.
        run: Id of the run, recorded with each reply as its payer.
        was_paid: Returns whether this run paid for a key's reply without recording an attempt.
        pays: Returns the payment to record with a reply; None without a budget.
        settle: Called once a reply and its payment are committed, or could not be.
    """

    ask: Ask
    _: KW_ONLY
    backend: str
    endpoint: str
    replies: ReplyCache
    between: Callable[[Ask], Ask] = lambda ask: ask
    run: str = ""
    was_paid: Callable[[str], bool] | None = None
    pays: Callable[[Request, Reply], Payment | None] = lambda request, reply: None
    settle: Callable[[Request, Reply], None] = lambda request, reply: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self._waiting_long: set[str] = set()
        self._keys: dict[int, str] = {}  # by the ``id`` of each request in the stack
        self._claimed: set[str] = set()
        self._stack = self.between(self._send)

    async def __call__(self, request: Request) -> Call:
        """Return the call, its reply coming from the cache, an identical call or the provider."""
        key, in_flight = call_key(self.backend, self.endpoint, request), self.replies.in_flight
        while (same := in_flight.get(key)) is not None:
            try:
                call = await asyncio.shield(same)
            except asyncio.CancelledError:
                here = asyncio.current_task()
                if same.cancelled() and not (here and here.cancelling()):
                    continue  # the other call was cancelled, not this one: take over
                raise
            return Call(call.id, call.reply, True, call.started_at, call.ended_at)
        with contextlib.suppress(StoreBusy):  # it is looked up again once the call is claimed
            if (reply := self.replies.get(key)) is not None:
                return self._cached(key, reply)
        shared: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        in_flight[key] = shared
        self._keys[id(request)] = key
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
            del in_flight[key], self._keys[id(request)]

    def _cached(self, key: str, reply: Reply) -> Call:
        now = time.time()
        return Call(key, reply, not (self.was_paid and self.was_paid(key)), now, now)

    async def _made(self, key: str, request: Request) -> Call:
        """Return the call: made here and saved, or with the reply that another process paid for."""
        saving: asyncio.Future[None] | None = None
        try:
            started = time.time()
            while True:
                try:
                    reply = await self._stack(request)
                    break
                except PaidElsewhere as paid:
                    found = paid.reply or await self._wait(key)
                if found is not None:
                    return self._cached(key, found)
            payment = self.pays(request, reply)
            if reply.text.strip() or reply.finish_reason in REFUSALS:
                call = Call(key, reply, False, started, time.time())
                saving = self.replies.put(
                    key, reply, self.backend, request.model, payment, self.run
                )
                self._claimed.discard(key)  # the commit releases it
        finally:
            if key in self._claimed:
                self._claimed.remove(key)
                self.replies.release(key)
        if saving is None:
            # An empty reply is never cached, because an outage may be the cause. An identical call
            # is paid for again, so each has a separate id.
            own = call_key(self.backend, self.endpoint, request, by_instance=True)
            call = Call(own, reply, False, started, time.time())
            if payment is not None:
                saving = self.replies.charge(bytes.fromhex(own), payment)
        try:
            if saving is not None:
                saving.add_done_callback(lambda _: self.settle(request, reply))
                await saving  # continues in spite of a Ctrl-C
        except StoreFailed as error:
            raise ReplyUnsaved(error, call) from None
        return call

    async def _send(self, request: Request) -> Reply:
        """Claim a call, send it and return its reply; `PaidElsewhere` if another process has it."""
        key = self._keys[id(request)]
        if key not in self._claimed:  # otherwise this is a retry
            if not self.replies.claim(key):
                raise PaidElsewhere
            self._claimed.add(key)
            # Another process may have paid since the first look-up, which cost 10 microseconds.
            if (reply := await self.replies.find(key, self.sleep)) is not None:
                raise PaidElsewhere(reply)
        return await self.ask(request)

    async def _wait(self, key: str) -> Reply | None:
        """Wait until no other process is paying for a call; return its cached reply, or None."""
        waited, pause = 0.0, FIRST_PAUSE_S
        try:
            while not self.replies.claim(key):
                await self.sleep(pause)
                waited += pause
                pause = min(1.5 * pause, LONGEST_PAUSE_S)
                if waited >= CLAIMED_NOTICE_S:
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


@dataclass(eq=False)
class FreeCalls:
    """Makes free calls (recorded or simulated): no cache, single-flight, claims or budget."""

    ask: Ask
    _: KW_ONLY
    backend: str
    endpoint: str
    by_instance: bool

    async def __call__(self, request: Request) -> Call:
        """Send the request down the stack, and return the reply as a `Call`."""
        started = time.time()
        reply = await self.ask(request)
        key = call_key(self.backend, self.endpoint, request, by_instance=self.by_instance)
        return Call(key, reply, False, started, time.time())
