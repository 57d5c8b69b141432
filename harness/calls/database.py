"""Opens the SQLite file of paid replies, creates its tables, and recovers a damaged file.

A damaged file is moved aside. A new file is filled with the replies recorded in the attempts of
runs, and with the payments and batches that SQLite can still read. Replies are not read from the
damaged file, because a damaged page may look like a valid one.
"""

import contextlib
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harness.errors import StoreFailed

NETWORK_FILE_SYSTEMS = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "gfs2", "gpfs"),
    *("lustre", "nfs", "nfs4", "ocfs2", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs"),
}
"""Types of file systems on which SQLite's write-ahead log (WAL) does not work.

The log needs memory that all processes share (https://www.sqlite.org/wal.html, section 1).
"""

LOCK_TIMEOUT_S = 15.0  # longest wait for another process's lock while nothing has been paid for
SESSION_PREFIX = b"session "  # of payment keys: what a session has reserved for calls in flight

NAME_PREFIX = "name "  # of ``run`` in payments of 0 dollars, which record the accounts of run names

PRUNED_ACCOUNT = f"{NAME_PREFIX}pruned"
"""``run`` of a payment of 0 dollars whose time is when replies were last deleted."""

FORMAT_VERSION = 1  # the file's ``user_version``; the earliest files have 0, with equal replies

COLUMNS = {
    "replies": ["key", "reply", "backend", "model", "created"],
    "payments": ["run", "key", "usd", "created"],
    "batches": [
        *("tag", "id", "backend", "endpoint", "model", "section", "run", "created", "ended"),
        *("status", "requests", "bytes", "done", "failed", "usd"),
    ],
    "batch_calls": ["key", "tag", "run", "usd", "logprobs"],
}

SCHEMA_SQL = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS replies (
    key BLOB PRIMARY KEY, reply BLOB NOT NULL, backend TEXT NOT NULL, model TEXT NOT NULL,
    created REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS payments (
    run TEXT NOT NULL, key BLOB NOT NULL, usd REAL NOT NULL, created REAL NOT NULL,
    PRIMARY KEY (run, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (
    tag TEXT PRIMARY KEY, id TEXT, backend TEXT NOT NULL, endpoint TEXT NOT NULL,
    model TEXT NOT NULL, section BLOB NOT NULL, run TEXT NOT NULL, created REAL NOT NULL,
    ended REAL, status TEXT NOT NULL, requests INTEGER NOT NULL, bytes INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
    usd REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batch_calls (
    key BLOB PRIMARY KEY, tag TEXT NOT NULL, run TEXT NOT NULL, usd REAL NOT NULL,
    logprobs BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS calls_of_batches ON batch_calls (tag);
PRAGMA user_version={FORMAT_VERSION};
COMMIT;
"""

ReplyRow = tuple[bytes, bytes, str, str, float]  # a row of ``replies`` (`SCHEMA_SQL`)
PaymentRow = tuple[str, bytes, float, float]  # a row of ``payments`` (`SCHEMA_SQL`)
Statement = tuple[str, Sequence[object]]  # in SQL, and the values of its placeholders


class Write(NamedTuple):
    """Changes that are committed together: replies, payments, and statements on other tables."""

    replies: Sequence[ReplyRow] = ()
    payments: Sequence[PaymentRow] = ()
    statements: Sequence[Statement] = ()


CREATING_STATUS = (
    "creating"  # status of a batch that may have been requested, but whose id is not known
)

Restore = Callable[[], Iterable[ReplyRow]]  # yields replies recorded outside the cache

MIN_DATABASE_BYTES = 512  # size of the smallest valid database
FILE_SUFFIXES = ("", "-wal", "-shm", "-journal")  # of a database's files


def file_system_type(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Return the type of the file system that contains a path, such as ``nfs4``.

    It is empty if unknown. ``mounts`` is the system's table of mounted file systems.
    """
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    path = path.resolve()
    nearest_mount = ""
    nearest_type = ""
    for line in lines:
        _, mount_point, mount_type, *_ = line.split()
        mount_point = mount_point.replace("\\040", " ")
        if path.is_relative_to(mount_point) and len(mount_point) >= len(nearest_mount):
            nearest_mount = mount_point
            nearest_type = mount_type
    return nearest_type


def is_busy(error: Exception) -> bool:
    """Return whether an SQLite error says that another connection has locked the database."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_damage(error: Exception) -> bool:
    """Return whether an SQLite error says that the database is damaged."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def open_database(path: Path, *, wal: bool) -> sqlite3.Connection:
    """Open the database of replies, creating its tables if needed.

    Args:
        path: The file.
        wal: Whether to use a write-ahead log. Without it, writes are slower, but need no memory
            that processes share.

    Raises:
        sqlite3.Error: If the file is damaged, locked or inaccessible.
        StoreFailed: If the file is foreign, or from a newer harness.
    """
    # No implicit transactions: a batch takes the lock before its first row.
    connection = sqlite3.connect(
        path, timeout=LOCK_TIMEOUT_S, check_same_thread=False, isolation_level=None
    )
    try:
        if not wal:  # an existing log is then read without shared memory
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        is_complete = _has_all_tables(connection, path)
        connection.execute(f"PRAGMA journal_mode={'WAL' if wal else 'DELETE'}")
        # NORMAL would lose the latest commits, replies that were paid for, in a power cut.
        # FULL costs little, as commits are batched: saving 6,000 replies took 1.0 s, not 0.4 s.
        connection.execute("PRAGMA synchronous=FULL")
        if not wal:
            connection.execute("PRAGMA locking_mode=NORMAL")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # releases the lock
        if not is_complete:
            connection.executescript(SCHEMA_SQL)
            _restore_batches(connection, path)
        elif wal:  # fail as the first write would if the file cannot be written with its WAL
            connection.execute("PRAGMA busy_timeout=0")
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
    except BaseException:
        connection.close()
        raise
    return connection


def is_in_use(path: Path) -> bool:
    """Return whether another process has a database with a write-ahead log open."""
    if path.stat().st_size < MIN_DATABASE_BYTES:
        return False  # opening it would delete its log
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=0)) as connection:
            connection.execute(
                "PRAGMA locking_mode=EXCLUSIVE"
            )  # reading the log takes an exclusive lock
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        return is_busy(error)
    return False


def journal_mode(connection: sqlite3.Connection) -> str:
    """Return the journal mode: ``wal`` with a write-ahead log, ``delete`` without."""
    mode: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return mode


def _has_all_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether a database has all tables.

    Raises:
        StoreFailed: If it is no cache, or from a newer harness.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = {
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    }
    if version > FORMAT_VERSION and "replies" in tables:
        raise StoreFailed(
            f"The cache {path} was written by a newer harness (format {version}, "
            f"here {FORMAT_VERSION}).",
            "Update the harness, or set HARNESS_CACHE_DIR to another folder.",
        )
    columns: dict[str, list[str]] = {}
    for table in tables & COLUMNS.keys():
        columns[table] = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    as_expected = all(columns[table] == COLUMNS[table] for table in columns)
    if tables and not ("replies" in tables and as_expected):
        raise StoreFailed(
            f"{path} is not a cache of this harness: it has other tables or columns.",
            "Move it away (nothing in it was changed), or set HARNESS_CACHE_DIR to another folder.",
        )
    return version == FORMAT_VERSION and columns == COLUMNS


def marker_path(path: Path) -> Path:
    """Return the path of the file that marks a database as damaged."""
    return path.with_name(f"{path.name}.damaged")


def mark_damaged(path: Path) -> None:
    """Mark a database as damaged, if possible."""
    with contextlib.suppress(OSError):
        marker_path(path).touch()


def is_empty_file(path: Path) -> bool:
    """Return whether a database's file exists but has no content, such as after a full disk.

    SQLite would take it for a new database, and delete its log.
    """
    return path.is_file() and path.stat().st_size < MIN_DATABASE_BYTES


def recover(path: Path, restore: Restore) -> str:
    """Move a damaged database aside, and create a new one. The caller must be its only user.

    Args:
        path: The database's file.
        restore: Yields replies recorded elsewhere, for the new database.

    Returns:
        A message for the user, empty if there was nothing to recover.
    """
    mark_damaged(path)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    damaged = path.with_name(marker_path(path).read_text() or f"{path.name}.damaged-{stamp}")
    message = ""
    if damaged.exists() != path.exists():  # both: remove the marker; neither: moved by hand
        marker_path(path).write_text(damaged.name)
        for suffix in FILE_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                _with_suffix(path, suffix).replace(_with_suffix(damaged, suffix))
        rebuilt = path.with_name(f"{path.name}.rebuilding")
        for suffix in FILE_SUFFIXES:
            _with_suffix(rebuilt, suffix).unlink(missing_ok=True)
        n_replies, n_payments = _rebuild(rebuilt, restore, damaged, path)
        rebuilt.replace(path)
        message = (
            f"The cache {path} was damaged and has been moved to {damaged.name}. {n_replies:,} "
            f"replies were restored from the attempts of runs, and {n_payments:,} payments from "
            "the damaged file. Other replies will be paid for again; to see what SQLite can save: "
            f"sqlite3 {damaged} .recover"
        )
    marker_path(path).unlink()
    return message


def _rebuild(rebuilt: Path, restore: Restore, damaged: Path, path: Path) -> tuple[int, int]:
    """Create the database ``rebuilt`` for ``path``. Return its numbers of replies and payments."""
    with contextlib.closing(sqlite3.connect(rebuilt, isolation_level=None)) as connection:
        connection.executescript(SCHEMA_SQL)
        connection.execute("BEGIN")
        connection.executemany("INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?)", restore())
        payments = "INSERT OR IGNORE INTO payments (run, key, usd, created) VALUES (?, ?, ?, ?)"
        connection.executemany(payments, _readable_payments(damaged))
        for table in ("batches", "batch_calls"):
            connection.executemany(
                f"INSERT OR IGNORE INTO {table} VALUES ({_placeholders(table)})",  # noqa: S608
                _readable_rows(damaged, table),
            )
        _restore_batches(connection, path)
        connection.execute("COMMIT")
        query = "SELECT (SELECT count(*) FROM replies), (SELECT count(*) FROM payments)"
        n_replies, n_payments = connection.execute(query).fetchone()
        return n_replies, n_payments


def _readable_payments(damaged: Path) -> Iterator[PaymentRow]:
    """Yield the valid payments before the first unreadable page, except sessions' reservations."""
    for row in _readable_rows(damaged, "payments"):
        match row:
            case (str(), bytes(key), float(usd), float()) if 0 <= usd < math.inf:
                if not key.startswith(SESSION_PREFIX):  # see `harness.engine.session`
                    yield row


def _readable_rows(damaged: Path, table: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table before the first unreadable page."""
    if damaged.stat().st_size < MIN_DATABASE_BYTES:
        return  # opening it would delete its log
    url = f"{damaged.resolve().as_uri()}?mode=ro"
    with (
        contextlib.suppress(sqlite3.Error, UnicodeDecodeError),
        contextlib.closing(sqlite3.connect(url, uri=True)) as connection,
    ):
        yield from connection.execute(f"SELECT {', '.join(COLUMNS[table])} FROM {table}")  # noqa: S608


def batch_copy_path(path: Path, tag: str) -> Path:
    """Return the path of the copy of a batch's rows.

    Args:
        path: The database's file.
        tag: The batch's tag, or "" for the folder of all copies.
    """
    return path.with_suffix(".batches") / tag


def _restore_batches(connection: sqlite3.Connection, path: Path) -> None:
    """Insert the unfinished batches, which are also saved as copies next to the database.

    Raises:
        StoreFailed: If a copy is damaged.
    """
    for copy in sorted(batch_copy_path(path, "").glob("[!.]*")):
        try:
            batch, calls = msgspec.msgpack.decode(copy.read_bytes())
            insert_batch = f"INSERT OR IGNORE INTO batches VALUES ({_placeholders('batches')})"  # noqa: S608
            connection.execute(insert_batch, batch)
            connection.executemany(
                f"INSERT OR IGNORE INTO batch_calls SELECT {_placeholders('batch_calls')} "  # noqa: S608
                "WHERE NOT EXISTS (SELECT 1 FROM replies WHERE key = ?1) "
                "AND EXISTS (SELECT 1 FROM batches WHERE tag = ?2 AND ended IS NULL)",
                calls,
            )
        except (msgspec.MsgspecError, ValueError, TypeError, OSError, sqlite3.Error) as error:
            problem = f"{copy}, the copy of a batch's record, cannot be read ({error})."
            remedy = "Cancel the batch on the provider's site, then delete this file."
            raise StoreFailed(problem, remedy) from None


def _placeholders(table: str) -> str:
    return ", ".join(f"?{index}" for index in range(1, len(COLUMNS[table]) + 1))


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
