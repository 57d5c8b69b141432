"""Claims record which process is paying for a call, so that no other process pays too.

A claim is an operating-system lock on a byte whose offset is derived from the call's key. It ends
with its process, so a killed process blocks no other. A call that waits for a claim holds none, so
there is no deadlock. POSIX locks belong to a process, and closing any descriptor of a file drops
all of its locks. Each file is therefore opened once per process, and the process keeps a set of the
calls that it has claimed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from harness.calls.signals import Ask, NotSent
from harness.records import Reply, Request

if TYPE_CHECKING:
    from harness.calls.reply_cache import ReplyCache

if sys.platform != "win32":
    import fcntl

SHARDS = 16  # number of lock files: the kernel searches all locks of a file

DIGITS = 14
"""Number of final hex digits of a key that determine its byte's offset (offsets have 63 bits).

If two keys collide, one call merely waits for the other.
"""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.2  # between checks whether another process has paid
NOTICE_S = 5.0  # seconds that a call waits for another process before the user is notified

IN_USE = 1 << 60  # offset of a byte that every process using the database locks


class Claims:
    """This process's claims. ``trouble`` is the reason why others cannot see them, or None."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.users = 0
        self.trouble: str | None = None
        self._guard = threading.Lock()
        self._taken: set[int] = set()
        self._files: list[int] = []
        if sys.platform == "win32":
            self.trouble = "not on this system"
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(SHARDS):
                self._files.append(os.open(folder / f"{number:x}", os.O_RDWR | os.O_CREAT, 0o666))
            fcntl.lockf(self._files[0], fcntl.LOCK_SH | fcntl.LOCK_NB, 1, IN_USE + 1)  # supported?
        except OSError as error:
            self._close_files()
            self.trouble = error.strerror or str(error)

    def take(self, key: str) -> bool:
        """Claim a call by its key. Return False if any process has claimed it, even this one."""
        place = int(key[-DIGITS:], 16)
        with self._guard:
            if place in self._taken or not self._lock(place, exclusive=True):
                return False
            self._taken.add(place)
            return True

    def release(self, key: str) -> None:
        """Release the claim on a call, given the call's key."""
        place = int(key[-DIGITS:], 16)
        with self._guard:
            self._taken.discard(place)
            if self._files:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._files[place % SHARDS], fcntl.LOCK_UN, 1, place)

    def use(self) -> None:
        """Register this process as a user, so that no other process replaces the database."""
        self._lock(IN_USE, exclusive=False)

    def alone(self) -> bool:
        """Return whether the database has only this user. If so, lock it until `use`."""
        return self.users == 1 and self._lock(IN_USE, exclusive=True)

    def _lock(self, place: int, *, exclusive: bool) -> bool:
        """Lock the byte at an offset. Return False if another process holds the lock.

        If the system does not support locks, return True: the call is then made, but another
        process may pay for it too.
        """
        if self._files:
            kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
            try:
                fcntl.lockf(self._files[place % SHARDS], kind | fcntl.LOCK_NB, 1, place)
            except OSError as error:
                return error.errno not in (errno.EAGAIN, errno.EACCES)
        return True

    def close(self) -> None:
        """Unregister a user of the claims. When the last user leaves, close the files."""
        with _opening:
            self.users -= 1
            if not self.users:
                del _open[self.folder]
                self._close_files()

    def _close_files(self) -> None:
        while self._files:
            os.close(self._files.pop())


_open: dict[Path, Claims] = {}
_opening = threading.Lock()


def open_claims(folder: Path) -> Claims:
    """Return this process's claims in a folder. The caller must close them."""
    folder = folder.resolve()
    with _opening:
        claims = _open.get(folder) or Claims(folder)
        _open[folder] = claims
        claims.users += 1
        return claims


class Shared(Protocol):
    """Further methods of a cache that several machines share."""

    async def fetch(self, key: str) -> Reply | None:
        """Return a call's reply that another machine has saved, or None."""

    async def claim_shared(self, key: str) -> bool:
        """Claim a call on all machines, or copy its reply here. Return False if both fail."""

    async def hold_claims(self, tag: str, keys: Sequence[str]) -> bool:
        """Let claims on a batch's calls outlive this process. Return False if any claim is lost."""

    async def free_claims(self, tag: str, keys: Sequence[str]) -> None:
        """Release the claims on calls of a batch, from any process."""


class PaidElsewhere(NotSent):
    """Another process has paid for this call, or is still paying for it (``reply`` is None)."""

    def __init__(self, reply: Reply | None = None) -> None:
        self.reply = reply


class InBatch(NotSent):
    """The call is not sent because it has meanwhile become part of a batch."""


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
    in_batch: Callable[[str], bool] = lambda key: False

    def __post_init__(self) -> None:
        self._held: set[str] = set()
        self._waiting_long: set[str] = set()

    async def __call__(self, request: Request) -> Reply:
        """Claim a call, send it and return its reply.

        Other samples of the request that cannot be claimed are left out.

        Raises:
            PaidElsewhere: If another process has claimed the call or already saved its reply.
            InBatch: If the call is in a batch.
        """
        await self._take(self.key(request))
        if request.others:
            others = []
            for number in request.others:
                key = self.key(replace(request, sample=number, others=()))
                try:
                    await self._take(key)
                    others.append(number)
                except (PaidElsewhere, InBatch):
                    self.release(key)
            request = replace(request, others=tuple(others))
        return await self.ask(request)

    async def _take(self, key: str) -> None:
        if key in self._held:  # a retry
            return
        if not self.replies.claim(key):
            raise PaidElsewhere
        self._held.add(key)
        if self.in_batch(key):
            self.release(key)
            raise InBatch
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
            claimed = shared is None or self.in_batch(key) or await shared.claim_shared(key)
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
