"""Claims: which process is paying for a call right now, so that no other one pays too.

A claim is an operating system's lock on one byte that stands for the key. It costs two system
calls and dies with its owner, so a killed process blocks nobody. It is held only while its call
is in flight, and a call that waits for one holds none, so there is no deadlock.

POSIX locks belong to a process and not to a descriptor, and closing any descriptor of a file
drops them all. So each file is opened once per process, and a set tells the calls of the same
process apart.

>>> claims = open_claims(Path("replies.claims"))  # doctest: +SKIP
>>> claims.take("4f…")  # False while another one pays  # doctest: +SKIP
True
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

SHARDS = 16
"""Files that the claims are spread over: the kernel searches all locks of a file."""

DIGITS = 14
"""Hex digits of a key that name its byte: an offset has 63 bits. If two keys share them, one call
waits for the other, and that is all."""

PROBE = 1
"""A byte of the gate's file that is locked only to see whether locks work at all."""


class Claims:
    """The claims on the calls of one cache, shared by everything that opens it in a process.

    Attributes:
        trouble: Why the claims of other processes cannot be seen; None if they can be.
    """

    def __init__(self, folder: Path) -> None:
        self._guard = threading.Lock()
        self._gate = threading.Lock()
        self._taken: set[int] = set()
        self._files: list[int] = []
        self.users = 0
        self.trouble: str | None = None
        if sys.platform == "win32":
            self.trouble = "not on this system"
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(SHARDS + 1):
                name = f"{number:x}" if number < SHARDS else "gate"
                self._files.append(os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o666))
            fcntl.lockf(self._files[-1], fcntl.LOCK_SH | fcntl.LOCK_NB, 1, PROBE)
            _unlock(self._files[-1], PROBE)
        except OSError as error:
            self._close_files()
            self.trouble = error.strerror or str(error)

    def take(self, key: str) -> bool:
        """Claim a key, unless a call for it is in flight, here or in another process."""
        place = int(key[-DIGITS:], 16)
        with self._guard:
            if place in self._taken:
                return False
            if self._files and not _lock(self._files[place % SHARDS], place, exclusive=True):
                return False
            self._taken.add(place)
            return True

    def release(self, key: str) -> None:
        """Release a claim."""
        place = int(key[-DIGITS:], 16)
        with self._guard:
            self._taken.discard(place)
            if self._files:
                _unlock(self._files[place % SHARDS], place)

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Use the database, and keep other processes from moving it away meanwhile.

        Raises:
            BlockingIOError: Another process is recovering it.
        """
        with self._gate:
            if not self._files:
                yield
                return
            if not _lock(self._files[-1], 0, exclusive=False):
                raise BlockingIOError("another process is recovering it")
            try:
                yield
            finally:
                _unlock(self._files[-1], 0)

    @contextlib.contextmanager
    def alone(self, wait_s: float) -> Iterator[None]:
        """Be the only user of the database, across all processes.

        Raises:
            BlockingIOError: Others do not release it in time.
        """
        end = time.monotonic() + wait_s
        if not self._gate.acquire(timeout=wait_s):
            raise BlockingIOError("another process holds it")
        try:
            while self._files and not _lock(self._files[-1], 0, exclusive=True):
                if time.monotonic() > end:
                    raise BlockingIOError("another process holds it")
                time.sleep(0.01)
            try:
                yield
            finally:
                if self._files:
                    _unlock(self._files[-1], 0)
        finally:
            self._gate.release()

    def close(self) -> None:
        """Close the files once their last user in this process has closed them."""
        with _opening:
            self.users -= 1
            if not self.users:
                for folder in [folder for folder, claims in _open.items() if claims is self]:
                    del _open[folder]
                with self._guard:
                    self._close_files()

    def _close_files(self) -> None:
        while self._files:
            os.close(self._files.pop())


_open: dict[Path, Claims] = {}
_opening = threading.Lock()


def open_claims(folder: Path) -> Claims:
    """Open the claims in a folder, which is created if missing; `Claims.close` them when done."""
    folder = folder.resolve()
    with _opening:
        claims = _open.get(folder)
        if claims is None:
            claims = _open[folder] = Claims(folder)
        claims.users += 1
        return claims


def _lock(file: int, place: int, *, exclusive: bool) -> bool:
    """Lock one byte, which need not exist, unless another process holds it.

    Returns:
        Also True if the system cannot lock: a call may then be paid for twice, but is made.
    """
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.lockf(file, kind | fcntl.LOCK_NB, 1, place)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True


def _unlock(file: int, place: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_UN, 1, place)
