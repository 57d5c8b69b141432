"""The stages of a build: what one has made is kept, and a build that was cut off goes on there.

A stage has a name and a key. The key is a hash over everything that its result depends on; a result
that is there under the same key is read instead of made again, any other is made anew. A result is
written whole or not at all, so that a crash costs the stages that had not ended, and no more.

>>> with held(Path("mine.stages"), Path("mine")) as stages:  # doctest: +SKIP
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

from harness.errors import ConfigError, DataInvalid, DataMissing, RunConflict, StoreFailed
from harness.store.files import replacing

T = TypeVar("T")

MARK = "stages.json"
"""Marks a folder as one of stages: no other is ever emptied."""


class _Kept(msgspec.Struct, Generic[T]):
    key: str
    result: T


class _KeyOnly(msgspec.Struct):
    key: str


class Stages:
    """The results of a build's stages, in a folder of their own.

    Raises: RunConflict where the folder holds something else; StoreFailed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.resumed = 0
        try:
            if folder.exists() and not (folder / MARK).is_file() and any(folder.iterdir()):
                raise RunConflict(
                    f"{folder} is there and holds no stages of a build.", "Move it away."
                )
            folder.mkdir(parents=True, exist_ok=True)
            (folder / MARK).write_text("{}\n")
        except OSError as error:
            raise StoreFailed(
                f"The build's stages cannot be kept in {folder}: {error.strerror}.",
                "Check the path, its permissions and the space left.",
            ) from None

    def found(self, name: str, key: str, type_: type[T]) -> T | None:
        """A stage's result where it was made under this key, else None."""
        try:
            kept = (self.folder / f"{name}.json").read_bytes()
            if msgspec.json.decode(kept, type=_KeyOnly).key != key:
                return None
            result = msgspec.json.decode(kept, type=_Kept[type_]).result  # type: ignore[valid-type]
        except (OSError, msgspec.MsgspecError):  # not there, or of another version
            return None
        self.resumed += 1
        return result

    def keep(self, name: str, key: str, result: object) -> None:
        """Keep a stage's result.

        Raises: StoreFailed.
        """
        with replacing(self.folder / f"{name}.json") as temporary:
            temporary.write_bytes(msgspec.json.encode(_Kept(key, result)))

    def result(self, name: str, key: str, type_: type[T], make: Callable[[], T]) -> T:
        """A stage's result: the one that is there, else a new one, which is kept.

        Raises: StoreFailed, and what ``make`` raises.
        """
        found = self.found(name, key, type_)
        if found is None:
            found = make()
            self.keep(name, key, found)
        return found

    @contextlib.contextmanager
    def dropped_on_mistakes(self) -> Iterator[None]:
        """Drop the stages where what a build was given ends it: with other input none is used."""
        try:
            yield
        except (ConfigError, DataInvalid, DataMissing):
            self.done()
            raise

    def done(self) -> None:
        """The build has ended: its stages are not needed any more."""
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def held(folder: Path, out: Path) -> Iterator[Stages]:
    """The stages of a build, as the one process that works on them; the lock dies with its owner.

    folder: of the stages.
    out: what is built.

    Raises: RunConflict where another process has them, and as `Stages`; StoreFailed.
    """
    stages = Stages(folder)
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise RunConflict(
            f"Another process is building {out}.", "Wait for it, or give this one another --out."
        ) from None
    except OSError as error:
        raise StoreFailed(
            f"The build's stages cannot be kept in {folder}: {error.strerror}.",
            "Check the path and its permissions.",
        ) from None
    try:
        yield stages
    finally:
        lock.release()


def key_of(*parts: Any) -> str:
    """A hash over whatever a result depends on: plain data and records of msgspec."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = msgspec.json.encode(part, order="deterministic")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()
