"""The top of the call stack: finds a call's reply in the cache or in flight, or pays for it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial

from harness.calls.claims import ClaimedCalls, PaidElsewhere
from harness.calls.reply_cache import Payment, StoreBusy
from harness.calls.signals import Ask
from harness.errors import StoreFailed
from harness.ports import LOGLIKELIHOODS, Backend, KeyedByRequest
from harness.records import Call, Reply, Request, content_hash

Calls = Callable[[Request], Awaitable[Call]]
"""A complete call stack: takes a worker's request, and returns the call with its reply."""

KEY_VERSION = 1
"""Part of every key. An increment keeps old replies from being reused when keys change meaning."""


def call_key(
    backend: str, endpoint: str, request: Request, *, by_instance: bool = False, part: str = ""
) -> str:
    """Return a call's key (32 hex digits). Calls with equal keys share one reply.

    The key is a hash of everything that a reply depends on.

    Args:
        backend: The backend's name.
        endpoint: The endpoint's URL.
        request: The request.
        by_instance: Whether the backend looks up its answers by instance. The key then includes
            the request's origin.
        part: What the backend itself adds to the key (`KeyedByRequest`).
    """
    parts: tuple[object, ...] = (
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
    if request.loglikelihoods:
        parts = (*parts, LOGLIKELIHOODS, request.window)
    if part:
        return content_hash((*parts, request.redraw, part))
    return content_hash((*parts, request.redraw) if request.redraw else parts)


def backend_key(name: str, backend: Backend) -> Callable[..., str]:
    """Return a function that computes `call_key` for a backend's requests.

    It takes the request and, optionally, ``by_instance``.
    """
    if not isinstance(backend, KeyedByRequest):
        return partial(call_key, name, backend.endpoint)

    def key(request: Request, *, by_instance: bool = False) -> str:
        part = backend.key_part(request)
        return call_key(name, backend.endpoint, request, by_instance=by_instance, part=part)

    return key


def provider_seed(
    run_seed: int, prompt: str, sample: int, redraw: int = 0, instance: str | None = None
) -> int:
    """Return the seed to send with a request, which depends only on the arguments.

    Without ``instance``, it has 31 bits, and instances that share a prompt share the seed and
    therefore the call. With ``instance`` (an instance's id), each instance gets its own seed, of 53
    bits: few enough for any JSON parser, and enough to make collisions among a million samples
    unlikely.

    Args:
        run_seed: The run's seed.
        prompt: The hash of the request's messages.
        sample: The number of the sample.
        redraw: How many earlier answers to the same request were discarded to draw a new one.
        instance: An instance's id, or None to share the seed.
    """
    name = f"{run_seed}/{sample}/{prompt}" + (f"/{redraw}" if redraw else "")
    size, spare = (4, 1) if instance is None else (8, 11)
    name = name if instance is None else f"{name}/{instance}"
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=size).digest(), "big") >> spare


class ReplyUnsaved(StoreFailed):
    """A paid reply, or its payment, could not be saved. The run can still record the ``call``."""

    def __init__(self, cause: StoreFailed, call: Call) -> None:
        super().__init__(cause.message, cause.remedy)
        self.call = call


@dataclass(eq=False)
class PaidCalls:
    """The top layer for backends whose replies are cached, including local models.

    It takes a call's reply from the cache, or makes the call and saves its reply.

    Args:
        ask: The layers below the cache, down to the claim and the backend.
        claim: The claim layer among these layers.
        backend: The backend's name, recorded with each reply.
        run: Id of the run, recorded with each reply as its payer.
        was_paid: Takes a key, and returns whether this run has paid for the reply without using
            it for an attempt. Set it to None if that is never the case.
        used: Called with the key of each reply that this run has just paid for and uses.
        pays: Returns the payment to record with a reply, or None without a budget.
        settle: Called when a reply and its payment are committed, or the commit has failed.
    """

    ask: Ask
    claim: ClaimedCalls
    _: KW_ONLY
    backend: str
    run: str = ""
    was_paid: Callable[[str], bool] | None = None
    used: Callable[[str], None] = lambda key: None
    pays: Callable[[Request, Reply], Payment | None] = lambda request, reply: None
    settle: Callable[[Request, Reply], None] = lambda request, reply: None

    async def __call__(self, request: Request) -> Call:
        """Return the call. Its reply may come from the cache or an identical call in flight.

        Raises:
            ReplyUnsaved: If the reply or its payment could not be saved.
            Stopping: If the run stops before the call is made.
            CallError: If the call fails.
        """
        replies = self.claim.replies
        key, in_flight = self.claim.key(request), replies.in_flight
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
            if (reply := replies.get(key)) is not None:
                return self._cached(key, reply)
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

    def _cached(self, key: str, reply: Reply) -> Call:
        now = time.time()
        return Call(key, reply, not (self.was_paid and self.was_paid(key)), now, now)

    async def _made(self, key: str, request: Request) -> Call:
        """Make a call and save its reply, unless another process has paid for it meanwhile."""
        replies = self.claim.replies
        saving: asyncio.Future[None] | None = None
        try:
            started = time.time()
            while True:
                try:
                    reply = await self.ask(request)
                    break
                except PaidElsewhere as paid:
                    found = paid.reply or await self.claim.wait(key)
                if found is not None:
                    return self._cached(key, found)
            payment = self.pays(request, reply)
            if reply.is_answer:
                call = Call(key, reply, False, started, time.time())
                saving = replies.put(key, reply, self.backend, request.model, payment, self.run)
                self.claim.hand_over(key)
                self.used(key)
        finally:
            self.claim.release(key)
        if saving is None:
            # An empty reply is never cached, because an outage may be the cause. An identical call
            # is paid for again, so each has a separate id.
            own = self.claim.key(request, by_instance=True)
            call = Call(own, reply, False, started, time.time())
            if payment is not None:
                saving = replies.charge(bytes.fromhex(own), payment)
        try:
            if saving is not None:
                saving.add_done_callback(lambda _: self.settle(request, reply))
                await saving  # continues in spite of a Ctrl-C
        except StoreFailed as error:
            raise ReplyUnsaved(error, call) from None
        return call


@dataclass(eq=False)
class FreeCalls:
    """The top layer for recorded and simulated answers, which are neither cached nor paid for."""

    ask: Ask
    key: Callable[[Request], str]

    async def __call__(self, request: Request) -> Call:
        """Send the request down the stack, and return the reply as a `Call`."""
        started = time.time()
        reply = await self.ask(request)
        return Call(self.key(request), reply, False, started, time.time())
