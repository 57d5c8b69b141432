"""The reply database as several processes share it: locks, damage, replacement.

There are two connections: one reads in the caller's thread, one writes in a thread that may wait.
If another program holds the file, both wait. A damaged file is marked, and recovered when it is
next opened. Each write and each claim first checks that the file at the path is still the one that
is
open: a process that is running while another one recovers the file switches to the new one, and
nothing is written to a file that was moved away.
"""

from __future__ import annotations

import functools
import itertools
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from harness.calls.claims import open_claims
from harness.calls.database import (
    LOCKED_S,
    NO_WAL,
    Opened,
    code,
    identity,
    is_busy,
    is_damage,
    no_wal,
    open_database,
    roll_back,
)
from harness.calls.recovery import Restore, mark, needs_recovery, recover
from harness.errors import StoreFailed

NOTICE_S = 2.0
"""Seconds of waiting for another process before the user is notified."""

_TRY_S = 0.5
_PAUSE_S = 0.02

Change = tuple[str, Sequence[tuple[Any, ...]]]
"""A statement with a place for ``{rows}``, and these."""

_AT_ONCE = (64, 16, 4, 1)
"""Rows in one statement: each step of a statement waits for Python's global lock."""


class StoreBusy(StoreFailed):
    """Another process holds the file right now: worth trying again."""


class SharedDatabase:
    """A connection for reading and one for writing.

    Args:
        path: The file.
        wal: False for the safe mode.
        locked_most_s: Seconds that a write keeps trying while another process holds the file.
        notice: Called with messages for the user, and with an empty text when a wait is over; from
            any thread.
        restore: Returns the replies recorded elsewhere, for a recovery.

    Raises:
        StoreFailed: It cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        *,
        wal: bool,
        locked_most_s: float,
        notice: Callable[[str], None],
        restore: Restore = tuple,
    ) -> None:
        self.path = path
        self.notice = notice
        self._restore = restore
        self.locked_most_s = locked_most_s
        self._name = str(path)
        self._wal = wal
        self._wal_works = False
        self._reported_held = False
        self._closing_since: float | None = None
        self._reading = threading.Lock()
        self.claims = open_claims(path.with_suffix(".claims"))
        try:
            self._writer = self._open(_TRY_S)
            self._wal = self.journal_mode == "wal"
            try:
                self._reader = self._open(0)
            except BaseException:
                self._writer.file.close()
                raise
        except BaseException:
            self.claims.close()
            raise
        if self.claims.trouble:
            self.notice(
                f"Calls of other processes cannot be seen in {path.parent} "
                f"({self.claims.trouble}): two runs at the same time may pay for the same call."
            )

    @property
    def journal_mode(self) -> str:
        """Return SQLite's journal mode: ``wal``, or ``delete`` in the safe mode."""
        return self._writer.journal_mode

    def read(self, query: str, values: tuple[Any, ...] = (), *, wait_s: float = 0) -> list[Any]:
        """Return the rows of a query.

        Args:
            query: The query.
            values: Its parameters.
            wait_s: Seconds to wait, blocking this thread, for a process that holds the file.

        Raises:
            StoreBusy: The file is still held then.
            StoreFailed: It cannot be read.
        """
        end = None
        while True:
            try:
                with self._reading:
                    return self._reader.file.execute(query, values).fetchall()
            except sqlite3.Error as error:
                if is_damage(error) and self._reader.identity != identity(self._name):
                    self.refresh()
                    continue
                if not is_busy(error):
                    raise self.failed("read", error) from None
                now = time.monotonic()
                end = now + wait_s if end is None else end
                if now >= end:
                    raise self.failed("read", error) from None
                time.sleep(_PAUSE_S)

    def refresh(self) -> None:
        """Switch to the file that is at the path now."""
        if self._reader.identity == identity(self._name):
            return
        opened = self._open(0)
        with self._reading:
            self._reader.file.close()
            self._reader = opened

    def write(self, changes: Sequence[Change]) -> None:
        """Commit changes in one transaction, waiting while another process holds the file.

        Raises:
            StoreFailed: They cannot be written.
        """
        since = time.monotonic()
        while True:
            try:
                with self.claims.shared():
                    if self._writer.identity == identity(self._name):
                        self._transact(changes)
                        self._wal_works = True
                        if self._reported_held:
                            self._reported_held = False
                            self.notice("")
                        return
            except BlockingIOError:  # it is being recovered
                self._wait(since, self._held("write"))
                continue
            except sqlite3.Error as error:
                if is_busy(error):
                    self._wait(since, self.failed("write", error))
                elif code(error) in NO_WAL and self._wal and not self._wal_works:
                    self._go_safe(error)
                else:
                    raise self.failed("write", error) from None
                continue
            opened = self._open(_TRY_S)
            self._writer.file.close()
            self._writer = opened

    def _transact(self, changes: Sequence[Change]) -> None:
        file = self._writer.file
        file.execute("BEGIN IMMEDIATE")
        try:
            for statement, rows in changes:
                _execute(file, statement, rows)
            file.execute("COMMIT")
        except BaseException:
            roll_back(file)
            raise

    def _wait(self, since: float, failure: StoreFailed) -> None:
        now = time.monotonic()
        closing = self._closing_since
        if now - since >= self.locked_most_s or (closing and now - closing >= LOCKED_S):
            raise failure
        if now - since >= NOTICE_S:
            self.report_held()
        time.sleep(_PAUSE_S)

    def report_held(self) -> None:
        """Report, once until a write succeeds, that another process holds the file."""
        if not self._reported_held:
            self._reported_held = True
            self.notice(f"The cache {self.path} is held by another process; waiting.")

    def _go_safe(self, error: Exception) -> None:
        """Switch to the safe mode because the WAL does not work."""
        self._wal = False
        with self._reading:
            self._reader.file.close()
            self._writer.file.close()
            self._writer = self._open(_TRY_S)
            self._reader = self._open(0)
        self.notice(no_wal(self.path, str(error)))

    def _open(self, busy_s: float) -> Opened:
        """Open the file, after recovering it if it is damaged."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Two processes that both switch a new file to WAL would not wait for each other.
            with FileLock(self.path.with_suffix(".lock"), timeout=LOCKED_S):
                if needs_recovery(self.path):
                    self._recover()
                try:
                    return self._connect(busy_s)
                except sqlite3.Error as error:
                    if not is_damage(error):
                        raise
                self._recover()
                return self._connect(busy_s)
        except (OSError, NotImplementedError, sqlite3.Error) as error:
            raise self.failed("open", error) from None

    def _connect(self, busy_s: float) -> Opened:
        return open_database(self.path, wal=self._wal, busy_s=busy_s, notice=self.notice)

    def _recover(self) -> None:
        with self.claims.alone(LOCKED_S):
            said = recover(self.path, self._restore)
        if said:
            self.notice(said)

    def close(self) -> None:
        """Close the connections; call `closing` before waiting for the last write."""
        self._reader.file.close()
        self._writer.file.close()
        self.claims.close()

    def closing(self) -> None:
        """Stop waiting long for other processes, because the cache is closing."""
        self._closing_since = time.monotonic()

    def failed(self, verb: str, error: Exception) -> StoreFailed:
        """Return the error to raise; damage is marked for recovery at the next opening."""
        if is_busy(error) or isinstance(error, (TimeoutError, BlockingIOError)):
            return self._held(verb)
        said = str(error)
        if is_damage(error):
            return self.damaged(verb, said)
        return StoreFailed(
            f"Cannot {verb} the cache {self.path}: {said}.",
            "Free some space or fix the permissions, or set HARNESS_CACHE_DIR to another folder; "
            "then run again.",
        )

    def damaged(self, verb: str, said: str) -> StoreFailed:
        """Mark the file as damaged."""
        mark(self.path)
        return StoreFailed(
            f"Cannot {verb} the cache {self.path}: {said}. It is damaged.",
            "Run again: it will be moved aside, and a new one filled from the attempts of runs.",
        )

    def _held(self, verb: str) -> StoreBusy:
        return StoreBusy(
            f"Cannot {verb} the cache {self.path}: another process holds it.",
            "Run again when it has finished.",
        )


def _execute(file: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    done = 0
    for number in _AT_ONCE:
        while len(rows) - done >= number:
            values = list(itertools.chain.from_iterable(rows[done : done + number]))
            file.execute(_worded(statement, number, len(values) // number), values)
            done += number


@functools.cache
def _worded(statement: str, rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return statement.format(rows=", ".join([row] * rows))
