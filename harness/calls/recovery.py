"""Recovery from a damaged reply database: it is moved aside, and a new one takes its place.

The new file holds the replies that are recorded elsewhere (a run's attempts), and the payments that
SQLite can still read from the damaged file. A damaged page may look like a reply and be wrong, so
no reply is read from it.

The new file is completed next to the damaged one, which is then moved aside, its log after it.
Whenever the process dies, the next one either finds the damaged file still in place and starts
over, or finds the new one complete. The caller holds the lock under which the file is opened, and
nobody else is using it (`harness.calls.claims`).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness.calls import database
from harness.calls.database import PaymentRow, ReplyRow

PARTS = ("", "-wal", "-shm", "-journal")
"""Suffixes of the files of one database."""

SMALLEST = 512
"""Bytes of the smallest database."""

Restore = Callable[[], Iterable[ReplyRow]]
"""Gives the replies that are recorded elsewhere."""


def marker(path: Path) -> Path:
    """Return the marker file, which makes the next process that opens the database recover it."""
    return path.with_name(f"{path.name}.damaged")


def mark(path: Path) -> None:
    """Create the marker file."""
    with contextlib.suppress(OSError):
        marker(path).touch()


def needs_recovery(path: Path) -> bool:
    """Return whether damage is known before the file is opened."""
    if marker(path).exists() or _rebuilt(path).exists():
        return True
    # SQLite would discard the log of an emptied file, with all that is in it.
    log = _part(path, "-wal")
    empty = path.exists() and path.stat().st_size < SMALLEST
    return empty and log.exists() and log.stat().st_size > 0


def recover(path: Path, restore: Restore, now: float | None = None) -> str:
    """Replace the damaged file with a sound one.

    Returns:
        A message for the user: what was restored and where the damaged file is kept. Empty if it
        has already been moved away.

    Raises:
        OSError: A file cannot be moved or written.
        sqlite3.Error: The new file cannot be written.
    """
    rebuilt = _rebuilt(path)
    if path.exists():  # nothing has been moved yet
        _remove(rebuilt)
        started = path.with_name(f"{path.name}.rebuilding")
        _remove(started)
        try:
            _rebuild(path, started, restore)
        except BaseException:
            _remove(started)  # the failure may be a lack of room
            raise
        started.replace(rebuilt)
    elif not rebuilt.exists():
        marker(path).unlink(missing_ok=True)
        return ""
    kept = _aside(path, time.time() if now is None else now)
    replies, paid = _count(rebuilt)
    for part in PARTS:
        with contextlib.suppress(FileNotFoundError):
            _part(path, part).replace(_part(kept, part))
    rebuilt.replace(path)
    marker(path).unlink(missing_ok=True)
    return (
        f"The cache {path} was damaged and has been moved to {kept.name}. {replies:,} replies were "
        f"restored from the attempts of runs, and {paid:,} payments from the damaged file. Other "
        f"replies will be paid for again; to see what SQLite can save: sqlite3 {kept} .recover"
    )


def _rebuild(damaged: Path, new: Path, restore: Restore) -> None:
    known: dict[bytes, int] = {}
    contradicted: list[tuple[bytes]] = []

    def rows() -> Iterator[ReplyRow]:
        for row in restore():
            key, reply = row[:2]
            if known.setdefault(key, hash(reply)) != hash(reply):
                contradicted.append((key,))  # paid for twice: which one the cache had is unknown
            yield row

    with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as file:
        database.make_tables(file)
        file.execute("BEGIN")
        file.executemany("INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?)", rows())
        file.executemany("DELETE FROM replies WHERE key = ?", contradicted)
        payments = "INSERT OR IGNORE INTO payments (run, key, usd, created) VALUES (?, ?, ?, ?)"
        file.executemany(payments, _readable_payments(damaged))
        file.execute("COMMIT")


def _readable_payments(damaged: Path) -> Iterator[PaymentRow]:
    """Yield the payments up to the first page that SQLite cannot read."""
    url = f"{damaged.resolve().as_uri()}?mode=ro"
    with (
        contextlib.suppress(sqlite3.Error, UnicodeDecodeError),
        contextlib.closing(sqlite3.connect(url, uri=True)) as file,
    ):
        for row in file.execute("SELECT run, key, usd, created FROM payments"):
            match row:
                case (str(), bytes(), float(usd), float()) if 0 <= usd < math.inf:
                    yield row


def _count(path: Path) -> tuple[int, int]:
    with contextlib.closing(sqlite3.connect(path)) as file:
        query = "SELECT (SELECT count(*) FROM replies), (SELECT count(*) FROM payments)"
        found: tuple[int, int] = file.execute(query).fetchone()
        return found


def _aside(path: Path, now: float) -> Path:
    """Return a file name with the time that is not taken."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    name = f"{path.name}.damaged-{stamp}"
    for number in itertools.count(2):
        kept = path.with_name(name)
        if not any(os.path.lexists(_part(kept, part)) for part in PARTS):
            return kept
        name = f"{path.name}.damaged-{stamp}-{number}"
    raise AssertionError


def _remove(path: Path) -> None:
    for part in PARTS:
        _part(path, part).unlink(missing_ok=True)


def _rebuilt(path: Path) -> Path:
    return path.with_name(f"{path.name}.rebuilt")


def _part(path: Path, part: str) -> Path:
    return path.with_name(path.name + part)
