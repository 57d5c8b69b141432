"""Mends a damaged file of replies: what can be read is saved, the damaged file is kept.

The new file is made complete beside the damaged one, which then moves aside,
its log after it: whenever the process dies, the next one finds the damaged file
still in its place and begins again, or finds the new one complete. The caller
holds the lock under which the file is opened, and is alone with it
(`harness.calls.claims`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from harness.calls import database
from harness.calls.database import PaymentRow, ReplyRow
from harness.calls.salvage import salvage

PARTS = ("", "-wal", "-shm", "-journal")
"""What the files of one database are called, after its own name."""

SMALLEST = 512
"""Bytes of the smallest database."""

BATCH = 1000

_INSERT_REPLY = (
    "INSERT OR IGNORE INTO replies (key, reply, backend, model, created) VALUES (?, ?, ?, ?, ?)"
)
_INSERT_PAYMENT = "INSERT OR IGNORE INTO payments (run, key, usd, created) VALUES (?, ?, ?, ?)"


def marker(path: Path) -> Path:
    """The file that says: damage was met, the next one to open this repairs it."""
    return path.with_name(f"{path.name}.damaged")


def mark(path: Path) -> None:
    """Leave the marker."""
    with contextlib.suppress(OSError):
        marker(path).touch()


def needs_repair(path: Path) -> bool:
    """Whether damage is known before the file is opened."""
    if marker(path).exists() or _rebuilt(path).exists():
        return True
    # SQLite would throw the log of an emptied file away, with all that is in it.
    log = _part(path, "-wal")
    empty = path.exists() and path.stat().st_size < SMALLEST
    return empty and log.exists() and log.stat().st_size > 0


def repair(path: Path, now: float | None = None) -> str:
    """Put a sound file in the damaged one's place; says what was saved, and where that is kept.

    Raises: OSError; sqlite3.Error.
    """
    rebuilt = _rebuilt(path)
    if path.exists():  # nothing has moved yet
        _remove(rebuilt)
        started = path.with_name(f"{path.name}.rebuilding")
        _remove(started)
        try:
            _rebuild(path, started)
        except BaseException:
            _remove(started)  # it may be for the room that it takes
            raise
        started.replace(rebuilt)
    elif not rebuilt.exists():  # someone has moved it away
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
        f"The cache {path} was damaged: {replies:,} replies and {paid:,} payments could be read "
        f"and were saved; the damaged file is kept as {kept.name}."
    )


def _rebuild(damaged: Path, new: Path) -> None:
    with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as file:
        database.make_tables(file)
        file.execute("BEGIN")
        for rows in _batched(salvage(damaged)):
            file.executemany(_INSERT_REPLY, [row for row in rows if len(row) == 5])
            file.executemany(_INSERT_PAYMENT, [row for row in rows if len(row) == 4])
        file.execute("COMMIT")


def _batched(
    rows: Iterator[ReplyRow | PaymentRow],
) -> Iterator[list[ReplyRow | PaymentRow]]:
    while batch := list(itertools.islice(rows, BATCH)):
        yield batch


def _count(path: Path) -> tuple[int, int]:
    with contextlib.closing(sqlite3.connect(path)) as file:
        query = "SELECT (SELECT count(*) FROM replies), (SELECT count(*) FROM payments)"
        found: tuple[int, int] = file.execute(query).fetchone()
        return found


def _aside(path: Path, now: float) -> Path:
    """A name that is not taken, with the time."""
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
