"""The cache of paid replies: one SQLite database shared by all runs and processes.

Replies are read in the caller's thread and written in a separate one, which commits whatever has
gathered in one transaction; a `put` is done only after its commit. The database also holds the
payments of runs with a budget. Beside it are the claims on calls that are being paid for right
now. Locks, damage and unusual file systems are handled by `harness.calls.shared_database`.

>>> with ReplyCache(Path("replies.sqlite")) as replies:  # doctest: +SKIP
...     await replies.put(key, reply, "openai", "gpt-4", Payment("my_run", 0.002))
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Generic, TypeVar

import msgspec

from harness.calls import database
from harness.calls.database import PaymentRow, ReplyRow
from harness.calls.recovery import Restore
from harness.calls.shared_database import NOTICE_S, SharedDatabase, StoreBusy
from harness.errors import StoreFailed
from harness.records import Reply, encodable

LOCKED_MOST_S = 300.0
"""Longest wait for another process that holds the file: what waits has been paid for."""

_PAUSE_S = 0.02


class Payment(msgspec.Struct, frozen=True):
    """What a run has paid for one call, written in the transaction of its reply.

    So a run that is killed and resumed knows what it has spent.

    Raises:
        ValueError: The price is not an amount of money.
    """

    run: str
    usd: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.usd) and self.usd >= 0):
            raise ValueError(f"{self.usd!r} is not an amount of money")


class ReplyCache:
    """Complete replies by key, and what was paid for them.

    Args:
        path: The database's file; created with its folder if it does not exist.
        shared_memory: False for the safe mode without WAL; None to detect what works.
        locked_most_s: Seconds to keep trying while another process holds the file.
        notice: Called with messages for the user, and with an empty text when a wait is over; from
            any thread.
        restore: Returns the replies recorded elsewhere, to refill a damaged cache.

    Raises:
        StoreFailed: The file cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        *,
        shared_memory: bool | None = None,
        locked_most_s: float = LOCKED_MOST_S,
        notice: Callable[[str], None] | None = None,
        restore: Restore = tuple,
    ) -> None:
        self.path = path
        if shared_memory is None:
            found = database.file_system(path.parent)
            shared_memory = found not in database.NETWORK_FILE_SYSTEMS
        self._database = SharedDatabase(
            path,
            wal=shared_memory,
            locked_most_s=locked_most_s,
            notice=notice or (lambda said: None),
            restore=restore,
        )
        self._claimed: set[str] = set()
        self._decoder = msgspec.msgpack.Decoder(Reply)
        self._batches: Batches[tuple[ReplyRow | None, PaymentRow | None]] = Batches(
            self._commit, "replies"
        )

    @property
    def journal_mode(self) -> str:
        """Return SQLite's journal mode: ``wal``, or ``delete`` in the safe mode."""
        return self._database.journal_mode

    def get(self, key: str, *, wait_s: float = database.LOCKED_S) -> Reply | None:
        """Return the reply of a key, None if there is none.

        Read in the caller's thread: an index look-up takes microseconds, less than handing it to
        another thread would.

        Args:
            key: The call's key.
            wait_s: Seconds to wait, blocking this thread, for a process that holds the file.

        Raises:
            StoreBusy: It is still held then.
            StoreFailed: It cannot be read.
        """
        rows = self._database.read(
            "SELECT reply FROM replies WHERE key = ?", (bytes.fromhex(key),), wait_s=wait_s
        )
        try:
            return self._decoder.decode(rows[0][0]) if rows else None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._database.damaged("read", str(error)) from None

    async def find(
        self, key: str, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> Reply | None:
        """Look up the reply of a key; while another process holds the file, other tasks continue.

        Raises:
            StoreFailed: It is held for too long, or cannot be read.
        """
        since = None
        while True:
            try:
                return self.get(key, wait_s=0)
            except StoreBusy:
                since = time.monotonic() if since is None else since
                waited = time.monotonic() - since
                if waited >= self._database.locked_most_s:
                    raise
            if waited >= NOTICE_S:
                self._database.report_held()
            await sleep(_PAUSE_S)

    def claim(self, key: str) -> bool:
        """Claim a call, so that no other process pays for it too. Look up its reply again
        afterwards.

        Returns:
            False if the call is already claimed, in this process or another.
        """
        if not self._database.claims.take(key):
            return False
        self._claimed.add(key)
        try:
            self._database.refresh()
        except BaseException:
            self.release(key)
            raise
        return True

    def release(self, key: str) -> None:
        """Release a claim: its reply is committed, or its call has failed."""
        if key in self._claimed:  # otherwise `close` has released it, and it may be another's
            self._claimed.remove(key)
            self._database.claims.release(key)

    def put(
        self,
        key: str,
        reply: Reply,
        backend: str,
        model: str,
        payment: Payment | None = None,
        *,
        then: Callable[[], None] | None = None,
    ) -> asyncio.Future[None]:
        """Commit a reply and its payment; a cancelled future does not stop it.

        Args:
            key: The call's key.
            reply: The reply.
            backend: The backend's name.
            model: The model's name.
            payment: What was paid; None to record nothing.
            then: Called in the event loop when it is done or has failed.

        Returns:
            A future that is done once both would survive the death of this process; it raises
            StoreFailed if they cannot be written.
        """
        name, now = bytes.fromhex(key), time.time()
        row = name, encoded(reply), encodable(backend), encodable(model), now
        return self._batches.add((row, _row(name, payment, now) if payment else None), then)

    def charge(
        self, name: str | bytes, payment: Payment, *, then: Callable[[], None] | None = None
    ) -> asyncio.Future[None]:
        """Commit a payment whose reply is not cached (see `put`); those under one name add up."""
        key = name.encode() if isinstance(name, str) else name
        return self._batches.add((None, _row(key, payment, time.time())), then)

    def booked(self, run: str) -> dict[bytes, float]:
        """Return what a run has paid, in US dollars by the call's key."""
        return dict(
            self._database.read(
                database.PAYMENTS_OF_RUN, (encodable(run),), wait_s=database.LOCKED_S
            )
        )

    def notify(self, said: str) -> None:
        """Show the user a notice; an empty one clears it."""
        self._database.notice(said)

    def _commit(self, writes: list[tuple[ReplyRow | None, PaymentRow | None]]) -> None:
        changes = [(database.INSERT_REPLIES, [reply for reply, _ in writes if reply is not None])]
        paid = [payment for _, payment in writes if payment is not None]
        try:
            self._database.write([*changes, (database.INSERT_PAYMENTS, paid)] if paid else changes)
        except StoreFailed:
            raise
        except Exception as error:
            raise self._database.failed("write", error) from None

    def __enter__(self) -> ReplyCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit what is queued and close the file."""
        self._database.closing()
        self._batches.close()
        if self._batches.unretrieved:
            self.notify(
                f"{self._batches.unretrieved} paid replies could not be saved in {self.path}."
            )
        for key in list(self._claimed):
            self.release(key)
        self._database.close()


_encoder = msgspec.msgpack.Encoder()


def encoded(reply: Reply) -> bytes:
    """Encode a reply as the cache stores it."""
    return _encoder.encode(reply)


def _row(key: bytes, payment: Payment, now: float) -> PaymentRow:
    return encodable(payment.run), key, payment.usd, now


T = TypeVar("T")
_Waiting = tuple[asyncio.Future[None], Callable[[], None] | None]


class Batches(Generic[T]):
    """Hands items to a thread, in batches.

    A commit costs the same for one reply as for a hundred, and the event loop never waits for the
    disk.

    Args:
        do: Called in the thread with a batch; an exception goes to all of its items.
        name: The thread's name.
    """

    def __init__(self, do: Callable[[list[T]], None], name: str) -> None:
        self._do = do
        self._queue: SimpleQueue[tuple[T, _Waiting, asyncio.AbstractEventLoop] | None] = (
            SimpleQueue()
        )
        self.unretrieved = 0
        """Failed items that nobody awaited."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def add(self, item: T, then: Callable[[], None] | None = None) -> asyncio.Future[None]:
        """Queue an item; the future is done when the item is, or has failed.

        Args:
            item: What to do; a cancelled future does not stop it.
            then: Called in the event loop at that time, even if nobody is waiting.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._queue.put((item, (done, then), loop))
        return done

    def close(self) -> None:
        """Do what is queued, then end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        closing = False
        while not closing:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            closing = None in batch
            added = [entry for entry in batch if entry is not None]
            failure: Exception | None = None
            try:
                if added:
                    self._do([item for item, _, _ in added])
            except Exception as error:  # else it would be silent, and all would wait
                failure = error
            loops: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
            for _, waiting, loop in added:
                loops.setdefault(loop, []).append(waiting)
            for loop, all_waiting in loops.items():
                if failure is not None:
                    self.unretrieved += sum(future.done() for future, _ in all_waiting)
                with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
                    loop.call_soon_threadsafe(_settle, all_waiting, failure)


def _settle(all_waiting: list[_Waiting], failure: Exception | None) -> None:
    for future, then in all_waiting:
        if then is not None:
            then()
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
