"""The file of paid replies: one SQLite database shared by all runs and processes.

All writing happens in one thread, which commits whatever has gathered in one
transaction: a commit costs the same for one reply as for a hundred. A `put`
returns only after its commit.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path
from queue import SimpleQueue

import msgspec
from filelock import FileLock, Timeout

from harness.errors import StoreFailed
from harness.records import Reply

NETWORK_FILE_SYSTEMS = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "gfs2", "gpfs"),
    *("lustre", "nfs", "nfs4", "ocfs2", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs"),
}
"""SQLite's WAL needs memory shared by all processes, which these cannot give
(https://www.sqlite.org/wal.html, section 1)."""

LOCKED_S = 15.0
"""Seconds to wait for another process that holds the file."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (
    key BLOB PRIMARY KEY, reply BLOB NOT NULL, backend TEXT NOT NULL, model TEXT NOT NULL,
    created REAL NOT NULL
)
"""
_INSERT = """
INSERT INTO replies (key, reply, backend, model, created) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (key) DO NOTHING
"""

_Row = tuple[bytes, bytes, str, str, float]
_Write = tuple[_Row, asyncio.Future[None], asyncio.AbstractEventLoop]


def file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The type of the file system that holds a path, empty where it cannot be told."""
    try:
        entries = [line.split() for line in mounts.read_text(errors="replace").splitlines()]
    except OSError:
        return ""
    target = path.resolve()
    found = ("", "")
    for entry in entries:
        point = entry[1].replace("\\040", " ")
        if target.is_relative_to(point) and len(point) >= len(found[0]):
            found = (point, entry[2])
    return found[1]


class ReplyFile:
    """Complete replies by key.

    path: the database's file; made with its folder where it is not there.
    shared_memory: False for the safe mode without WAL; None to find out.

    Raises: StoreFailed where the file cannot be opened.
    """

    def __init__(self, path: Path, *, shared_memory: bool | None = None) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Two processes that both turn a new file to WAL would not wait for each other.
            with FileLock(path.with_suffix(".lock"), timeout=LOCKED_S):
                self._open(shared_memory)
        except (OSError, sqlite3.Error) as error:
            raise self._failed("open", error) from None
        self._decoder = msgspec.msgpack.Decoder(Reply)
        self._encoder = msgspec.msgpack.Encoder()
        self._queue: SimpleQueue[_Write | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="replies", daemon=True)
        self._thread.start()

    def _open(self, shared_memory: bool | None) -> None:
        if shared_memory is None:
            shared_memory = file_system(self.path.parent) not in NETWORK_FILE_SYSTEMS
        self._writer = self._connect()
        try:
            mode = "WAL" if shared_memory else "DELETE"
            found = self._writer.execute(f"PRAGMA journal_mode={mode}").fetchone()
            self.journal_mode: str = found[0]
            # WAL survives the death of the process with NORMAL; the safe mode needs FULL.
            level = "NORMAL" if self.journal_mode == "wal" else "FULL"
            self._writer.execute(f"PRAGMA synchronous={level}")
            self._writer.execute(_SCHEMA)
            self._writer.commit()
            self._reader = self._connect()
        except sqlite3.Error:
            self._writer.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=LOCKED_S, check_same_thread=False)

    def get(self, key: str) -> Reply | None:
        """The reply of a key, None where there is none.

        Read in the caller's thread: an index look-up takes microseconds, less
        than handing it to another thread would.
        """
        try:
            row = self._reader.execute(
                "SELECT reply FROM replies WHERE key = ?", (bytes.fromhex(key),)
            ).fetchone()
            return self._decoder.decode(row[0]) if row else None
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise self._failed("read", error) from None

    async def put(self, key: str, reply: Reply, backend: str, model: str) -> None:
        """Commit a reply; on return it survives the death of this process.

        Raises: StoreFailed where it cannot be written.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        row = (bytes.fromhex(key), self._encoder.encode(reply), backend, model, time.time())
        self._queue.put((row, done, loop))
        await done

    def _write(self) -> None:
        closing = False
        while not closing:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            closing = None in batch
            writes = [write for write in batch if write is not None]
            failure: StoreFailed | None = None
            try:
                with self._writer:
                    self._writer.executemany(_INSERT, [row for row, _, _ in writes])
            except Exception as error:  # nobody else would hear of it, and all would wait
                failure = self._failed("write", error)
            loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
            for _, done, loop in writes:
                loops.setdefault(loop, []).append(done)
            for loop, futures in loops.items():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_settle, futures, failure)

    def __enter__(self) -> ReplyFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit what is queued and close the file."""
        self._queue.put(None)
        self._thread.join()
        self._reader.close()
        self._writer.close()

    def _failed(self, verb: str, error: Exception) -> StoreFailed:
        said = str(error)
        if isinstance(error, Timeout) or "locked" in said:
            said = "another process holds it"
            remedy = "Run again when that one has ended."
        elif isinstance(error, msgspec.MsgspecError) or "malformed" in said or "not a d" in said:
            remedy = "It is damaged: move it away, or set HARNESS_CACHE_DIR to another folder."
        else:
            remedy = (
                "Make room or mend the permissions, or set HARNESS_CACHE_DIR to another folder; "
                "then run again."
            )
        return StoreFailed(f"Cannot {verb} the cache {self.path}: {said}.", remedy)


def _settle(futures: list[asyncio.Future[None]], failure: StoreFailed | None) -> None:
    for future in futures:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
