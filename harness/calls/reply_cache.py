"""The cache of paid replies: one SQLite database shared by all runs and processes.

Replies are read in the caller's thread and written by a background thread, which commits all queued
writes in one transaction. The database also contains batches and payments. Claims on calls that are
being paid for are in files next to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from math import inf
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from filelock import FileLock

from harness.calls import database
from harness.calls.claims import lacks_files, open_claims
from harness.calls.database import LOCKED_S, PaymentRow, ReplyRow, Restore, is_busy, is_damage
from harness.errors import StoreFailed
from harness.records import INTERRUPTIONS, Call, Reply, replace_surrogates

PATIENCE_S = 300.0  # to wait for another process's lock: long, as the replies were paid for
NOTICE_S = 2.0  # seconds of waiting for another process before the user is notified
ROOM_BYTES = 1 << 20  # free disk space required before anything is paid for

_PAUSE_S = 0.02
_INSERT_REPLIES = "INSERT INTO replies VALUES {rows} ON CONFLICT (key) DO NOTHING"
# A key that is paid for again (its reply was pruned, or was empty) costs both times.
_INSERT_PAYMENTS = """
INSERT INTO payments (run, key, usd, created) VALUES {rows}
ON CONFLICT (run, key) DO UPDATE SET usd = usd + excluded.usd
"""
_ROWS_AT_ONCE = 256  # rows per statement: each step of a statement waits for Python's global lock


class StoreBusy(StoreFailed):
    """Another process holds a lock on the file; a retry may succeed."""


class CacheDamaged(StoreFailed):
    """The file is damaged, and was opened only to look replies up."""


class Payment(NamedTuple):
    """The account that paid for a call, and the amount in US dollars."""

    account: str
    usd: float


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


class ReplyCache:
    """A store of complete replies by key, and of the payments for them.

    Args:
        path: The database file.
        shared_memory: Whether to use a write-ahead log, which needs memory that processes share.
            None: yes, unless it cannot work on the file system.
        patience_s: Seconds to keep trying while another process has locked the file.
        notice: Receives messages for the user, from any thread. "" clears the last message.
        restore: Yields replies that are recorded elsewhere, to refill a damaged cache. None: a
            damaged cache is refused, and stays as it is.
    """

    shared: Shared | None = None  # set if other machines share the replies and claims

    def __init__(
        self,
        path: Path,
        *,
        shared_memory: bool | None = None,
        patience_s: float = PATIENCE_S,
        notice: Callable[[str], None] = lambda message: None,
        restore: Restore | None = tuple,
    ) -> None:
        self.path = path
        self.notify = notice
        self.in_flight: dict[str, asyncio.Future[Call]] = {}
        self._patience_s = patience_s
        self._give_up_at = inf
        self._restore = restore
        self._reported_held = False
        self._claimed: set[str] = set()
        self._damaged_rows: set[bytes] = set()
        self._decoder = msgspec.msgpack.Decoder(Reply)
        if shared_memory is None:
            shared_memory = database.file_system(path.parent) not in database.NETWORK_FILE_SYSTEMS
        claims_folder = path.with_suffix(".claims")
        if path.exists() and lacks_files(claims_folder) and database.is_in_use(path):
            raise StoreFailed(
                f"{claims_folder} was deleted while another run uses the cache {path}: which calls "
                "that run is paying for cannot be seen.",
                "Run again when that run has ended.",
            )
        if path.is_file() and path.stat().st_nlink > 1:
            raise StoreFailed(
                f"The cache {path} has a second name (a hard link), under which another run may "
                "use and damage it.",
                "Replace it by a copy (cp FILE NEW, then mv NEW FILE) while no run uses it.",
            )
        self._claims = open_claims(claims_folder)
        try:
            self._writer = self._open(wal=shared_memory)
            self.journal_mode = database.journal_mode(self._writer)
            self._reader = database.open_database(path, wal=self.journal_mode == "wal")
            self._reader.execute("PRAGMA busy_timeout=0")
            self._writer.execute("PRAGMA busy_timeout=500")
            self._file = _identity(path)
        except BaseException as error:
            self._claims.close()
            if isinstance(error, (OSError, NotImplementedError, sqlite3.Error)):
                raise self._failed("open", error) from None
            raise
        if self._claims.trouble:
            self.notify(
                f"Calls of other processes cannot be seen in {path.parent} "
                f"({self._claims.trouble}): two runs at the same time may pay for the same call."
            )
        self._batches: BackgroundQueue[database.Write] = BackgroundQueue(self._commit, "replies")

    def _open(self, *, wal: bool) -> sqlite3.Connection:
        """Return a connection to the cache's file, after replacing a damaged one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Two processes that both switch a new file to WAL would not wait for each other.
        with FileLock(self.path.with_suffix(".lock"), timeout=LOCKED_S):
            if database.marker(self.path).exists() or database.is_emptied(self.path):
                self._recover()
            try:
                file = self._connect(wal=wal)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._recover()
                file = self._connect(wal=wal)
            self._claims.use()
            return file

    def _connect(self, *, wal: bool) -> sqlite3.Connection:
        """Open the file, in the safe mode if the write-ahead log is off or fails."""
        why = "it cannot be turned on"
        if wal:
            try:
                file = database.open_database(self.path, wal=True)
                if database.journal_mode(file) == "wal":
                    return file
                file.close()
            except sqlite3.OperationalError as error:
                why = str(error)
                if is_busy(error):
                    raise
        file = database.open_database(self.path, wal=False)
        if wal:
            self.notify(
                f"SQLite's write-ahead log does not work for the cache {self.path} ({why}): "
                "using a slower, safe mode."
            )
        return file

    def _recover(self) -> None:
        if self._restore is None:
            raise CacheDamaged(
                f"The cache {self.path} is damaged.",
                "The next run moves it aside, and fills a new one from the attempts of runs.",
            )
        if not self._claims.alone():
            database.mark(self.path)
            raise StoreFailed(
                f"The cache {self.path} is damaged, and another run still uses it.",
                "Run again when that run has ended: the cache is then moved aside and refilled.",
            )
        if message := database.recover(self.path, self._restore):
            self.notify(message)

    def check_room(self) -> None:
        """Raise StoreFailed if the disk has no room for replies. Call it before paying."""
        room = "INSERT OR REPLACE INTO replies VALUES (x'', zeroblob(?), '', '', 0)"
        try:
            self._writer.execute(room, [ROOM_BYTES])
            self._writer.execute("DELETE FROM replies WHERE key = x''")
        except sqlite3.Error as error:
            if not is_busy(error):
                raise self._failed("write", error) from None

    def get(self, key: str, *, wait_s: float = 0.0) -> Reply | None:
        """Return the reply stored under a key, or None if it is missing or damaged.

        The calling thread reads: a lookup takes microseconds, less than handing it to another
        thread.

        Raises:
            StoreBusy: If another process keeps the file locked for more than ``wait_s`` seconds.
            StoreFailed: If the file cannot be read.
        """
        name = bytes.fromhex(key)
        rows = self._read("SELECT reply FROM replies WHERE key = ?", [name], wait_s)
        if not rows or name in self._damaged_rows:
            return None
        try:
            if _intact(name, rows[0][0]):
                reply = self._decoder.decode(rows[0][0])
                # Earlier versions saved interrupted answers. A team's cache cannot replace them.
                if reply.finish_reason not in INTERRUPTIONS or self.shared is not None:
                    return reply
                self._damaged_rows.add(name)
                return None
        except (TypeError, AttributeError, msgspec.MsgspecError, UnicodeDecodeError):
            pass
        self._damaged_rows.add(name)
        self.notify(
            f"The reply {key} in the cache {self.path} is damaged: it is not used, and its call "
            "is made and paid for again."
        )
        return None

    async def find(
        self, key: str, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> Reply | None:
        """Return the reply stored under a key, without blocking on a locked file.

        Raises:
            StoreBusy: If the file stays locked for ``patience_s`` seconds.
            StoreFailed: If the file cannot be read.
        """
        since = time.monotonic()
        while True:
            try:
                return self.get(key)
            except StoreBusy:
                if self._out_of_patience(since):
                    raise
            await sleep(_PAUSE_S)

    def was_paid(self, key: str, runs: Collection[str], since: float = 0.0) -> bool:
        """Return whether one of the runs has paid for a key's reply since a given Unix time."""
        query = "SELECT reply FROM replies WHERE key = ? AND created >= ?"
        rows = self._read(query, [bytes.fromhex(key), since], LOCKED_S)
        return bool(rows) and msgspec.msgpack.decode(rows[0][0]).get("run") in runs

    def claim(self, key: str) -> bool:
        """Claim a call, or return False if it is taken.

        After claiming a call, look its reply up again: it may have arrived meanwhile.
        """
        if not self._claims.take(key):
            return False
        self._claimed.add(key)
        return True

    def release(self, key: str) -> None:
        """Release this process's claim on a call, if any."""
        if key in self._claimed:  # otherwise `close` released it, and another process may hold it
            self._claimed.remove(key)
            self._claims.release(key)

    def put(
        self,
        key: str,
        reply: Reply,
        backend: str,
        model: str,
        payment: Payment | None = None,
        run: str = "",
    ) -> asyncio.Future[None]:
        """Queue a reply, and its payment if any (see `write`). ``run`` is the id of the payer."""
        paid = [payment_row(key, payment)] if payment else []
        return self.write(database.Write([reply_row(key, reply, backend, model, run)], paid))

    def charge(self, name: str | bytes, payment: Payment) -> asyncio.Future[None]:
        """Queue a payment without a reply. An account's amounts with the same ``name`` add up."""
        key = name.encode() if isinstance(name, str) else name
        return self.write(database.Write((), [payment_row(key.hex(), payment)]))

    def write(self, rows: database.Write) -> asyncio.Future[None]:
        """Queue rows to be committed together. Claims on the replies' calls are then released.

        Returns:
            A future that completes after the commit, or fails with StoreFailed. Cancelling it does
            not stop the commit.
        """
        return self._batches.add(rows)

    def read(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows that an SQL query finds.

        Raises:
            StoreFailed: If the file cannot be read.
        """
        return self._read(query, values, LOCKED_S)

    def booked(self, account: str) -> dict[bytes, float]:
        """Return an account's payments in US dollars, by call key or the name given to `charge`."""
        rows = self._read(
            "SELECT key, usd FROM payments WHERE run = ?", [replace_surrogates(account)], LOCKED_S
        )
        for key, usd in rows:
            if not (isinstance(key, bytes) and isinstance(usd, float) and -1e-9 < usd < inf):
                raise StoreFailed(
                    f"The cache {self.path} is damaged: a call has cost {str(usd)[:40]!r}.",
                    "Move the file away: the run then counts what its folder records.",
                )
        return dict(rows)

    def _read(self, query: str, values: Sequence[object], wait_s: float) -> list[Any]:
        end = time.monotonic() + wait_s
        while True:
            try:
                return self._reader.execute(query, values).fetchall()
            except sqlite3.Error as error:
                if not is_busy(error) or time.monotonic() >= end:
                    raise self._failed("read", error) from None
            time.sleep(_PAUSE_S)

    def _commit(self, writes: list[database.Write]) -> None:
        """Commit queued writes in one transaction, waiting for locks of other processes."""
        replies = [row for write in writes for row in write.replies]
        payments = [row for write in writes for row in write.payments]
        statements = [statement for write in writes for statement in write.statements]
        since = time.monotonic()
        try:
            while True:
                try:
                    self._transact(replies, payments, statements)
                    break
                except Exception as error:
                    failure = self._failed("write", error)
                    if not isinstance(failure, StoreBusy) or self._out_of_patience(since):
                        raise failure from None
                time.sleep(_PAUSE_S)
            if _identity(self.path) != self._file:  # SQLite would go on writing to the deleted file
                problem = f"The cache {self.path} was deleted or replaced during the run."
                raise StoreFailed(problem, "Run again: answers so far are in the run's attempts.")
        finally:
            for key, *_ in replies:
                self.release(key.hex())
        if self._reported_held:
            self._reported_held = False
            self.notify("")

    def _transact(
        self,
        replies: list[ReplyRow],
        payments: list[PaymentRow],
        statements: list[database.Statement],
    ) -> None:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            for key in self._damaged_rows.intersection(row[0] for row in replies):
                self._writer.execute("DELETE FROM replies WHERE key = ?", [key])
            for insert, rows in ((_INSERT_REPLIES, replies), (_INSERT_PAYMENTS, payments)):
                for first in range(0, len(rows), _ROWS_AT_ONCE):
                    some = rows[first : first + _ROWS_AT_ONCE]
                    places = f"({', '.join('?' * len(some[0]))})"
                    self._writer.execute(
                        insert.format(rows=", ".join([places] * len(some))),
                        list(itertools.chain.from_iterable(some)),
                    )
            for statement, values in statements:
                self._writer.execute(statement, values)
            self._writer.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # SQLite may already have ended it
                self._writer.execute("ROLLBACK")
            raise
        self._damaged_rows.difference_update(row[0] for row in replies)

    def _out_of_patience(self, since: float) -> bool:
        """Return whether to stop waiting for the file, and notify the user once."""
        waited = time.monotonic() - since
        if waited >= NOTICE_S and not self._reported_held:
            self._reported_held = True
            self.notify(f"The cache {self.path} is held by another process; waiting.")
        return waited >= self._patience_s or time.monotonic() >= self._give_up_at

    def _failed(self, verb: str, error: Exception) -> StoreFailed:
        """Return the StoreFailed to raise for an error, and mark a damaged file for recovery."""
        problem = f"Cannot {verb} the cache {self.path}"
        if is_busy(error) or isinstance(error, TimeoutError):
            problem += ": another process holds it."
            return StoreBusy(problem, "Run again when it has finished.")
        if is_damage(error):
            database.mark(self.path)
            remedy = "it will be moved aside, and a new one filled from the attempts of runs."
            return StoreFailed(f"{problem}: {error}. It is damaged.", f"Run again: {remedy}")
        return StoreFailed(
            f"{problem}: {error}.",
            "Free some space or fix the permissions, or set HARNESS_CACHE_DIR to another folder; "
            "then run again.",
        )

    def __enter__(self) -> ReplyCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit the queued writes, release this object's claims, and close the file."""
        self._give_up_at = time.monotonic() + LOCKED_S  # regardless of earlier waiting
        self._batches.close()
        if self._batches.unretrieved:
            self.notify(
                f"{self._batches.unretrieved} paid replies could not be saved in {self.path}."
            )
        for key in list(self._claimed):
            self.release(key)
        self._reader.close()
        self._writer.close()
        self._claims.close()


_encoder = msgspec.msgpack.Encoder()


def encoded(reply: Reply) -> bytes:
    """Encode a reply as MessagePack, without the payer and checksum that the cache adds."""
    return _encoder.encode(reply)


class StoredReply(Reply, frozen=True):
    """A reply as stored, with its payer and a checksum, which earlier versions ignore."""

    run: str = ""
    crc: bytes = bytes(4)  # last: its bytes end the encoded record, and cover the others


_CHECKSUM = b"\xa3crc\xc4\x04"
"""The bytes before the 4-byte checksum in a stored reply: the field's name, and the length."""


def _sealed(key: bytes, reply: Reply, run: str) -> bytes:
    """Encode a reply with its payer and a checksum."""
    fields = (*msgspec.structs.astuple(reply), replace_surrogates(run))
    text = _encoder.encode(StoredReply(*fields))[:-4]
    return text + zlib.crc32(text, zlib.crc32(key)).to_bytes(4)


def _intact(key: bytes, text: bytes) -> bool:
    """Return whether a stored reply matches its checksum, or has none."""
    if not text[:-4].endswith(_CHECKSUM):
        return True
    return zlib.crc32(text[:-4], zlib.crc32(key)).to_bytes(4) == text[-4:]


def reply_row(key: str, reply: Reply, backend: str, model: str, run: str) -> ReplyRow:
    """Return a reply's row in the cache. ``run`` is the id of the run that pays for it."""
    name = bytes.fromhex(key)
    sealed = _sealed(name, reply, run)
    return name, sealed, replace_surrogates(backend), replace_surrogates(model), time.time()


def payment_row(key: str, payment: Payment) -> PaymentRow:
    """Return a payment's row in the cache. ``key`` is in hex digits."""
    return replace_surrogates(payment.account), bytes.fromhex(key), payment.usd, time.time()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return a file's device and inode numbers, or None if it is gone."""
    try:
        status = os.stat(path)  # noqa: PTH116 (a third of the time)
    except OSError:
        return None
    return status.st_dev, status.st_ino


# Passes work to a background thread, which takes all queued items together.
# Committing 100 replies together takes hardly longer than committing one.

T = TypeVar("T")


class BackgroundQueue(Generic[T]):
    """A queue whose items a background thread passes together to ``do``."""

    def __init__(self, do: Callable[[list[T]], None], name: str) -> None:
        self._do = do
        self._queue: SimpleQueue[tuple[T, asyncio.Future[None]] | None] = SimpleQueue()
        self.unretrieved = 0
        """Number of failed items whose future was cancelled, so that no caller got the error."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def add(self, item: T) -> asyncio.Future[None]:
        """Queue an item. The returned future completes when ``do`` has processed the item.

        The future fails if ``do`` fails. Cancelling it does not stop the work.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put((item, done))
        return done

    def close(self) -> None:
        """Wait until the queued items are processed, and end the thread."""
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
            futures = [future for _, future in added]
            failure: Exception | None = None
            try:
                if added:
                    self._do([item for item, _ in added])
            except Exception as error:  # without this, the callers would wait forever
                failure = error
                self.unretrieved += sum(future.done() for future in futures)
            if futures:
                with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing is waiting
                    futures[0].get_loop().call_soon_threadsafe(_settle, futures, failure)


def _settle(futures: list[asyncio.Future[None]], failure: Exception | None) -> None:
    for future in futures:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
