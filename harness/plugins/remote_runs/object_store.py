"""Copies of runs on an object store, from which another machine can continue them.

An object store cannot append, so whole files are uploaded as they grow. What a killed machine has
not uploaded need not be paid for again: the replies are in the team's cache, which such runs also
need for their lease.
"""

import contextlib
import shutil
import threading
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
import typer

from harness.calls.reply_cache import ReplyCache
from harness.calls.signals import Report
from harness.config.settings import Settings
from harness.engine.infrastructure import RunCopies
from harness.errors import (
    ConfigError,
    DataMissing,
    HarnessError,
    RunConflict,
    StoreFailed,
    UserError,
    import_extra,
)
from harness.plugins.remote_runs.sides import (
    STATED,
    compare_sides,
    is_same,
    kept_states,
    restorable,
    without_copied_lines,
)
from harness.records import content_hash
from harness.store.file_states import APPENDED_FILES, MANIFEST, record_states
from harness.store.files import make_folder, replace_atomically, write_json
from harness.store.index import read_attempts
from harness.store.json_lines import read_json
from harness.store.lost_lines import find_loss, remove_copies
from harness.store.run_folder import SYNC_STATE, RunFolder
from harness.terminal.console import say
from harness.wording import join_first

LOCAL = ("status.json", "stop.json", "servers")  # files and folders that are not uploaded
LONGEST_NAME = 255  # bytes, on common file systems
UPLOAD_S = 60.0  # between two uploads
SHARE = 10.0  # uploads may take one in this many seconds, so large files are uploaded less often


class _Copy(msgspec.Struct):
    """A file's state when it was the same as its copy on the object store."""

    tag: str | None
    size: int
    mtime_ns: int

    def is_of(self, path: Path) -> bool:
        """Return whether a file is still the same as its copy."""
        status = path.stat() if path.exists() else None
        return status is not None and (status.st_size, status.st_mtime_ns) == (
            self.size,
            self.mtime_ns,
        )


def remote_runs(settings: Settings) -> "RemoteRuns":
    """Return the object store that ``HARNESS_RUNS_URL`` names."""
    if settings.cache_url is None:
        problem = "HARNESS_RUNS_URL is set, but no cache that machines share."
        remedy = "Set HARNESS_CACHE_URL too: it keeps two machines from working on one run at once."
        raise ConfigError(problem, f"{remedy} See 'harness docs team'.")
    return RemoteRuns(settings.runs_url)


class RemoteRuns(RunCopies):
    """The copies of runs at a URL: ``s3://BUCKET/PREFIX``, ``gs://…``, ``az://…`` or ``file://…``.

    The clouds' own environment variables hold the credentials.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._obstore = import_extra("obstore", "team")
        self._error: type[Exception] = import_extra("obstore.exceptions", "team").BaseError
        from_url = import_extra("obstore.store", "team").from_url
        try:
            options: dict[str, Any] = {"mkdir": True} if url.startswith("file:") else {}
            self._store: Any = from_url(self.url, **options)
        except (self._error, ValueError) as error:
            remedy = "Write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX."
            raise ConfigError(
                f"HARNESS_RUNS_URL cannot be used: {_first_line(error)}.", remedy
            ) from None

    def names(self) -> list[str]:
        """Return the names of all runs at the URL, sorted."""
        with self._asking("list the runs at"):
            prefixes = self._obstore.list_with_delimiter(self._store)["common_prefixes"]
        return sorted(prefix.strip("/") for prefix in prefixes)

    def set_aside(self, name: str) -> None:
        new_name = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
        for file in self._tags(name):
            with self._asking(f"rename {name}/{file} at"):
                self._obstore.rename(self._store, f"{name}/{file}", f"{new_name}/{file}")

    def pull(self, folder: RunFolder) -> str:
        remote = self._tags(folder.name)
        _check_names(folder.name, remote)
        copies = _copies(folder)
        changed = [name for name, tag in remote.items() if not _has(copies, name, tag)]
        missing = {name for name in remote if name in copies and not (folder.path / name).exists()}
        if not changed and not missing:
            return ""
        changed_here = self._unsaved(folder, copies)
        needed = {*changed, *missing}
        if changed:
            needed |= {name for name in changed_here if _is_compared(name)}
        tags = {name: tag for name, tag in remote.items() if name in needed}
        # No run's name begins with a dot. An interrupted download is resumed.
        downloads = folder.path.parent / f".download-{folder.name}"
        copy = self._downloaded(folder.name, tags, downloads)
        doubled = without_copied_lines(folder.path, copy)
        sides = compare_sides(folder.path, copy, changed_here)
        aside = ""
        unchanged = sides.intact | {
            name for name in doubled if _is_same(folder.path / name, copy[name])
        }
        restored = missing
        if not sides.conflict and (sides.is_ahead or MANIFEST not in copy):
            restored = restorable(folder.path, copy, missing)
        if sides.conflict:
            new_name = f"{folder.name}-{time.strftime('%Y%m%d-%H%M%S')}"
            folder.rename(new_name)
            aside = f" The folder on this machine {sides.conflict}: it is kept as {new_name}."
            rest = {name: tag for name, tag in remote.items() if name not in copy}
            copy |= self._downloaded(folder.name, rest, downloads)
            copies = {}
            changed_here = []
            missing = set()
            restored = set()
        with folder.lock():
            # Those of files that do not come from the same side as the manifest.
            states = kept_states(folder.path, copy, changed_here, is_ahead=sides.is_ahead)
            # The configuration is written last: without it, there is no run.
            for name in sorted(copy, key=lambda name: name == folder.config.name):
                path = folder.path / name
                if name in missing and name not in restored:
                    continue
                is_ahead = sides.is_ahead and _is_compared(name) and name not in restored
                if is_ahead or name in sides.intact:
                    copies[name] = _Copy(remote[name], -1, 0)  # to be uploaded
                    continue
                if not _is_same(path, copy[name]):
                    make_folder(path.parent)
                    with replace_atomically(path) as temporary:
                        shutil.move(copy[name], temporary)
                copies[name] = _copy(path, remote[name])
                if name in doubled:
                    copies[name] = _Copy(remote[name], -1, 0)
            if not sides.is_ahead and MANIFEST in copy.keys() - missing:
                for name in STATED:
                    # A file that was uploaded before was deleted there, and is uploaded again.
                    if name in changed_here and name not in remote and name not in copies:
                        (folder.path / name).unlink()
            if states:
                record_states(folder.path, states)
            _write_copies(folder, copies)
        shutil.rmtree(downloads, ignore_errors=True)
        messages = []
        if sides.is_ahead:
            messages.append(f"this machine has more than the copy at {self.url}.")
        elif not set(changed) <= unchanged:
            messages.append(f"continued from its copy at {self.url}.{aside}")
        if sides.intact:
            names = join_first(sorted(sides.intact), 3)
            messages.append(f"damaged at {self.url}, and kept as on this machine: {names}.")
        if doubled:
            names = join_first(sorted(doubled), 3)
            messages.append(f"lines that were twice at {self.url} count once: {names}.")
        if downloaded_again := restored.difference(changed):
            names = join_first(sorted(downloaded_again), 3)
            messages.append(f"missing on this machine, and downloaded again: {names}.")
        return "\n".join(f"{folder.name}: {message}" for message in messages)

    def _downloaded(
        self, run: str, tags: Mapping[str, str | None], folder: Path
    ) -> dict[str, Path]:
        """Download files of a run's copy, and return their paths in ``folder`` by name.

        Files that an interrupted download has completed are not downloaded again.
        """
        paths = {}
        for name, tag in tags.items():
            path = paths[name] = folder / content_hash([name, tag])
            if tag is not None and path.exists():
                continue
            make_folder(folder)
            with self._asking(f"download {run}/{name} from"):
                response = self._obstore.get(self._store, f"{run}/{name}")
                with replace_atomically(path) as temporary, temporary.open("wb") as file:
                    for part in response.stream():
                        file.write(part)
        return paths

    @contextlib.asynccontextmanager
    async def upload_session(
        self, folder: RunFolder, replies: ReplyCache | None, report: Report
    ) -> AsyncIterator[None]:
        key = content_hash(["run", self.url, folder.name])
        # A run without a cache has only simulated or recorded answers, which cost nothing.
        if replies and replies.shared and not await replies.shared.claim_shared(key):
            problem = f"Another machine is working on the run {folder.name!r}."
            raise RunConflict(problem, "Wait for it, or give this run another name.")
        try:
            self.check(folder)
            with self.uploads(folder, report):
                yield
        finally:
            if replies:
                replies.release(key)

    @contextlib.contextmanager
    def uploads(self, folder: RunFolder, report: Report) -> Iterator[None]:
        """Upload a run every minute, or less often if that takes long, and when the block ends.

        ``report`` receives failures, which are retried, and "" after a success.
        """
        ended = threading.Event()

        def upload() -> None:
            try:
                self.push(folder)
            except (RunConflict, StoreFailed) as error:
                report(f"{error.message} To upload it later: harness sync {folder.name}")
            else:
                report("")

        def work() -> None:
            pause = UPLOAD_S
            while not ended.wait(pause):
                began = time.monotonic()
                upload()
                pause = max(UPLOAD_S, SHARE * (time.monotonic() - began))

        thread = threading.Thread(target=work, name="uploads", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            upload()

    def check(self, folder: RunFolder) -> None:
        """Raise RunConflict if a run's copy has changed since its last upload or download."""
        self._check(folder, self._tags(folder.name), _copies(folder))

    def _check(
        self, folder: RunFolder, remote: Mapping[str, str | None], copies: Mapping[str, _Copy]
    ) -> None:
        if remote != {file: copies[file].tag for file in remote if file in copies}:
            problem = f"The copy of {folder.name!r} at {self.url} was changed by another machine."
            raise RunConflict(problem, f"To get it: harness sync {folder.name}")

    def push(self, folder: RunFolder) -> str:
        """Upload a run's files that have changed, or that the object store has lost.

        Returns:
            A message that names the lost files, or "" if there are none.

        Raises:
            RunConflict: If the copy was changed by another machine.
            StoreFailed: If the object store does not accept the files.
        """
        remote = self._tags(folder.name)
        uploaded = _copies(folder)
        copies = {name: copy for name, copy in uploaded.items() if name in remote}
        changed = self._unsaved(folder, copies)
        if not changed:
            return ""
        self._check(folder, remote, copies)
        lost = [name for name in changed if name in uploaded and name not in remote]
        # The manifest says how much is done: it is uploaded after the attempts.
        for file in sorted(changed, key=lambda name: name == folder.manifest.name):
            path = folder.path / file
            with self._asking(f"upload {folder.name}/{file} to"):
                copy = _copy(path, None)
                copy.tag = self._obstore.put(self._store, f"{folder.name}/{file}", path)["e_tag"]
            copies[file] = copy
            _write_copies(folder, copies)
        if not lost:
            return ""
        names = join_first(lost, 3)
        return f"{folder.name}: missing at {self.url}, and uploaded again: {names}."

    def _unsaved(self, folder: RunFolder, copies: dict[str, _Copy]) -> list[str]:
        """Return the files of a run that differ from their copies."""
        paths = sorted(folder.path.rglob("*"))
        # A link may lead to any file of the user.
        files = [path for path in paths if path.is_file() and not path.is_symlink()]
        by_name = {path.relative_to(folder.path): path for path in files}
        return [
            file.as_posix()
            for file, path in by_name.items()
            if not any(part.startswith(".") or part in LOCAL for part in file.parts)
            if (copy := copies.get(file.as_posix())) is None or not copy.is_of(path)
        ]

    def _tags(self, name: str) -> dict[str, str | None]:
        with self._asking(f"list {name} at"):
            pages = self._obstore.list(self._store, f"{name}/")
            objects = [entry for page in pages for entry in page]
        return {entry["path"].removeprefix(f"{name}/"): entry["e_tag"] for entry in objects}

    @contextlib.contextmanager
    def _asking(self, what: str) -> Any:
        try:
            yield
        except (self._error, FileNotFoundError, OSError) as error:
            remedy = "Check HARNESS_RUNS_URL, the credentials and the network, then run again."
            if "invalid path" in str(error):  # of one object, which the listing cannot leave out
                remedy = "Rename or delete this object, or name the runs: harness sync NAME."
            raise StoreFailed(f"Cannot {what} {self.url}: {_first_line(error)}.", remedy) from None


def _check_names(run: str, names: Collection[str]) -> None:
    """Raise StoreFailed if not all objects of a run can be files of one folder."""
    for name in names:
        problem = ""
        if any(len(part.encode()) > LONGEST_NAME for part in name.split("/")):
            problem = f"has a name of more than {LONGEST_NAME} bytes"
        elif any(str(parent) in names for parent in PurePosixPath(name).parents):
            problem = "lies in another object"
        if problem:
            message = f"The object {f'{run}/{name}'!r:.100} {problem}, so it cannot be a file."
            raise StoreFailed(message, "Rename or delete this object.")


def _copies(folder: RunFolder) -> dict[str, _Copy]:
    remedy = "Remove it: the run is then downloaded again."
    return read_json(folder.path / SYNC_STATE, dict[str, _Copy], remedy)


def _has(copies: Mapping[str, _Copy], name: str, tag: str | None) -> bool:
    """Return whether this version of a file was up- or downloaded last."""
    return name in copies and copies[name].tag == tag


def _is_same(path: Path, copy: Path) -> bool:
    return path.exists() and is_same(path, copy)


def _is_compared(name: str) -> bool:
    """Return whether a file decides which side is ahead, or belongs together with those that do."""
    return name in STATED or Path(name).name in APPENDED_FILES


def _write_copies(folder: RunFolder, copies: dict[str, _Copy]) -> None:
    write_json(folder.path / SYNC_STATE, copies)


def _copy(path: Path, tag: str | None) -> _Copy:
    status = path.stat()
    return _Copy(tag, status.st_size, status.st_mtime_ns)


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300].rstrip(".")


def sync(names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None) -> None:
    """Get runs from the object store that HARNESS_RUNS_URL names, and copy runs to it.

    A run that has grown on both sides is kept under a dated name, and replaced by its copy. Exit
    codes: 0 all runs are the same on both sides, 1 some are not.

    Args:
        names: The runs' names (default: all runs on the object store).
    """
    settings = Settings()
    if not settings.runs_url:
        raise UserError("HARNESS_RUNS_URL is not set.", "Set it to a URL such as s3://BUCKET/runs.")
    remote = remote_runs(settings)
    failed = False
    for name in names or remote.names():
        try:
            message = synchronise(remote, RunFolder(settings.runs_dir, name))
        except HarnessError as error:  # must not keep the other runs from being copied
            say(f"{name}: {error}")
            failed = True
            continue
        if message:
            say(message)
        say(f"{name} is the same here and at {remote.url}.")
    if failed:
        raise typer.Exit(1)


def synchronise(runs: RemoteRuns, folder: RunFolder) -> str:
    """Bring a run's folder and its copy up to date.

    Returns:
        The messages of `RemoteRuns.pull` and `RemoteRuns.push`, one on each line, if any.

    Raises:
        DataMissing: If there is no such run on either side.
        RunConflict: If attempts of the folder are lost, so that it must not replace the copy.
        StoreFailed: If a file on which its figures depend was changed.
    """
    message = runs.pull(folder)
    if not folder.exists():
        raise DataMissing(f"There is no run {folder.name!r} here or at {runs.url}.")
    try:
        with folder.lock():
            remove_copies(folder)
        loss = find_loss(folder, read_attempts(folder.attempts))
    except StoreFailed as error:
        raise StoreFailed(_lines(message, error.message), error.remedy) from None
    if loss:
        remedy = f"To get its copy, first delete yours: harness rm {folder.name}"
        if message:  # its copy, which was just downloaded, is the same
            remedy = loss.remedy
        raise RunConflict(_lines(message, loss.message), remedy)
    with folder.lock():
        return _lines(message, runs.push(folder))


def _lines(*messages: str) -> str:
    return "\n".join(filter(None, messages))
