"""Claims record which process is paying for a call, so that no other process pays too.

A claim is an operating-system lock on a byte whose offset is derived from the call's key. It ends
with its process, so a killed process blocks no other. A call that waits for a claim holds none, so
there is no deadlock. POSIX locks belong to a process, and closing any descriptor of a file drops
all of its locks. Each file is therefore opened once per process, and the process keeps a set of the
calls that it has claimed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from pathlib import Path

if sys.platform != "win32":
    import fcntl

LOCK_FILES = 16  # number of lock files: the kernel searches all locks of a file

DIGITS = 14
"""Number of final hex digits of a key that determine its byte's offset (offsets have 63 bits).

If two keys collide, one call merely waits for the other.
"""

IN_USE = 1 << 60  # offset of a byte that every process using the database locks


class Claims:
    """This process's claims. ``trouble`` is the reason why others cannot see them, or None."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.users = 0
        self.trouble: str | None = None
        self._guard = threading.Lock()
        self._taken: set[int] = set()
        self._files: list[int] = []
        if sys.platform == "win32":
            self.trouble = "not on this system"
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(LOCK_FILES):
                self._files.append(os.open(_file(folder, number), os.O_RDWR | os.O_CREAT, 0o666))
            fcntl.lockf(self._files[0], fcntl.LOCK_SH | fcntl.LOCK_NB, 1, IN_USE + 1)  # supported?
        except OSError as error:
            self._close_files()
            self.trouble = error.strerror or str(error)

    def take(self, key: str) -> bool:
        """Claim a call by its key. Return False if any process has claimed it, even this one."""
        place = int(key[-DIGITS:], 16)
        with self._guard:
            if place in self._taken or not self._lock(place, exclusive=True):
                return False
            self._taken.add(place)
            return True

    def release(self, key: str) -> None:
        """Release the claim on a call, given the call's key."""
        place = int(key[-DIGITS:], 16)
        with self._guard:
            self._taken.discard(place)
            if self._files:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._files[place % LOCK_FILES], fcntl.LOCK_UN, 1, place)

    def register_user(self) -> None:
        """Register this process as a user, so that no other process replaces the database."""
        self._lock(IN_USE, exclusive=False)

    def lock_if_only_user(self) -> bool:
        """Return whether the database has only this user. If so, lock it until `use`."""
        return self.users == 1 and self._lock(IN_USE, exclusive=True)

    def _lock(self, offset: int, *, exclusive: bool) -> bool:
        """Lock the byte at an offset. Return False if another process holds the lock.

        If the system does not support locks, return True: the call is then made, but another
        process may pay for it too.
        """
        if self._files:
            kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
            try:
                fcntl.lockf(self._files[offset % LOCK_FILES], kind | fcntl.LOCK_NB, 1, offset)
            except OSError as error:
                return error.errno not in (errno.EAGAIN, errno.EACCES)
        return True

    def close(self) -> None:
        """Unregister a user of the claims. When the last user leaves, close the files."""
        with _opening:
            self.users -= 1
            if not self.users:
                del _open[self.folder]
                self._close_files()

    def _close_files(self) -> None:
        while self._files:
            os.close(self._files.pop())


_open: dict[Path, Claims] = {}
_opening = threading.Lock()


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number:x}"


def lacks_files(folder: Path) -> bool:
    """Return whether a folder lacks lock files, so that other processes' claims are not seen.

    Processes that have opened the files before they were deleted still see each other's claims.
    """
    if sys.platform == "win32" or folder.resolve() in _open:
        return False
    return not all(_file(folder, number).exists() for number in range(LOCK_FILES))


def open_claims(folder: Path) -> Claims:
    """Return this process's claims in a folder. The caller must close them."""
    folder = folder.resolve()
    with _opening:
        claims = _open.get(folder) or Claims(folder)
        _open[folder] = claims
        claims.users += 1
        return claims
