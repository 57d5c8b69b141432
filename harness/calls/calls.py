"""The top of the call stack: answers a call from the cache, from a call in flight, or by paying."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass

from harness.calls.key import call_key
from harness.calls.reply_cache import Payment, ReplyCache, StoreBusy
from harness.errors import StoreFailed
from harness.records import REFUSALS, Call, Reply, Request

Ask = Callable[[Request], Awaitable[Reply]]
"""What a layer of the call stack asks: the layer below."""

Calls = Callable[[Request], Awaitable[Call]]
"""A backend with its whole call stack, as the workers of a run see it."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.2
"""How often to check whether another process has paid."""

CLAIMED_NOTICE_S = 30.0
"""Seconds that a call waits for another process before the user is notified."""


class ReplyUnsaved(StoreFailed):
    """A reply was paid for but could not be cached.

    Attributes:
        call: The call, whose attempt the run should still try to write.
    """

    def __init__(self, cause: StoreFailed, call: Call) -> None:
        super().__init__(cause.message, cause.remedy)
        self.call = call


@dataclass(eq=False)
class PaidCalls:
    """Calls that cost something: never paid twice, by this process or another.

    Args:
        pays: The payment for a reply, for a run with a budget.
        sleep: Waits for another process; may raise to end the wait.
    """

    ask: Ask
    _: KW_ONLY
    backend: str
    endpoint: str
    replies: ReplyCache
    pays: Callable[[Request, Reply], Payment | None] = lambda request, reply: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        # If the last call was not cached, the next one is probably not either: skip the look-up
        # before the claim, as there is another one after it.
        self._paying = False
        self._waiting_long: set[str] = set()
        self._in_flight: dict[str, asyncio.Future[Call]] = {}

    async def __call__(self, request: Request) -> Call:
        """Take the reply from the cache, from the same call in flight, or from the provider.

        Raises:
            ReplyUnsaved: The reply was paid for but could not be cached.
        """
        key = call_key(self.backend, self.endpoint, request)
        while (same := self._in_flight.get(key)) is not None:
            try:
                call = await asyncio.shield(same)
            except asyncio.CancelledError:
                here = asyncio.current_task()
                if same.cancelled() and not (here and here.cancelling()):
                    continue  # the other call was cancelled, not this one: take over
                raise
            return Call(call.id, call.reply, True, call.started_at, call.ended_at)
        if not self._paying:
            try:
                reply = self.replies.get(key)
            except StoreBusy:
                reply = None  # looked up again below, and waited for
            if reply is not None:
                return _cached(key, reply)
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
        """Make the call if no other process pays for it; else return what that one paid for."""
        if not self.replies.claim(key):
            await self._wait(key)
        saving: asyncio.Future[None] | None = None
        try:
            reply = await self.replies.find(key, self.sleep)
            self._paying = reply is None
            if reply is not None:
                return _cached(key, reply)
            started = time.time()
            reply = await self.ask(request)
            payment = self.pays(request, reply)
            if reply.text.strip() or reply.finish_reason in REFUSALS:
                call = Call(key, reply, False, started, time.time())
                saving = self.replies.put(key, reply, self.backend, request.model, payment)
        finally:
            if saving is None:  # else the commit releases it
                self.replies.release(key)
        if saving is None:
            # An outage may be the cause, so it is never cached: the next such call is
            # paid again, and each has a separate id.
            own = call_key(self.backend, self.endpoint, request, by_instance=True)
            call = Call(own, reply, False, started, time.time())
            if payment is not None:
                saving = self.replies.charge(bytes.fromhex(own), payment)
        try:
            if saving is not None:
                await saving  # continues in spite of a Ctrl-C
        except StoreFailed as error:
            raise ReplyUnsaved(error, call) from None
        return call

    async def _wait(self, key: str) -> None:
        """Claim a call that another process is paying for, as soon as that process is done."""
        waited, pause = 0.0, FIRST_PAUSE_S
        try:
            while True:
                await self.sleep(pause)
                if self.replies.claim(key):
                    return
                waited += pause
                pause = min(1.5 * pause, LONGEST_PAUSE_S)
                if waited >= CLAIMED_NOTICE_S:
                    if not self._waiting_long:
                        self.replies.notify(
                            "Another process is making the same calls: waiting for its answers, so "
                            "that they are paid for only once."
                        )
                    self._waiting_long.add(key)
        finally:
            if key in self._waiting_long:
                self._waiting_long.remove(key)
                if not self._waiting_long:
                    self.replies.notify("")


def _cached(key: str, reply: Reply) -> Call:
    now = time.time()
    return Call(key, reply, True, now, now)


@dataclass(eq=False)
class FreeCalls:
    """Calls that cost nothing (recorded or simulated): neither cached nor shared."""

    ask: Ask
    _: KW_ONLY
    backend: str
    endpoint: str
    by_instance: bool

    async def __call__(self, request: Request) -> Call:
        """Ask the stack below."""
        started = time.time()
        reply = await self.ask(request)
        key = call_key(self.backend, self.endpoint, request, by_instance=self.by_instance)
        return Call(key, reply, False, started, time.time())
