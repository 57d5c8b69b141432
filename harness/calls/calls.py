"""The top of the call stack: a reply is fetched, joined or paid for, in this order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from harness.calls.key import call_key
from harness.calls.reply_cache import Payment, ReplyCache
from harness.calls.shared_database import StoreBusy
from harness.errors import StoreFailed
from harness.records import REFUSALS, Call, Reply, Request

Ask = Callable[[Request], Awaitable[Reply]]
"""A lower part of the call stack."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.2
"""How often one looks whether another process has paid."""

CLAIMED_NOTICE_S = 30.0
"""Seconds that a call waits for another process before the user hears of it."""


class ReplyUnsaved(StoreFailed):
    """A reply was paid for but could not be put into the cache: it is handed over here.

    call: the call, whose attempt the run should still try to write.
    """

    def __init__(self, cause: StoreFailed, call: Call) -> None:
        super().__init__(cause.message, cause.remedy)
        self.call = call


class Calls(Protocol):
    """What the scheduler sees of a backend and all that stands before it."""

    async def __call__(self, request: Request) -> Call:
        """The call that answers a request."""
        ...


class PaidCalls:
    """Calls that cost something: never paid twice, by this process or another.

    ask: the stack below (retry and so on).
    backend, endpoint: parts of the key, see `call_key`.
    replies: the file of replies.
    pays: what a reply has cost a run with a budget, None for nothing to write down.
    sleep: waits for another process; may raise to give the wait up.
    """

    def __init__(
        self,
        ask: Ask,
        *,
        backend: str,
        endpoint: str,
        replies: ReplyCache,
        pays: Callable[[Request, Reply], Payment | None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ask = ask
        self._backend = backend
        self._endpoint = endpoint
        self._replies = replies
        self._pays = pays
        self._sleep = sleep
        self._clock = clock
        # The last call was not in the file: nor will the next one be, and it would
        # be looked for in vain before it is claimed, and again afterwards.
        self._paying = False
        self._waiting_long: set[str] = set()
        self._in_flight: dict[str, asyncio.Future[Call]] = {}

    async def __call__(self, request: Request) -> Call:
        """Take the reply from the cache, from the same call in flight, or from the provider.

        Raises: what the stack below raises; ReplyUnsaved.
        """
        key = call_key(self._backend, self._endpoint, request)
        while (same := self._in_flight.get(key)) is not None:
            try:
                call = await asyncio.shield(same)
            except asyncio.CancelledError:
                here = asyncio.current_task()
                if same.cancelled() and not (here and here.cancelling()):
                    continue  # the other one was cancelled and not this one: take over
                raise
            return Call(call.id, call.reply, True, call.started_at, call.ended_at)
        if not self._paying:
            now = self._clock()
            try:
                reply = self._replies.get(key, wait_s=0)
            except StoreBusy:
                reply = None  # looked for again below, with patience
            if reply is not None:
                return Call(key, reply, True, now, now)
        shared: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        self._in_flight[key] = shared
        try:
            call = await self._claimed(key, request)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                shared.cancel()
            else:
                shared.set_exception(error)
                shared.exception()  # not "never retrieved" where nobody waited
            raise
        else:
            shared.set_result(call)
            return call
        finally:
            del self._in_flight[key]

    async def _claimed(self, key: str, request: Request) -> Call:
        """The call, as the only process that pays for it; or what another one has paid for."""
        if not self._replies.claim(key):
            await self._wait(key)
        release: Callable[[], None] | None = partial(self._replies.release, key)
        try:
            reply = await self._replies.find(key, self._sleep)
            self._paying = reply is None
            if reply is not None:
                now = self._clock()
                return Call(key, reply, True, now, now)
            started = self._clock()
            reply = await self._ask(request)
            payment, unpriced = self._payment(request, reply)
            saving: asyncio.Future[None] | None = None
            if reply.text.strip() or reply.finish_reason in REFUSALS:
                call = Call(key, reply, False, started, self._clock())
                saving = self._replies.put(
                    key, reply, self._backend, request.model, payment, then=release
                )
            else:
                # It may be an outage's and is never kept; so the next such call is
                # paid again, and each has an id of its own.
                own = call_key(self._backend, self._endpoint, request, by_instance=True)
                call = Call(own, reply, False, started, self._clock())
                if payment is not None:
                    saving = self._replies.charge(bytes.fromhex(own), payment, then=release)
            if saving is not None:
                release = None  # not before the commit, or another one would find nothing and pay
                try:
                    await saving  # goes on in spite of a Ctrl-C
                except StoreFailed as error:
                    raise ReplyUnsaved(error, call) from None
            if unpriced is not None:
                raise unpriced
            return call
        finally:
            if release is not None:
                release()

    def _payment(self, request: Request, reply: Reply) -> tuple[Payment | None, Exception | None]:
        """The payment, or why there is none: the reply is to be kept all the same."""
        try:
            return self._pays(request, reply) if self._pays else None, None
        except Exception as error:
            return None, error

    async def _wait(self, key: str) -> None:
        """Claim a call that another process pays for, once that one has, has failed or has died."""
        waited, pause = 0.0, FIRST_PAUSE_S
        try:
            while True:
                await self._sleep(pause)
                if self._replies.claim(key):
                    return
                waited += pause
                pause = min(1.5 * pause, LONGEST_PAUSE_S)
                if waited >= CLAIMED_NOTICE_S:
                    if not self._waiting_long:
                        self._replies.tell(
                            "Another process is asking what this one needs too: waiting for its "
                            "answers, so that they are paid for once."
                        )
                    self._waiting_long.add(key)
        finally:
            if key in self._waiting_long:
                self._waiting_long.remove(key)
                if not self._waiting_long:
                    self._replies.tell("")


class FreeCalls:
    """Calls that cost nothing (recorded or simulated): neither kept nor shared."""

    def __init__(
        self,
        ask: Ask,
        *,
        backend: str,
        endpoint: str,
        by_instance: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ask = ask
        self._backend = backend
        self._endpoint = endpoint
        self._by_instance = by_instance
        self._clock = clock

    async def __call__(self, request: Request) -> Call:
        """Ask the stack below."""
        started = self._clock()
        reply = await self._ask(request)
        key = call_key(self._backend, self._endpoint, request, by_instance=self._by_instance)
        return Call(key, reply, False, started, self._clock())
