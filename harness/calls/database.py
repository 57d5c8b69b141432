"""The database of paid replies: its tables, how it is opened, and what its errors mean.

It is opened with a write-ahead log (WAL), or in a safe mode without one if the file system does not
support it. Files of other programs and of newer versions are refused.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from harness.errors import StoreFailed

NETWORK_FILE_SYSTEMS = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "gfs2", "gpfs"),
    *("lustre", "nfs", "nfs4", "ocfs2", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs"),
}
"""SQLite's WAL needs memory shared by all processes, which these do not support
(https://www.sqlite.org/wal.html, section 1)."""

LOCKED_S = 15.0
"""Seconds to wait for another process that holds the file, if nothing has been paid for yet."""

FORMAT = 1
"""The file's ``user_version``; the earliest files have 0 and the same replies."""

ReplyRow = tuple[bytes, bytes, str, str, float]
"""key, reply, backend, model, created."""

PaymentRow = tuple[str, bytes, float, float]
"""run, key, usd, created."""

COLUMNS = {
    "replies": ["key", "reply", "backend", "model", "created"],
    "payments": ["run", "key", "usd", "created"],
}

SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (
    key BLOB PRIMARY KEY, reply BLOB NOT NULL, backend TEXT NOT NULL, model TEXT NOT NULL,
    created REAL NOT NULL
)
"""

INSERT_REPLIES = """
INSERT INTO replies (key, reply, backend, model, created) VALUES {rows}
ON CONFLICT (key) DO NOTHING
"""

PAYMENTS_SCHEMA = """
CREATE TABLE IF NOT EXISTS payments (
    run TEXT NOT NULL, key BLOB NOT NULL, usd REAL NOT NULL, created REAL NOT NULL,
    PRIMARY KEY (run, key)
) WITHOUT ROWID
"""

INSERT_PAYMENTS = """
INSERT INTO payments (run, key, usd, created) VALUES {rows}
ON CONFLICT (run, key) DO UPDATE SET usd = usd + excluded.usd
"""
"""A key that is paid for again (its reply was pruned, or was empty) has cost both times."""

PAYMENTS_OF_RUN = "SELECT key, usd FROM payments WHERE run = ?"

NO_WAL = {
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN),
    *(sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY),
}
"""Failures that the WAL's shared memory may cause."""

Identity = tuple[int, int]


def file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Return the type of the file system that holds a path; empty if unknown."""
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


class Opened(NamedTuple):
    """A connection, with the identity of its file, because another file may take its path."""

    file: sqlite3.Connection
    journal_mode: str
    identity: Identity | None


def code(error: BaseException) -> int | None:
    """Return SQLite's primary result code of an error, or None if it has none."""
    extended = getattr(error, "sqlite_errorcode", None)
    return None if extended is None else extended & 0xFF


def is_busy(error: BaseException) -> bool:
    """Return whether another connection holds the file."""
    return code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_damage(error: BaseException) -> bool:
    """Return whether the file's content is damaged."""
    return code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def identity(path: str | Path) -> Identity | None:
    """Return which file a path leads to, or None if that is unknown."""
    try:
        found = os.stat(path)  # noqa: PTH116 (a third of the time, and on the way of every call)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_database(path: Path, *, wal: bool, busy_s: float, notice: Callable[[str], None]) -> Opened:
    """Open the database, which is created if it does not exist.

    Args:
        path: The file.
        wal: False for the safe mode, which is also used if the WAL does not work.
        busy_s: Seconds that SQLite waits for another process's lock, once the file is open.
        notice: Called with messages for the user.

    Raises:
        sqlite3.Error: It cannot be opened.
        StoreFailed: The file is not a cache.
    """
    why = ""
    if wal:
        try:
            opened = _open(path, wal=True, busy_s=busy_s)
            if opened.journal_mode == "wal":
                return opened
            why = f"it stays in mode {opened.journal_mode}"
            opened.file.close()
        except sqlite3.OperationalError as error:
            if code(error) not in NO_WAL:
                raise
            why = str(error)
    opened = _open(path, wal=False, busy_s=busy_s)
    if wal:
        notice(no_wal(path, why))
    return opened


def no_wal(path: Path, why: str) -> str:
    """Return the message for an unexpected safe mode."""
    return (
        f"SQLite's write-ahead log does not work for the cache {path} ({why}): "
        "using a slower, safe mode."
    )


def _open(path: Path, *, wal: bool, busy_s: float) -> Opened:
    # No implicit transactions: a batch takes the lock before its first row.
    file = sqlite3.connect(path, timeout=LOCKED_S, check_same_thread=False, isolation_level=None)
    try:
        if not wal:  # an existing log is then read without shared memory
            file.execute("PRAGMA locking_mode=EXCLUSIVE")
        made = _refuse_foreign(file, path)
        mode = "WAL" if wal else "DELETE"
        journal_mode: str = file.execute(f"PRAGMA journal_mode={mode}").fetchone()[0]
        # WAL survives the death of the process with NORMAL; the safe mode needs FULL.
        level = "NORMAL" if journal_mode == "wal" else "FULL"
        file.execute(f"PRAGMA synchronous={level}")
        if not wal:
            file.execute("PRAGMA locking_mode=NORMAL")
            file.execute("SELECT count(*) FROM sqlite_master").fetchone()  # releases the lock
        if not made:
            make_tables(file)
        file.execute(f"PRAGMA busy_timeout={int(1000 * busy_s)}")
        return Opened(file, journal_mode, identity(path))
    except BaseException:
        file.close()
        raise


def _refuse_foreign(file: sqlite3.Connection, path: Path) -> bool:
    """Check that a file is ours, and return whether it has everything that this version needs.

    Raises:
        StoreFailed: It belongs to another program or a newer version.
    """
    version = file.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    if version > FORMAT and "replies" in tables:
        raise StoreFailed(
            f"The cache {path} was written by a newer harness (format {version}, here {FORMAT}).",
            "Update the harness, or set HARNESS_CACHE_DIR to another folder.",
        )
    for table, columns in COLUMNS.items():
        found = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
        if found and found != columns:
            raise _foreign(path, f"its table {table!r} has other columns ({', '.join(found)})")
    if tables and "replies" not in tables:
        raise _foreign(path, f"it is a database of something else ({', '.join(sorted(tables))})")
    return version == FORMAT and tables >= COLUMNS.keys()


def _foreign(path: Path, why: str) -> StoreFailed:
    return StoreFailed(
        f"{path} is not a cache of this harness: {why}.",
        "Move it away (nothing in it was changed), or set HARNESS_CACHE_DIR to another folder.",
    )


def make_tables(file: sqlite3.Connection) -> None:
    """Create the missing tables, all or none."""
    file.execute("BEGIN IMMEDIATE")
    try:
        file.execute(SCHEMA)
        file.execute(PAYMENTS_SCHEMA)
        file.execute(f"PRAGMA user_version={FORMAT}")
        file.execute("COMMIT")
    except BaseException:
        roll_back(file)
        raise


def roll_back(file: sqlite3.Connection) -> None:
    """Roll back a failed transaction; SQLite may already have ended it."""
    with contextlib.suppress(sqlite3.Error):
        if file.in_transaction:
            file.execute("ROLLBACK")
