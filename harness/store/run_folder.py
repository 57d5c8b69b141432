"""The folder of one run: its files, its lock, and whether it may be continued."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from filelock import FileLock, Timeout

from harness.config.identity import conflicts, value
from harness.config.loading import read, validate
from harness.config.run_file import RunFile
from harness.config.run_names import check_name
from harness.errors import ConfigError, DataMissing, RunConflict, StoreFailed, nearest
from harness.store.files import RUN_REMEDY, write_whole
from harness.store.json_lines import lines

ATTEMPTS, JUDGEMENTS, JUDGES = "attempts.jsonl", "judgements.jsonl", "judges.json"
REFERENCES = "gold"
"""The folder of the references that judges have scored (`harness.store.references`)."""

HASH = re.compile(r"(\w+:)?[0-9a-f]{16,}")
LONGEST_SHOWN = 200
"""Of a value that a message names, in characters."""


class _Manifest(msgspec.Struct):
    """What is read of a manifest, as it must be."""

    id: str = ""
    task: str = ""
    model: str | None = None
    simulated: bool = False
    samples: int | None = None
    owed: int | None = None
    fingerprint: dict[str, str] = {}
    sessions: list[dict[str, Any]] = []


class RunFolder:
    """``runs/NAME``: the names of a run's files.

    root: the folder of runs.
    name: the run's.

    Raises: ConfigError where the name cannot be a folder's.
    """

    def __init__(self, root: Path, name: str) -> None:
        try:
            self.name = check_name(name)
        except ValueError as error:
            raise ConfigError(f"{error}.", "Choose another name (harness run … --name).") from None
        self.path = root / name
        self.config = self.path / "config.yaml"
        self.manifest = self.path / "manifest.json"
        self.attempts = self.path / ATTEMPTS
        self.metrics = self.path / "metrics.json"
        self.servers = self.path / "servers"

    def exists(self) -> bool:
        """Whether a run has its configuration here."""
        return _exists(self.config)

    def begun(self) -> bool:
        """Whether there is anything to continue: at least one attempt."""
        return self.exists() and any(True for _ in lines(self.attempts))

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Be the one process that works on this run; the lock dies with its owner.

        Raises: RunConflict where another process has it; StoreFailed.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", timeout=0, fallback_to_soft=False)
            lock.acquire()
        except Timeout:
            raise RunConflict(
                f"Another process is working on the run {self.name!r}.",
                "Wait for it, or give this one another name with --name.",
            ) from None
        except (OSError, NotImplementedError) as error:
            raise _failed(self.path, error) from None
        try:
            yield
        finally:
            lock.release()

    def read_config(self) -> RunFile:
        """The run file that the run was begun with."""
        return validate(read(self.config), str(self.config))

    def check_continues(
        self,
        run: RunFile,
        fingerprint: Mapping[str, str],
        resolve: Callable[[RunFile], RunFile] = lambda run: run,
    ) -> None:
        """Refuse to continue a run as another one.

        fingerprint: what the task's scores depend on now.
        resolve: fills in the defaults of plug-ins' options, also of those that
            an older version has not written.

        Raises: RunConflict naming the differing keys.
        """
        old = resolve(self.read_config())
        differing = conflicts(old, run)
        if differing:
            raise RunConflict(
                f"The run {self.name!r} was begun with other values of: "
                + ", ".join(_change(key, value(old, key), value(run, key)) for key in differing)
                + ".",
                "Use --fresh to begin anew beside it, or --name for a run of another name.",
            )
        before = self.read_manifest().get("fingerprint", {})
        changed = [
            key for key in fingerprint if before.get(key, fingerprint[key]) != fingerprint[key]
        ]
        if changed:
            raise RunConflict(
                f"The run {self.name!r} was scored with another "
                + ", ".join(_change(key, before[key], fingerprint[key]) for key in changed)
                + ".",
                "Bring back what it was begun with, or use --fresh to begin anew beside it.",
            )

    def write_config(self, run: RunFile) -> None:
        """Write the resolved run file."""
        # ASCII with escapes: PyYAML does not read back every character that it writes plain.
        text = yaml.safe_dump(run.model_dump(mode="json"), sort_keys=False)
        write_whole(self.config, text.encode())

    def read_manifest(self) -> dict[str, Any]:
        """The manifest, empty where there is none.

        Raises: StoreFailed where it cannot be one.
        """
        found = _read_json(self.manifest)
        try:
            msgspec.convert(found, _Manifest)
        except msgspec.ValidationError as error:
            raise _damaged(self.manifest, error) from None
        return found

    def run_id(self) -> str | None:
        """The run's name in the book of payments, None before it is begun."""
        found = self.read_manifest().get("id")
        return found if isinstance(found, str) else None

    def progress(self) -> tuple[bool, int | None]:
        """Whether nothing is owed, and how many samples the whole run has, where that is known."""
        manifest = self.read_manifest()
        return manifest.get("owed") == 0, manifest.get("samples")

    def owed(self) -> int | None:
        """Samples that the last session left unfinished; None where it could not say so."""
        manifest = self.read_manifest()
        sessions = manifest.get("sessions")
        killed = not sessions or sessions[-1].get("ended") == "killed"
        return None if killed else manifest.get("owed")

    def read_metrics(self) -> dict[str, Any]:
        """The metrics as they were last written, empty where there are none."""
        return _read_json(self.metrics)

    def write_json(self, path: Path, value: Mapping[str, Any]) -> None:
        """Write one of the run's JSON files, whole or not at all."""
        write_whole(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _change(key: str, old: object, new: object) -> str:
    """A key with its values, where they are short enough to help and no hashes."""
    shown = [str(value) for value in (old, new)]
    if any(len(value) > LONGEST_SHOWN or HASH.fullmatch(value) for value in shown):
        return key
    return f"{key} ({shown[0]}, now {shown[1]})"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unreadable(path, error) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> StoreFailed:
    return StoreFailed(f"{path} is damaged: {error}.", "Remove it and run again.")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> StoreFailed:
    return StoreFailed(
        f"Cannot read {path}: {error.strerror}.",
        "Mend its permissions, or set HARNESS_RUNS_DIR to another folder.",
    )


def _failed(path: Path, error: Exception) -> StoreFailed:
    return StoreFailed(
        f"Cannot write {path}: {getattr(error, 'strerror', None) or error}.",
        RUN_REMEDY,
    )


def all_runs(root: Path) -> list[RunFolder]:
    """Every run below a folder, by name; other folders there are left alone."""
    if not _exists(root):
        return []
    runs = []
    for config in sorted(root.glob("*/config.yaml")):
        with contextlib.suppress(ConfigError):  # a copy's odd name must not hide the others
            runs.append(RunFolder(root, config.parent.name))
    return runs


def find_run(root: Path, name: str) -> RunFolder:
    """A run by its name or its folder's path.

    Raises: DataMissing with the nearest name.
    """
    path = Path(name)
    root = path.parent if path.parent.name else root
    folder = RunFolder(root, path.name)
    if not folder.exists():
        names = [run.name for run in all_runs(root)]
        raise DataMissing(
            f"There is no run {path.name!r} in {root}.",
            nearest(path.name, names) if names else "Start one with 'harness run configs/….yaml'.",
        )
    return folder


def run_name(base: str, variant: str) -> str:
    """The name of a variant's run; ``""`` is the run of a file without variants."""
    return f"{base}.{variant}" if variant else base


def fresh_base(root: Path, base: str, variants: Sequence[str] = ("",)) -> str:
    """``BASE``, or the first of ``BASE-2``, ``BASE-3``, … of which no variant's run is there."""
    number, free = 1, base
    while any(RunFolder(root, run_name(free, variant)).path.exists() for variant in variants):
        number += 1
        free = f"{base}-{number}"
    return free
