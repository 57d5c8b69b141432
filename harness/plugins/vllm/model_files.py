"""Identifies a local model by its files, so that replies from different weights are not confused.

A fine-tuned checkpoint often keeps its folder name, size and date, and an edited checkpoint may
differ in only a few places. Every file is therefore hashed completely. Gigabytes take seconds to
minutes, so hashes of large files are cached until the file system reports a change.
"""

import contextlib
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from harness.errors import DataInvalid, DataMissing

LARGE_BYTES = 4_000_000  # file size above which hashes are cached
READERS = 8  # maximum number of files read concurrently

Known = dict[str, tuple[list[int], str]]  # for each path, the file's status (`_stat`) and hash


class Hashes:
    """The hashes of files, cached for large files in the file ``memory``, if any."""

    def __init__(self, memory: Path | None = None) -> None:
        self._memory = memory

    def of(self, paths: Sequence[Path]) -> list[str]:
        """Return the SHA-256 hashes (hex digits) of files, in the order of ``paths``.

        Raises:
            OSError: If a file cannot be read.
        """
        cached, stats = self._cached(), {str(path): _stat(path) for path in paths}
        found = {path: known for path, known in cached.items() if known[0] == stats.get(path)}
        missing = [path for path in stats if path not in found]
        with ThreadPoolExecutor(READERS) as readers:
            for path, digest in zip(missing, readers.map(_sha256, missing), strict=True):
                # A file that changes while it is hashed will not match its entry next time.
                found[path] = stats[path], digest
        large = {path: found[path] for path in missing if stats[path][2] > LARGE_BYTES}
        if large and self._memory:
            self._save(self._memory, {**cached, **large})
        return [found[str(path)][1] for path in paths]

    def _cached(self) -> Known:
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            if self._memory:
                return msgspec.json.decode(self._memory.read_bytes(), type=Known)
        return {}

    def _save(self, memory: Path, known: Known) -> None:
        # A cache that cannot be written is no error.
        with contextlib.suppress(OSError, UnicodeEncodeError):
            memory.parent.mkdir(parents=True, exist_ok=True)
            temporary = memory.with_name(f".{memory.name}.{os.getpid()}")
            temporary.write_bytes(msgspec.json.encode(known))
            temporary.replace(memory)


def cached_hashes(cache_dir: Path) -> Hashes:
    """Return the hashes that a file in the folder of caches keeps."""
    return Hashes(cache_dir / "model_files.json")


def model_identity(name: str, hashes: Hashes) -> str:
    """Return the identity of a model: a hash of its files, or its name on the hub."""
    found = place(name)
    return files_identity(found, hashes) if isinstance(found, Path) else found


def files_identity(place: Path, hashes: Hashes) -> str:
    """Return a hash of a file, or of the files directly in a folder and their names.

    Raises:
        DataInvalid: If a file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        within = place.iterdir() if place.is_dir() else [place]
        files = sorted(path for path in within if path.is_file())
        for path, found in zip(files, hashes.of(files), strict=True):
            name = os.fsencode(path.name) if place.is_dir() else b""
            digest.update(name + b"\0" + found.encode())
    except OSError as error:
        problem = f"Cannot read the model from {place}: {error.strerror}."
        raise DataInvalid(problem, "Fix its permissions.") from None
    return f"files:{digest.hexdigest()}"


def place(name: str) -> Path | str:
    """Return the folder of a local model, or the name itself for a model on the hub.

    Raises:
        DataMissing: If the name is a path, but there is no such folder.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if name.startswith(("/", "./", "../", "~")):
        remedy = "Check model.path (or model.name) in the run file."
        raise DataMissing(f"There is no model folder {name}.", remedy)
    return name


def _stat(path: Path) -> list[int]:
    """Return a file's device, inode, size, mtime and ctime (ns). Programs cannot set the ctime."""
    found = path.stat()
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _sha256(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
