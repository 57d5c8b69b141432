"""The layer of the call stack that claims calls, so that several processes pay only once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec.structs import replace

from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Ask, NotSent
from harness.records import Reply, Request

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
        waited, pause = 0.0, FIRST_PAUSE_S
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
