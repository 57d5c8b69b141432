"""Copies of runs on an object store, from which another machine can continue them.

An object store cannot append, so whole files are uploaded as they grow. What a killed machine has
not uploaded need not be paid for again: the replies are in the team's cache, which such runs also
need for their lease.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from harness.errors import ConfigError, RunConflict, StoreFailed
from harness.extras import import_extra
from harness.store.files import make_folder, replacing, write_json
from harness.store.json_lines import read_json
from harness.store.run_folder import COPIES, RunFolder

if TYPE_CHECKING:
    import obstore
    from obstore import exceptions
    from obstore.store import from_url
else:
    obstore = import_extra("obstore", "team")
    exceptions = import_extra("obstore.exceptions", "team")
    from_url = import_extra("obstore.store", "team").from_url

LOCAL = ("status.json", "stop.json", "servers")  # files and folders that are not uploaded
UPLOAD_S = 60.0  # between two uploads
SHARE = 10.0  # uploads may take one in this many seconds, so large files are uploaded less often


class _Copy(msgspec.Struct):
    """A file's state when it was the same as its copy on the object store."""

    tag: str | None
    size: int
    mtime_ns: int

    def is_of(self, path: Path) -> bool:
        """Return whether a file is still the same as its copy."""
        found = path.stat() if path.exists() else None
        return found is not None and (found.st_size, found.st_mtime_ns) == (
            self.size,
            self.mtime_ns,
        )


class RemoteRuns:
    """The copies of runs at a URL: ``s3://BUCKET/PREFIX``, ``gs://…``, ``az://…`` or ``file://…``.

    The clouds' own environment variables hold the credentials.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            options: dict[str, Any] = {"mkdir": True} if url.startswith("file:") else {}
            self._store: Any = from_url(self.url, **options)
        except (exceptions.BaseError, ValueError) as error:
            remedy = "Write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX."
            raise ConfigError(f"HARNESS_RUNS_URL cannot be used: {_said(error)}.", remedy) from None

    def names(self) -> list[str]:
        """Return the names of all runs at the URL, sorted."""
        with self._asking("list the runs at"):
            found = obstore.list_with_delimiter(self._store)["common_prefixes"]
        return sorted(prefix.strip("/") for prefix in found)

    def set_aside(self, name: str) -> None:
        """Rename the copy of a run, if any, so that a new run can have its name."""
        kept = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
        for file in self._tags(name):
            with self._asking(f"rename {name}/{file} at"):
                obstore.rename(self._store, f"{name}/{file}", f"{kept}/{file}")

    def pull(self, folder: RunFolder) -> str:
        """Bring a run's folder up to date. Return a message for the user, or "" if nothing changed.

        If both the folder and its copy have changed, the folder is kept under a dated name.
        """
        remote, copies = self._tags(folder.name), _copies(folder)
        changed = [
            file for file, tag in remote.items() if file not in copies or copies[file].tag != tag
        ]
        if not changed:
            return ""
        aside = ""
        if folder.path.exists() and self._unsaved(folder, copies):
            name = f"{folder.name}-{time.strftime('%Y%m%d-%H%M%S')}"
            folder.rename(name)
            aside = f" The folder on this machine had other attempts: it is kept as {name}."
            copies, changed = {}, list(remote)
        make_folder(folder.path)
        # The configuration is written last: without it, there is no run.
        for file in sorted(changed, key=lambda one: one == folder.config.name):
            path = folder.path / file
            make_folder(path.parent)
            with self._asking(f"download {folder.name}/{file} from"):
                found = obstore.get(self._store, f"{folder.name}/{file}")
                with replacing(path) as temporary, temporary.open("wb") as new:
                    for part in found.stream():
                        new.write(part)
            copies[file] = _copy(path, found.meta["e_tag"])
        _write_copies(folder, copies)
        return f"{folder.name}: continued from its copy at {self.url}.{aside}"

    def check(self, folder: RunFolder) -> None:
        """Raise RunConflict if a run's copy has changed since its last upload or download."""
        remote, copies = self._tags(folder.name), _copies(folder)
        if remote != {file: copies[file].tag for file in remote if file in copies}:
            problem = f"The copy of {folder.name!r} at {self.url} was changed by another machine."
            raise RunConflict(problem, f"To get it: harness sync {folder.name}")

    def push(self, folder: RunFolder) -> None:
        """Upload a run's changed files.

        Raises:
            RunConflict: If the copy was changed by another machine.
            StoreFailed: If the object store does not accept the files.
        """
        copies = _copies(folder)
        changed = self._unsaved(folder, copies)
        if not changed:
            return
        self.check(folder)
        # The manifest says how much is done: it is uploaded after the attempts.
        for file in sorted(changed, key=lambda one: one == folder.manifest.name):
            path = folder.path / file
            with self._asking(f"upload {folder.name}/{file} to"):
                copy = _copy(path, None)
                copy.tag = obstore.put(self._store, f"{folder.name}/{file}", path)["e_tag"]
            copies[file] = copy
            _write_copies(folder, copies)

    def _unsaved(self, folder: RunFolder, copies: dict[str, _Copy]) -> list[str]:
        """Return the files of a run that differ from their copies."""
        paths = sorted(folder.path.rglob("*"))
        # A link may lead to any file of the user.
        files = [path for path in paths if path.is_file() and not path.is_symlink()]
        named = {path.relative_to(folder.path): path for path in files}
        return [
            file.as_posix()
            for file, path in named.items()
            if not any(part.startswith(".") or part in LOCAL for part in file.parts)
            if (copy := copies.get(file.as_posix())) is None or not copy.is_of(path)
        ]

    def _tags(self, name: str) -> dict[str, str | None]:
        with self._asking(f"list {name} at"):
            pages = obstore.list(self._store, f"{name}/")
            found = [one for page in pages for one in page]
        return {one["path"].removeprefix(f"{name}/"): one["e_tag"] for one in found}

    @contextlib.contextmanager
    def _asking(self, what: str) -> Any:
        try:
            yield
        except (exceptions.BaseError, FileNotFoundError, OSError) as error:
            remedy = "Check HARNESS_RUNS_URL, the credentials and the network, then run again."
            if "invalid path" in str(error):  # of one object, which the listing cannot leave out
                remedy = "Rename or delete this object, or name the runs: harness sync NAME."
            raise StoreFailed(f"Cannot {what} {self.url}: {_said(error)}.", remedy) from None


class Uploads:
    """Uploads a run's folder every minute, or less often if that takes long, and at the end.

    Failures are retried.
    """

    def __init__(self, runs: RemoteRuns, folder: RunFolder, report: Callable[[str], None]) -> None:
        self._runs, self._folder, self._report = runs, folder, report
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="uploads", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._push()

    def _work(self) -> None:
        pause = UPLOAD_S
        while not self._ended.wait(pause):
            began = time.monotonic()
            self._push()
            pause = max(UPLOAD_S, SHARE * (time.monotonic() - began))

    def _push(self) -> None:
        try:
            self._runs.push(self._folder)
        except (RunConflict, StoreFailed) as error:
            self._report(f"{error.message} To upload it later: harness sync {self._folder.name}")
        else:
            self._report("")


def _copies(folder: RunFolder) -> dict[str, _Copy]:
    remedy = "Remove it: the run is then downloaded again."
    return read_json(folder.path / COPIES, dict[str, _Copy], remedy)


def _write_copies(folder: RunFolder, copies: dict[str, _Copy]) -> None:
    write_json(folder.path / COPIES, copies)


def _copy(path: Path, tag: str | None) -> _Copy:
    found = path.stat()
    return _Copy(tag, found.st_size, found.st_mtime_ns)


def _said(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300].rstrip(".")
