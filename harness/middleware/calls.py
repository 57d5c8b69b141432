"""The top of the call stack: a reply is fetched, joined or paid for, in this order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from harness.errors import StoreFailed
from harness.middleware.key import call_key
from harness.middleware.reply_file import ReplyFile
from harness.records import Call, Reply, Request

Ask = Callable[[Request], Awaitable[Reply]]
"""A lower part of the call stack."""


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
    """Calls that cost something: never paid twice.

    ask: the stack below (retry and so on).
    backend, endpoint: parts of the key, see `call_key`.
    replies: the file of replies.
    """

    def __init__(
        self,
        ask: Ask,
        *,
        backend: str,
        endpoint: str,
        replies: ReplyFile,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ask = ask
        self._backend = backend
        self._endpoint = endpoint
        self._replies = replies
        self._clock = clock
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
        now = self._clock()
        reply = self._replies.get(key)
        if reply is not None:
            return Call(key, reply, True, now, now)
        shared: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        self._in_flight[key] = shared
        try:
            call = await self._pay(key, request)
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

    async def _pay(self, key: str, request: Request) -> Call:
        started = self._clock()
        reply = await self._ask(request)
        if not reply.text.strip():
            # It may be an outage's and is never kept; so the next such call is
            # paid again, and each has an id of its own.
            own = call_key(self._backend, self._endpoint, request, by_instance=True)
            return Call(own, reply, False, started, self._clock())
        call = Call(key, reply, False, started, self._clock())
        try:
            # Paid for: not to be lost to a Ctrl-C.
            await asyncio.shield(self._replies.put(key, reply, self._backend, request.model))
        except StoreFailed as error:
            raise ReplyUnsaved(error, call) from None
        return call


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
