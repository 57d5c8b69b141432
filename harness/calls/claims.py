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

LOCK_FILES = 16  # index of lock files: several, as the kernel searches all locks of a file

OFFSET_DIGITS = 14
"""Number of final hex digits of a key that determine its byte's offset (offsets have 63 bits).

If two keys collide, one call merely waits for the other.
"""

IN_USE_OFFSET = 1 << 60  # of a byte that every process which uses the database locks


class Claims:
    """This process's claims on calls.

    Attributes:
        folder: The folder of the lock files.
        users: How many caches of this process use the claims.
        unsupported: Why other processes cannot see the claims, or None if they can.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.users = 0
        self.unsupported: str | None = None
        self._guard = threading.Lock()
        self._claimed_offsets: set[int] = set()
        self._descriptors: list[int] = []  # of the lock files
        if sys.platform == "win32":
            self.unsupported = "not on this system"
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for index in range(LOCK_FILES):
                path = _lock_file(folder, index)
                self._descriptors.append(os.open(path, os.O_RDWR | os.O_CREAT, 0o666))
            # Fails if the file system does not support locks.
            fcntl.lockf(self._descriptors[0], fcntl.LOCK_SH | fcntl.LOCK_NB, 1, IN_USE_OFFSET + 1)
        except OSError as error:
            self._close_files()
            self.unsupported = error.strerror or str(error)

    def take(self, key: str) -> bool:
        """Claim the call with a key. Return False if any process, even this one, has claimed it."""
        offset = _offset(key)
        with self._guard:
            if offset in self._claimed_offsets or not self._lock(offset, exclusive=True):
                return False
            self._claimed_offsets.add(offset)
            return True

    def release(self, key: str) -> None:
        """Release the claim on the call with a key."""
        offset = _offset(key)
        with self._guard:
            self._claimed_offsets.discard(offset)
            if self._descriptors:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._descriptors[offset % LOCK_FILES], fcntl.LOCK_UN, 1, offset)

    def register_user(self) -> None:
        """Register this process as a user, so that no other process replaces the database."""
        self._lock(IN_USE_OFFSET, exclusive=False)

    def lock_if_only_user(self) -> bool:
        """Lock the database until `register_user` if it has no other user.

        Returns:
            Whether the database is locked.
        """
        return self.users == 1 and self._lock(IN_USE_OFFSET, exclusive=True)

    def _lock(self, offset: int, *, exclusive: bool) -> bool:
        """Lock the byte at an offset. Return False if another process holds the lock.

        If the system does not support locks, return True: the call is then made, but another
        process may pay for it too.
        """
        if self._descriptors:
            kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
            try:
                fcntl.lockf(self._descriptors[offset % LOCK_FILES], kind | fcntl.LOCK_NB, 1, offset)
            except OSError as error:
                return error.errno not in (errno.EAGAIN, errno.EACCES)
        return True

    def close(self) -> None:
        """End the caller's use of the claims. The last user closes the files."""
        with _open_guard:
            self.users -= 1
            if not self.users:
                del _open_claims[self.folder]
                self._close_files()

    def _close_files(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


_open_claims: dict[Path, Claims] = {}
_open_guard = threading.Lock()


def _offset(key: str) -> int:
    return int(key[-OFFSET_DIGITS:], 16)


def _lock_file(folder: Path, index: int) -> Path:
    return folder / f"{index:x}"


def lacks_files(folder: Path) -> bool:
    """Return whether lock files were deleted, so that the claims of other processes are not seen.

    Processes that have opened the files before they were deleted still see each other's claims.
    """
    if sys.platform == "win32" or folder.resolve() in _open_claims:
        return False
    return not all(_lock_file(folder, index).exists() for index in range(LOCK_FILES))


def open_claims(folder: Path) -> Claims:
    """Open this process's claims in a folder. The caller must `close` them."""
    folder = folder.resolve()
    with _open_guard:
        claims = _open_claims.get(folder) or Claims(folder)
        _open_claims[folder] = claims
        claims.users += 1
        return claims
