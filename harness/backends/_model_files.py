"""Identifies a model by its files, so that replies of different weights are never confused.

A fine-tuned checkpoint often keeps its folder name, size and date, and an edited one may differ in
only a few places, so every file is hashed completely. Gigabytes take seconds to minutes, so hashes
of large files are cached until the file system reports a change.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from harness.errors import DataInvalid, DataMissing

LARGE_BYTES = 4_000_000
"""File size in bytes above which hashes are cached."""

READERS = 8
"""Maximum number of files read concurrently."""

Known = dict[str, tuple[list[int], str]]
"""Maps paths to a file's status (see `_stat`) and its hash."""


class Hashes:
    """Computes hashes of files; those of large files are cached in the file `memory`, if given."""

    def __init__(self, memory: Path | None = None) -> None:
        self._memory = memory

    def of(self, paths: Sequence[Path]) -> list[str]:
        """Return the SHA-256 (hex digits) of each file, in the order of `paths`; raises OSError."""
        known, stats = self._known(), {path: _stat(path) for path in paths}
        found = {
            path: known[str(path)][1]
            for path, stat in stats.items()
            if str(path) in known and known[str(path)][0] == stat
        }
        missing = [path for path in stats if path not in found]
        with ThreadPoolExecutor(READERS) as readers:
            found |= dict(zip(missing, readers.map(_sha256, missing), strict=True))
        # A file that changes while it is hashed will not match its entry next time.
        new = {
            str(path): (stats[path], found[path])
            for path in missing
            if path.stat().st_size > LARGE_BYTES
        }
        if new and self._memory:
            self._remember(self._memory, {**known, **new})
        return [found[path] for path in paths]

    def _known(self) -> Known:
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            if self._memory:
                return msgspec.json.decode(self._memory.read_bytes(), type=Known)
        return {}

    def _remember(self, memory: Path, known: Known) -> None:
        """Save the hashes in the cache file; failure to write it is ignored."""
        with contextlib.suppress(OSError, UnicodeEncodeError):
            memory.parent.mkdir(parents=True, exist_ok=True)
            temporary = memory.with_name(f".{memory.name}.{os.getpid()}")
            temporary.write_bytes(msgspec.json.encode(known))
            temporary.replace(memory)


def model_identity(name: str, hashes: Hashes) -> str:
    """Return a hash of a local model's files; for a model on the hub, its name."""
    folder = _local(name)
    return name if folder is None else files_identity(folder, hashes)


def place(name: str) -> str:
    """Return the path of a local model's folder; for a model on the hub, its name."""
    return str(_local(name) or name)


def files_identity(place: Path, hashes: Hashes) -> str:
    """Return a hash of a file, or of a folder's files and their names, ignoring subfolders."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        within = place.iterdir() if place.is_dir() else [place]
        files = sorted(path for path in within if path.is_file())
        for path, found in zip(files, hashes.of(files), strict=True):
            name = os.fsencode(path.name) if place.is_dir() else b""
            digest.update(name + b"\0" + found.encode())
    except OSError as error:
        raise DataInvalid(
            f"Cannot read the model from {place}: {error.strerror}.", "Fix its permissions."
        ) from None
    return f"files:{digest.hexdigest()}"


def _local(name: str) -> Path | None:
    """Return the folder that a model's name refers to; None for a name on the hub."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if name.startswith(("/", "./", "../", "~")):
        raise DataMissing(
            f"There is no model folder {name}.", "Check model.path (or model.name) in the run file."
        )
    return None


def _stat(path: Path) -> list[int]:
    """Return a file's device, inode, size, mtime and ctime (ns); programs cannot set ctime."""
    found = path.stat()
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
