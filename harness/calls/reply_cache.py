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
from harness.calls.database import LOCK_TIMEOUT_S, PaymentRow, ReplyRow, Restore, is_busy, is_damage
from harness.errors import StoreFailed
from harness.records import INTERRUPTIONS, Call, Reply, replace_surrogates

MAX_LOCK_WAIT_S = 300.0  # longest wait for another process's lock, as the replies are paid for
NOTICE_S = 2.0  # seconds of waiting for another process before the user is notified
MIN_FREE_BYTES = 1 << 20  # free disk space required before anything is paid for

_POLL_S = 0.02  # between tries while another process has locked the file
_INSERT_REPLIES = "INSERT INTO replies VALUES {rows} ON CONFLICT (key) DO NOTHING"
# A key that is paid for again (its reply was pruned, or was empty) costs both times.
_INSERT_PAYMENTS = """
INSERT INTO payments (run, key, usd, created) VALUES {rows}
ON CONFLICT (run, key) DO UPDATE SET usd = usd + excluded.usd
"""
_MAX_ROWS = 256  # per statement, each step of which waits for Python's global lock


class StoreBusy(StoreFailed):
    """Another process holds a lock on the file; a retry may succeed."""


class CacheDamaged(StoreFailed):
    """The file is damaged, and must not be repaired now because it was opened only for reading."""


class Payment(NamedTuple):
    """The account that paid for a call, and the amount in US dollars."""

    account: str
    usd: float


class SharedCache(Protocol):
    """The additional methods of a cache that several machines share."""

    async def fetch(self, key: str) -> Reply | None:
        """Return a call's reply that another machine has saved, or None."""

    async def claim_shared(self, key: str) -> bool:
        """Claim a call on all machines, or copy its reply to this machine's cache.

        Returns:
            False if neither is possible, because another machine is making the call.
        """

    async def keep_claims(self, tag: str, keys: Sequence[str]) -> bool:
        """Keep the claims on a batch's calls after this process ends.

        Returns:
            False if any of the claims is already lost.
        """

    async def release_claims(self, tag: str, keys: Sequence[str]) -> None:
        """Release the claims on a batch's calls, even those of other processes."""


class ReplyCache:
    """A store of complete replies by key, and of the payments for them.

    Args:
        path: The database file.
        shared_memory: Whether to use a write-ahead log, which needs memory that processes share.
            None: yes, unless it cannot work on the file system.
        max_lock_wait_s: Seconds to keep trying while another process has locked the file.
        notify: Receives messages for the user, from any thread. "" clears the last message.
        restore: Yields replies that are recorded elsewhere, to refill a damaged cache. None: a
            damaged cache is not repaired, but raises `CacheDamaged`.

    Raises:
        StoreFailed: If the file cannot be opened, or not safely.
    """

    shared: SharedCache | None = None  # set if other machines share the replies and claims

    def __init__(
        self,
        path: Path,
        *,
        shared_memory: bool | None = None,
        max_lock_wait_s: float = MAX_LOCK_WAIT_S,
        notify: Callable[[str], None] = lambda message: None,
        restore: Restore | None = tuple,
    ) -> None:
        self.path = path
        self.notify = notify
        self.in_flight: dict[str, asyncio.Future[Call]] = {}
        self._max_lock_wait_s = max_lock_wait_s
        self._give_up_at = inf
        self._restore = restore
        self._reported_lock = False
        self._claimed: set[str] = set()
        self._damaged_rows: set[bytes] = set()
        self._decoder = msgspec.msgpack.Decoder(Reply)
        if shared_memory is None:
            shared_memory = (
                database.file_system_type(path.parent) not in database.NETWORK_FILE_SYSTEMS
            )
        claims_folder = path.with_suffix(".claims")
        _check_only_access(path, claims_folder)
        self._claims = open_claims(claims_folder)
        try:
            self._open_connections(wal=shared_memory)
        except BaseException as error:
            self._claims.close()
            if isinstance(error, (OSError, NotImplementedError, sqlite3.Error)):
                raise self._store_error("open", error) from None
            raise
        if self._claims.unsupported:
            self.notify(
                f"Calls of other processes cannot be seen in {path.parent} "
                f"({self._claims.unsupported}): two runs at the same time may pay for the same "
                "call."
            )
        self._writes: BackgroundQueue[database.Write] = BackgroundQueue(self._commit, "replies")

    def _open_connections(self, *, wal: bool) -> None:
        self._writer = self._open(wal=wal)
        self.journal_mode = database.journal_mode(self._writer)
        self._reader = database.open_database(self.path, wal=self.journal_mode == "wal")
        self._reader.execute("PRAGMA busy_timeout=0")
        self._writer.execute("PRAGMA busy_timeout=500")
        self._file_id = _file_id(self.path)

    def _open(self, *, wal: bool) -> sqlite3.Connection:
        """Return a connection to the cache's file. A damaged file is first replaced."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Two processes that both switch a new file to WAL would not wait for each other.
        with FileLock(self.path.with_suffix(".lock"), timeout=LOCK_TIMEOUT_S):
            if database.marker_path(self.path).exists() or database.is_empty_file(self.path):
                self._recover()
            try:
                connection = self._connect(wal=wal)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._recover()
                connection = self._connect(wal=wal)
            self._claims.register_user()
            return connection

    def _connect(self, *, wal: bool) -> sqlite3.Connection:
        """Open the file, without a write-ahead log (``wal``) if the log does not work."""
        if not wal:
            return database.open_database(self.path, wal=False)
        reason = "it cannot be turned on"
        try:
            connection = database.open_database(self.path, wal=True)
            if database.journal_mode(connection) == "wal":
                return connection
            connection.close()
        except sqlite3.OperationalError as error:
            reason = str(error)
            if is_busy(error):
                raise
        connection = database.open_database(self.path, wal=False)
        self.notify(
            f"SQLite's write-ahead log does not work for the cache {self.path} ({reason}): "
            "using a slower, safe mode."
        )
        return connection

    def _recover(self) -> None:
        if self._restore is None:
            raise CacheDamaged(
                f"The cache {self.path} is damaged.",
                "The next run moves it aside, and fills a new one from the attempts of runs.",
            )
        if not self._claims.lock_if_only_user():
            database.mark_damaged(self.path)
            raise StoreFailed(
                f"The cache {self.path} is damaged, and another run still uses it.",
                "Run again when that run has ended: the cache is then moved aside and refilled.",
            )
        if message := database.recover(self.path, self._restore):
            self.notify(message)

    def check_disk_space(self) -> None:
        """Raise StoreFailed if the disk has no room for replies. Call this before paying."""
        insert = "INSERT OR REPLACE INTO replies VALUES (x'', zeroblob(?), '', '', 0)"
        try:
            self._writer.execute(insert, [MIN_FREE_BYTES])
            self._writer.execute("DELETE FROM replies WHERE key = x''")
        except sqlite3.Error as error:
            if not is_busy(error):
                raise self._store_error("write", error) from None

    def get(self, key: str, *, wait_s: float = 0.0) -> Reply | None:
        """Return the reply stored under a key, or None if it is missing or damaged.

        The calling thread reads: a look-up takes microseconds, less than passing it to another
        thread.

        Args:
            key: The key.
            wait_s: How many seconds to wait if another process has locked the file.

        Raises:
            StoreBusy: If the file stays locked.
            StoreFailed: If the file cannot be read.
        """
        key_bytes = bytes.fromhex(key)
        rows = self._read("SELECT reply FROM replies WHERE key = ?", [key_bytes], wait_s)
        if not rows or key_bytes in self._damaged_rows:
            return None
        try:
            if _is_intact(key_bytes, rows[0][0]):
                reply = self._decoder.decode(rows[0][0])
                # Earlier versions saved interrupted answers. A team's cache cannot replace them.
                if reply.finish_reason not in INTERRUPTIONS or self.shared is not None:
                    return reply
                self._damaged_rows.add(key_bytes)
                return None
        except (TypeError, AttributeError, msgspec.MsgspecError, UnicodeDecodeError):
            pass
        self._damaged_rows.add(key_bytes)
        self.notify(
            f"The reply {key} in the cache {self.path} is damaged: it is not used, and its call "
            "is made and paid for again."
        )
        return None

    async def find(
        self, key: str, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> Reply | None:
        """Return the reply stored under a key, or None. Tries again while the file is locked.

        Args:
            key: The key.
            sleep: Waits for a number of seconds.

        Raises:
            StoreBusy: If the file stays locked for ``max_lock_wait_s`` seconds.
            StoreFailed: If the file cannot be read.
        """
        started = time.monotonic()
        while True:
            try:
                return self.get(key)
            except StoreBusy:
                self._report_lock(started)
                if self._has_waited_too_long(started):
                    raise
            await sleep(_POLL_S)

    def was_paid(self, key: str, run_ids: Collection[str], since: float = 0.0) -> bool:
        """Return whether one of several runs has paid for the reply to a call.

        Args:
            key: The call's key.
            run_ids: Ids of the runs.
            since: The Unix time before which payments do not count.
        """
        query = "SELECT reply FROM replies WHERE key = ? AND created >= ?"
        rows = self._read(query, [bytes.fromhex(key), since], LOCK_TIMEOUT_S)
        return bool(rows) and msgspec.msgpack.decode(rows[0][0]).get("run") in run_ids

    def claim(self, key: str) -> bool:
        """Claim a call. Return False if it is already claimed, by any process.

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
        """Queue a reply and its payment, if any, to be saved.

        Args:
            key: The call's key.
            reply: The reply.
            backend: The backend's name.
            model: The model's name.
            payment: The payment, or None if the call was free or is charged elsewhere.
            run: Id of the run that pays.

        Returns:
            A future that completes after the commit (`write`).
        """
        payments = [payment_row(key, payment)] if payment else []
        return self.write(database.Write([reply_row(key, reply, backend, model, run)], payments))

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
        return self._writes.add(rows)

    def read(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows that an SQL query selects.

        Raises:
            StoreFailed: If the file cannot be read.
        """
        return self._read(query, values, LOCK_TIMEOUT_S)

    def payments_of(self, account: str) -> dict[bytes, float]:
        """Return an account's payments in US dollars, by call key or the ``name`` in `charge`."""
        rows = self._read(
            "SELECT key, usd FROM payments WHERE run = ?",
            [replace_surrogates(account)],
            LOCK_TIMEOUT_S,
        )
        for key, usd in rows:
            if not (isinstance(key, bytes) and isinstance(usd, float) and -1e-9 < usd < inf):
                raise StoreFailed(
                    f"The cache {self.path} is damaged: a call has cost {str(usd)[:40]!r}.",
                    "Move the file away: the run then counts what its folder records.",
                )
        return dict(rows)

    def _read(self, query: str, values: Sequence[object], wait_s: float) -> list[Any]:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                return self._reader.execute(query, values).fetchall()
            except sqlite3.Error as error:
                if not is_busy(error) or time.monotonic() >= deadline:
                    raise self._store_error("read", error) from None
            time.sleep(_POLL_S)

    def _commit(self, writes: list[database.Write]) -> None:
        """Commit queued writes in one transaction, waiting for locks of other processes."""
        replies = [row for write in writes for row in write.replies]
        payments = [row for write in writes for row in write.payments]
        statements = [statement for write in writes for statement in write.statements]
        started = time.monotonic()
        try:
            while True:
                try:
                    self._transact(replies, payments, statements)
                    break
                except Exception as error:
                    store_error = self._store_error("write", error)
                    if not isinstance(store_error, StoreBusy):
                        raise store_error from None
                self._report_lock(started)
                if self._has_waited_too_long(started):
                    raise store_error
                time.sleep(_POLL_S)
            if _file_id(self.path) != self._file_id:  # SQLite would write to the deleted file
                problem = f"The cache {self.path} was deleted or replaced during the run."
                raise StoreFailed(problem, "Run again: answers so far are in the run's attempts.")
        finally:
            for key, *_ in replies:
                self.release(key.hex())
        if self._reported_lock:
            self._reported_lock = False
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
                for start in range(0, len(rows), _MAX_ROWS):
                    chunk = rows[start : start + _MAX_ROWS]
                    placeholders = f"({', '.join('?' * len(chunk[0]))})"
                    self._writer.execute(
                        insert.format(rows=", ".join([placeholders] * len(chunk))),
                        list(itertools.chain.from_iterable(chunk)),
                    )
            for statement, values in statements:
                self._writer.execute(statement, values)
            self._writer.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # SQLite may already have ended it
                self._writer.execute("ROLLBACK")
            raise
        self._damaged_rows.difference_update(row[0] for row in replies)

    def _report_lock(self, started: float) -> None:
        """Notify the user once that another process has locked the file for long."""
        waited_s = time.monotonic() - started
        if waited_s >= NOTICE_S and not self._reported_lock:
            self._reported_lock = True
            self.notify(f"The cache {self.path} is held by another process; waiting.")

    def _has_waited_too_long(self, started: float) -> bool:
        now = time.monotonic()
        return now - started >= self._max_lock_wait_s or now >= self._give_up_at

    def _store_error(self, verb: str, error: Exception) -> StoreFailed:
        """Return the StoreFailed for an error. Mark the file as damaged if the error says so."""
        problem = f"Cannot {verb} the cache {self.path}"
        if is_busy(error) or isinstance(error, TimeoutError):
            problem += ": another process holds it."
            return StoreBusy(problem, "Run again when it has finished.")
        if is_damage(error):
            database.mark_damaged(self.path)
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
        self._give_up_at = time.monotonic() + LOCK_TIMEOUT_S  # regardless of earlier waiting
        self._writes.close()
        if self._writes.n_unreported:
            self.notify(
                f"{self._writes.n_unreported} paid replies could not be saved in {self.path}."
            )
        for key in list(self._claimed):
            self.release(key)
        self._reader.close()
        self._writer.close()
        self._claims.close()


_encoder = msgspec.msgpack.Encoder()


def _check_only_access(path: Path, claims_folder: Path) -> None:
    """Raise StoreFailed if other processes may use the cache without being noticed."""
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


def encode_reply(reply: Reply) -> bytes:
    """Encode a reply as MessagePack, without the payer and checksum that the cache adds."""
    return _encoder.encode(reply)


class StoredReply(Reply, frozen=True):
    """A reply as stored, with its payer and a checksum, which earlier versions ignore."""

    run: str = ""
    crc: bytes = bytes(4)  # last: its bytes end the encoded record, and cover the others


_CHECKSUM = b"\xa3crc\xc4\x04"
"""The bytes before the 4-byte checksum in a stored reply: the field's name, and the length."""


def _encode_stored_reply(key: bytes, reply: Reply, run: str) -> bytes:
    """Encode a reply with its payer and a checksum, which also covers the key."""
    fields = (*msgspec.structs.astuple(reply), replace_surrogates(run))
    content = _encoder.encode(StoredReply(*fields))[:-4]
    return content + zlib.crc32(content, zlib.crc32(key)).to_bytes(4)


def _is_intact(key: bytes, encoded: bytes) -> bool:
    """Return whether a stored reply matches its checksum, or has none."""
    content = encoded[:-4]
    if not content.endswith(_CHECKSUM):
        return True
    return zlib.crc32(content, zlib.crc32(key)).to_bytes(4) == encoded[-4:]


def reply_row(key: str, reply: Reply, backend: str, model: str, run: str) -> ReplyRow:
    """Return a reply's row in the cache.

    Args:
        key: The call's key (hex digits).
        reply: The reply.
        backend: The backend's name.
        model: The model's name.
        run: Id of the run that pays for the reply.
    """
    key_bytes = bytes.fromhex(key)
    encoded = _encode_stored_reply(key_bytes, reply, run)
    return key_bytes, encoded, replace_surrogates(backend), replace_surrogates(model), time.time()


def payment_row(key: str, payment: Payment) -> PaymentRow:
    """Return a payment's row in the cache, given the call's key in hex digits."""
    return replace_surrogates(payment.account), bytes.fromhex(key), payment.usd, time.time()


def _file_id(path: Path) -> tuple[int, int] | None:
    """Return a file's device and inode numbers, or None if it is gone."""
    try:
        status = os.stat(path)  # noqa: PTH116 (takes a third of the time of Path.stat)
    except OSError:
        return None
    return status.st_dev, status.st_ino


T = TypeVar("T")


class BackgroundQueue(Generic[T]):
    """A queue whose items a background thread processes together.

    Committing 100 replies together takes hardly longer than committing one.

    Args:
        process: Processes all items that are in the queue, in the background thread.
        name: The thread's name.
    """

    def __init__(self, process: Callable[[list[T]], None], name: str) -> None:
        self._process = process
        self._queue: SimpleQueue[tuple[T, asyncio.Future[None]] | None] = SimpleQueue()
        self.n_unreported = 0
        """Number of items that failed without a caller's notice: their futures were cancelled."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def add(self, item: T) -> asyncio.Future[None]:
        """Queue an item.

        Returns:
            A future that completes when the item is processed, or fails if that fails. Cancelling
            it does not stop the work.
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
            entries = [entry for entry in batch if entry is not None]
            futures = [future for _, future in entries]
            failure: Exception | None = None
            try:
                if entries:
                    self._process([item for item, _ in entries])
            except Exception as error:  # without this, the callers would wait forever
                failure = error
                self.n_unreported += sum(future.done() for future in futures)
            if futures:
                with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing is waiting
                    futures[0].get_loop().call_soon_threadsafe(_complete, futures, failure)


def _complete(futures: list[asyncio.Future[None]], failure: Exception | None) -> None:
    for future in futures:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
