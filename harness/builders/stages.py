"""The stages of a build: finished ones are saved, so that an interrupted build resumes.

A stage has a name and a key, a hash of everything its result depends on. A result saved under the
same key is reused; any other is recomputed. Results are written whole or not at all.

>>> with locked_stages(Path("mine.stages"), Path("mine")) as stages:  # doctest: +SKIP
...     stages.result("count", key_of("books", 300), dict[str, int], lambda: {"words": 9})
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from filelock import FileLock, Timeout

from harness.builders.folder import explained
from harness.errors import ConfigError, DataInvalid, DataMissing, RunConflict
from harness.store.files import replacing

T = TypeVar("T")

MARK = "stages.json"
"""Marks a folder of stages; no other folder is ever emptied."""


class _Saved(msgspec.Struct, Generic[T]):
    key: str
    result: T


class Stages:
    """The saved results of a build's stages, in a folder; ``resumed`` counts those reused."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.resumed = 0

    def found(self, name: str, key: str, type_: type[T]) -> T | None:
        """Return a stage's result if it was saved under this key."""
        try:
            content = (self.folder / f"{name}.json").read_bytes()
            saved = msgspec.json.decode(content, type=_Saved[type_])  # type: ignore[valid-type]
        except (OSError, msgspec.MsgspecError):  # missing, torn, or from another version
            return None
        if saved.key != key:
            return None
        self.resumed += 1
        return saved.result

    def save(self, name: str, key: str, result: object) -> None:
        """Save a stage's result."""
        with replacing(self.folder / f"{name}.json") as temporary:
            temporary.write_bytes(msgspec.json.encode(_Saved(key, result)))

    def result(self, name: str, key: str, type_: type[T], make: Callable[[], T]) -> T:
        """Return a stage's saved result, or compute and save it."""
        found = self.found(name, key, type_)
        if found is None:
            found = make()
            self.save(name, key, found)
        return found

    def delete(self) -> None:
        """Delete the folder, because the build has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def deleted_on_mistakes(self) -> Iterator[None]:
        """Delete the stages if the input was wrong: a corrected input cannot use them."""
        try:
            yield
        except (ConfigError, DataInvalid, DataMissing):
            self.delete()
            raise


@contextlib.contextmanager
def locked_stages(folder: Path, out: Path) -> Iterator[Stages]:
    """The stages of a build, locked for this process; the lock ends with the process.

    Raises:
        RunConflict: Another process holds the lock, or the folder holds something else.
        StoreFailed: The folder cannot be written.
    """
    with explained(f"save the build's stages in {folder}"):
        if folder.exists() and not (folder / MARK).is_file() and any(folder.iterdir()):
            message = f"{folder} exists and does not hold the stages of a build."
            raise RunConflict(message, "Move it away.")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).write_text("{}\n")
        try:
            lock = FileLock(folder / ".lock", timeout=0).acquire()
        except Timeout:
            remedy = "Wait for it, or choose another --out."
            raise RunConflict(f"Another process is building {out}.", remedy) from None
    with lock:
        yield Stages(folder)


def key_of(*parts: Any) -> str:
    """Hash plain data and msgspec records."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = msgspec.json.encode(part, order="deterministic")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()
