"""The folder of a run: its files, its lock, and whether it may be continued."""

from __future__ import annotations

import contextlib
import errno
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from uuid import uuid4

import msgspec
import yaml
from filelock import BaseFileLock, FileLock, Timeout

from harness.config.identity import conflicting_keys, key_value
from harness.config.prices import Price
from harness.config.run_file import RunFile, check_name
from harness.config.validation import validate
from harness.config.yaml_text import read_mapping
from harness.errors import ConfigError, RunConflict, StoreFailed, option
from harness.execution import ExecutionRefused, set_code_permission
from harness.plugin_loader import CODE_HASH_PREFIX, drop_removed_options
from harness.records import METRICS_VERSION, SCHEMA_VERSION, Time, budget_account
from harness.store.file_states import ATTEMPTS as ATTEMPTS
from harness.store.file_states import JUDGEMENTS as JUDGEMENTS
from harness.store.file_states import MANIFEST, run_tag, seal_line, write_and_record
from harness.store.files import (
    RUN_REMEDY,
    format_json,
    make_folder,
    read_file,
    write_atomically,
    write_json,
)
from harness.store.json_lines import DECODE_ERRORS, convert_read_errors, read_json, read_lines

CONFIG = "config.yaml"
IMPORTED = "imported"  # backend of another tool's results
JUDGES = "judges.json"
SCORES = "scores.jsonl"  # written by `harness score`
SPENDING, PRICES = "spending.json", "prices.json"
EXTENDS_KEY = (
    "extends"  # in the manifest: whether runs of an evaluation were added to existing ones
)
FRESH_KEY = "fresh"  # in the manifest: the time since which the file's runs have new accounts
PLACE_KEY = "place"  # in the manifest: where the run was made, as the account of its name there
SHARD_KEY = "shard"  # in the manifest: which part of a run the run is, such as 3/16
VARIED_KEY = "varied"  # in the manifest: the keys of the task in which the variants differ
REPORT, ROWS = "report.html", "rows.jsonl"
SYNC_STATE = ".remote.json"  # which files an object store has (`harness sync`)
LABELS = "labels"  # subfolder for the human labels with which judges were validated
REFERENCES = "gold"  # subfolder for references scored by judges, with the layout of a run


class _Session(msgspec.Struct):
    started_at: Time | None = None
    ended_at: Time | None = None


class _Manifest(msgspec.Struct):
    schema_version: int = SCHEMA_VERSION
    id: str = ""
    task: str = ""
    model: str | None = None
    measure: str | None = None
    simulated: bool = False
    samples: int | None = None
    owed: int | None = None
    unanswerable: int = 0
    backend: str | None = None
    place: str = ""
    variant: str | None = None
    variants: list[str] = []
    extends: bool = False
    varied: list[str] | None = None
    fresh: Time | None = None
    shard: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,5}/[0-9]{1,5}$")] | None = None
    packages: dict[str, Any] = {}
    sealed: bool = False
    merged_ids: list[str] = []
    lacking: list[str] | None = None
    repeated: int | None = None
    redraws: dict[str, Any] | None = None
    started_at: Time | None = None
    ended_at: Time | None = None
    fingerprint: dict[str, str] = {}
    files: dict[str, Any] = {}
    sessions: list[_Session] = []


class _Metrics(msgspec.Struct):
    schema_version: int = METRICS_VERSION


class Spending(msgspec.Struct):
    """An upper bound on a run's cost so far in US dollars, and the session that recorded it."""

    session: str = ""
    usd: Annotated[float, msgspec.Meta(gt=-1e-9)] = 0.0  # earlier versions did not round up to 0


class Differences(NamedTuple):
    """How a run file and its inputs have changed since a run started: (old, new) by name."""

    settings: Mapping[str, tuple[object, object]]  # by key of the run file
    inputs: Mapping[str, tuple[str, str]]  # by name in the fingerprint

    def conflict_error(
        self, run: str, *, cached: bool = True, rescorable: bool = False, data: str = "the data"
    ) -> RunConflict:
        """Return the error that names the differences.

        Args:
            run: The run's name.
            cached: Whether a new run gets the model's replies from the cache.
            rescorable: Whether to suggest scoring the answers again.
            data: How to call the data, if they differ.
        """
        problem = f"The run {run!r} was started with different values: "
        changes = [describe_change(key, *values) for key, values in self.settings.items()]
        if not changes:
            problem = f"The run {run!r} was made with another version of "
            changes = [
                describe_input_change(key, *values, data) for key, values in self.inputs.items()
            ]
        remedy = f"For a new run: {option('fresh')}. This one is then kept under a dated name, and "
        remedy += "cached replies cost nothing." if cached else "all calls are made again."
        remedy += f" Or {option('name', 'NEW')}."
        if rescorable:
            rescore = f"To score its answers again and continue with them: {option('rescore')}."
            remedy = f"{rescore} {remedy}"
        return RunConflict(f"{problem}{', '.join(changes)}.", remedy)


class RunFolder:
    """The folder of a run (``runs/NAME``), which need not exist, with the paths of its files.

    Args:
        root: The folder of all runs.
        name: The run's name.

    Raises:
        ConfigError: If the name is invalid.
    """

    def __init__(self, root: Path, name: str) -> None:
        try:
            self.name = check_name(name)
        except ValueError as error:
            remedy = f"Choose another name: {option('name', 'NEW')}."
            raise ConfigError(f"{error}.", remedy) from None
        self.path = root / name
        self.config = self.path / CONFIG
        self.manifest = self.path / MANIFEST
        self.attempts = self.path / ATTEMPTS
        self.metrics = self.path / "metrics.json"
        self.spending = self.path / SPENDING
        self.servers = self.path / "servers"

    def exists(self) -> bool:
        """Return whether the folder holds a run, which may have lost its run file."""
        with convert_read_errors(self.config):
            return self.config.exists() or self.attempts.exists()

    def has_attempts(self) -> bool:
        """Return whether the run has at least one attempt."""
        return self.exists() and any(True for _ in read_lines(self.attempts))

    @contextlib.contextmanager
    def lock(self, *, links: bool = False) -> Iterator[None]:
        """Lock the run in a ``with`` block, and create its folder if it is missing.

        Args:
            links: Whether subfolders may be links.

        Raises:
            RunConflict: If another process is working on the run.
            StoreFailed: If the folder cannot be written, or a newer version has written it.
        """
        lock = self._acquire_lock()
        try:
            with contextlib.suppress(*DECODE_ERRORS, OSError):  # a damaged file is rewritten
                metrics = msgspec.json.decode(read_file(self.metrics), type=_Metrics)
                _check_version(self.metrics, metrics.schema_version, METRICS_VERSION)
            if not links:
                self._check_no_links(REFERENCES, LABELS, self.servers.name)
            yield
        finally:
            lock.release()

    def _acquire_lock(self) -> BaseFileLock:
        try:
            make_folder(self.path)
            lock = FileLock(self.path / ".lock", timeout=0, fallback_to_soft=False)
            lock.acquire()
        except Timeout:
            problem = f"Another process is working on the run {self.name!r}."
            remedy = f"Wait for it, or give this run another name: {option('name', 'NEW')}."
            raise RunConflict(problem, remedy) from None
        except (OSError, NotImplementedError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreFailed(f"Cannot write {self.path}: {reason}.", RUN_REMEDY) from None
        return lock

    def _check_no_links(self, *names: str) -> None:
        """Raise StoreFailed if a file or folder of the run is a link, which may lead anywhere."""
        for path in (self.path / name for name in names):
            if path.is_symlink():
                with convert_read_errors(path):
                    raise OSError(errno.ELOOP, "")

    def read_config(self) -> RunFile:
        """Read the run file of the run's latest session, with all defaults.

        Raises:
            ConfigError: If the file is invalid.
            StoreFailed: If it is missing or a link.
        """
        self._check_no_links(self.config.name, ROWS)
        if not self.config.exists() and self.attempts.exists():
            raise StoreFailed(*missing_config_problem(self.config))
        tree = _drop_former_keys(read_mapping(self.config))
        return validate(RunFile, set_rows_path(tree, self.path), str(self.config))

    def remove(self) -> None:
        """Delete the run's folder, or only the link if it is one."""
        with self.lock(links=True):
            try:
                self.path.unlink() if self.path.is_symlink() else shutil.rmtree(self.path)
            except OSError as error:
                problem = f"Cannot delete {error.filename or self.path}: {error.strerror}."
                raise StoreFailed(problem, "Fix its permissions, then delete the rest.") from None

    def remove_if_empty(self) -> None:
        """Delete the run's folder, unless it has an attempt, a payment or a server's log."""
        if not (self.has_attempts() or self.spending.exists() or self.servers.exists()):
            self.remove()

    def rename(self, name: str) -> RunFolder:
        """Rename the run and its entries in files, and return the new folder.

        Past payments remain attributed to the run.

        Raises:
            RunConflict: If the new name is in use, or another process is working on the run.
            StoreFailed: If the folder cannot be renamed.
        """
        new = RunFolder(self.path.parent, name)
        with self.lock():
            if new.path.exists():
                raise RunConflict(f"{new.path} exists already.", "Choose another name.")
            made_here = self.was_made_here()
            manifest = self.read_manifest() | {"id": self.run_id(), "run": name}
            if made_here:
                manifest[PLACE_KEY] = new.first_account()
            manifest.pop(FRESH_KEY, None)  # the runs with the new name are not replaced
            metrics = read_json(self.metrics, dict[str, Any], "Remove it, then try again.")
            try:
                self.path.rename(new.path)
            except OSError as error:
                problem = f"Cannot rename {self.path}: {error.strerror}."
                raise StoreFailed(problem, RUN_REMEDY) from None
        write_json(new.manifest, manifest)
        (new.path / SYNC_STATE).unlink(missing_ok=True)
        if metrics:
            write_and_record(new.metrics, format_json(metrics | {"run": name}))
        return new

    def differences(
        self,
        run: RunFile,
        fingerprint: Mapping[str, str],
        resolve: Callable[[RunFile], RunFile] = lambda run: run,
    ) -> Differences:
        """Return how a run file and its inputs differ from those of this run.

        Values that may change when a run continues are not compared.

        Args:
            run: The run file.
            fingerprint: Hashes and versions of its inputs, by name.
            resolve: Fills in defaults of plug-ins, which earlier versions did not record.
        """
        old = self.read_config()
        old_inputs = self.read_manifest().get("fingerprint", {})
        # A run's code is not executed. Current versions record the defaults of its options.
        with set_code_permission("refused"), contextlib.suppress(ExecutionRefused):
            old = resolve(old)
        inputs: dict[str, tuple[str, str]] = {}
        for name, new_input in fingerprint.items():
            if old_inputs.get(name, new_input) != new_input:
                inputs[name] = (old_inputs[name], new_input)
        settings = {
            key: (key_value(old, key), key_value(run, key)) for key in conflicting_keys(old, run)
        }
        return Differences(settings, inputs)

    def write_config(self, run: RunFile) -> None:
        """Write the run file, with all defaults, to the folder."""
        # ASCII with escapes: PyYAML cannot read back every character that it writes unescaped.
        text = yaml.safe_dump(run.model_dump(mode="json"), sort_keys=False)
        write_atomically(self.config, text.encode())

    def read_manifest(self) -> dict[str, Any]:
        """Read the run's manifest ({} if it is missing).

        Raises:
            StoreFailed: If the manifest is damaged, or a newer version has written it.
        """
        remedy = f"Restore it, or start a new run: {option('fresh')}. Cached replies cost nothing."
        manifest = read_json(self.manifest, dict[str, Any], remedy)
        version = manifest.get("schema_version")
        if isinstance(version, int):  # checked first: other fields may have changed
            _check_version(self.manifest, version, SCHEMA_VERSION)
        try:
            msgspec.convert(manifest, _Manifest)
        except msgspec.ValidationError as error:
            raise StoreFailed(f"{self.manifest} is damaged: {error}.", remedy) from None
        return manifest

    def update_manifest(self, entries: Mapping[str, Any]) -> None:
        """Replace or add entries of the manifest.

        Raises:
            RunConflict: If another process is working on the run.
        """
        with self.lock():
            write_json(self.manifest, {**self.read_manifest(), **entries})

    def run_id(self) -> str:
        """Return the run's id, or a new one if the folder has no manifest yet.

        A new id is random except for the account (`budget_account`), to which payments are booked.
        A new run with the name of a deleted run is therefore another run, but its budget includes
        what the deleted run has spent. The account is a hash of the path and the machine's name,
        because runs on two machines of a team may have the same path. If the manifest has no id
        (version 0.1.0), the id is a hash of the path.
        """
        manifest = self.read_manifest()
        if run_id := manifest.get("id"):
            return str(run_id)
        if manifest:
            return _path_hash(str(self.path.absolute()))
        return new_run_id(self.first_account())

    def first_account(self) -> str:
        """Return the account of the first run with this path on this machine."""
        return _path_hash(f"{platform.node()} {self.path.absolute()}")

    def was_made_here(self) -> bool:
        """Return whether the run was made on this machine, in this folder.

        A run that was copied or downloaded from elsewhere was not. Earlier versions recorded only
        the account of a run's name.
        """
        manifest = self.read_manifest()
        account = manifest.get(PLACE_KEY) or budget_account(manifest.get("id", ""))
        return bool(account == self.first_account())

    def line_sealer(self) -> Callable[[bytes], bytes]:
        """Return a function that adds the run's seal to a line (`seal_line`)."""
        return partial(seal_line, tag=run_tag(self.run_id()))

    def read_spending(self) -> Spending:
        """Read the recorded upper bound on the run's cost (0 if none is recorded)."""
        remedy = "Remove it: the cost is then taken from the run's attempts and the cache."
        return read_json(self.spending, Spending, remedy)

    def write_spending(self, session: str, usd: float) -> None:
        """Record an upper bound on the run's cost in US dollars, and the session's id."""
        write_json(self.spending, Spending(session, usd))

    def write_prices(self, prices: Mapping[str, Price]) -> None:
        """Add or replace prices of models, by the key of their section in the run file."""
        old_prices = read_prices(self.path)
        new_prices = {**old_prices, **prices}
        if new_prices != old_prices:
            tree = {}
            for key, price in new_prices.items():
                tree[key] = price.model_dump(exclude_defaults=True)
            write_and_record(self.path / PRICES, format_json(tree))

    def progress(self, manifest: Mapping[str, Any] | None = None) -> tuple[bool, int | None]:
        """Return whether the run is complete, and its number of samples (None: unknown).

        ``manifest`` is the run's manifest (default: it is read).
        """
        manifest = self.read_manifest() if manifest is None else manifest
        n_samples = manifest.get("samples")
        is_complete = n_samples is not None and manifest.get("owed") == 0
        return is_complete, n_samples

    def count_unfinished(self, manifest: Mapping[str, Any] | None = None) -> int | None:
        """Return the number of unfinished samples, or None during a session or after a kill.

        ``manifest`` is the run's manifest (default: it is read).
        """
        manifest = self.read_manifest() if manifest is None else manifest
        sessions = manifest.get("sessions") or [{"ended": "killed"}]
        if sessions[-1].get("ended") == "killed":
            return None
        return manifest.get("owed")


def _drop_former_keys(tree: dict[str, Any]) -> dict[str, Any]:
    """Remove keys that earlier versions recorded, and this version does not have, in place."""
    if isinstance(task := tree.get("task"), dict):
        tree["task"] = drop_removed_options(task)
    if isinstance(judges := tree.get("judges"), list):
        tree["judges"] = [
            drop_removed_options(judge) if isinstance(judge, dict) else judge for judge in judges
        ]
    if isinstance(model := tree.get("model"), dict):
        # Earlier versions had no such keys: these values are options of the user's backend.
        if model.get("cache", "run") not in ("shared", "run", False):
            del model["cache"]
        if not isinstance(model.get("version", ""), str):
            del model["version"]
    return tree


def new_run_id(account: str) -> str:
    """Return a new id of a run whose payments are booked to an account (`budget_account`)."""
    return f"{account}.{uuid4().hex[:16]}"


def _path_hash(path: str) -> str:
    return blake2b(path.encode(errors="surrogateescape"), digest_size=16).hexdigest()


def references_folder(folder: RunFolder) -> RunFolder:
    """Return the folder of a run's judged references, which may not exist."""
    return RunFolder(folder.path, REFERENCES)


def set_rows_path(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a recorded run file in which the task reads the run's copy of its rows, if any."""
    task = tree.get("task")
    if not isinstance(task, dict):
        return tree
    if task.get("rows") == ROWS:
        options = {key: value for key, value in task.items() if key != "rows"}
        return {**tree, "task": {**options, "path": str(folder / ROWS)}}
    if tree.get("folder") == ".":  # an earlier version recorded no other folder for such a run
        return {**tree, "folder": None, "task": {**task, "path": str(folder / ROWS)}}
    return tree


def missing_config_problem(path: Path) -> tuple[str, str]:
    """Return the problem and the remedy if a run has lost its run file."""
    problem = f"{path} is missing: what the run's attempts stand for is unknown."
    remedy = f"Restore it, or start a new run: {option('fresh')}. Cached replies cost nothing."
    return problem, remedy


def read_prices(folder: Path) -> dict[str, Price]:
    """Return the prices recorded in a run's folder, by the key of the model's section."""
    path = folder / PRICES
    sections = read_json(path, dict[str, Any], "Remove it and run again.")
    return {key: validate(Price, section, str(path)) for key, section in sections.items()}


def _check_version(path: Path, version: int, known_version: int) -> None:
    if version > known_version:
        problem = f"{path}: schema version {version} is newer than {known_version}, "
        raise StoreFailed(
            f"{problem}which this harness knows.",
            f"Use the version of the harness that wrote it, or start a new run: {option('fresh')}.",
        )


HASH_SUFFIX = "_sha256"
_INPUT_DESCRIPTIONS = {
    "checks": "the checks",
    "decoding": "the decoding parameters",
    "shots": "the shots",
}
_INPUT_DESCRIPTIONS["recording"] = "the recording"
_INPUT_DESCRIPTIONS |= dict.fromkeys(("prompt", "template"), "the prompts")
"""Descriptions of names in a fingerprint. Other names are those of files and plug-ins."""


def describe_change(key: str, old: object, new: object) -> str:
    """Describe a setting's change, or return its key if values are long, hashes or sections."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return key
    text = f"{key} ({old}, now {new})"
    return key if len(text) > 400 or re.search(r"[0-9a-f]{16}", text) else text


def describe_input_change(key: str, old: str, new: str, data: str = "the data") -> str:
    """Describe the change of an entry in a fingerprint, without hashes.

    ``data`` is the name to use for the data.
    """
    if key.endswith(HASH_SUFFIX):
        name = input_name(key)
        return {**_INPUT_DESCRIPTIONS, "dataset": data, "documents": data}.get(name, name)
    return describe_change(key, old, new)


def input_name(key: str) -> str:
    """Return the name of a hashed input, such as ``./mine.py``, by its key in a fingerprint."""
    return key.removeprefix(CODE_HASH_PREFIX).removesuffix(HASH_SUFFIX)


def rehashed_inputs(earlier: Mapping[str, str], later: Mapping[str, str]) -> list[str]:
    """Return the names of code that an ``earlier`` fingerprint hashed in another way.

    Earlier versions of the harness used keys without `CODE_HASH_PREFIX` for this. Whether the code
    has changed since is unknown.
    """
    code_keys = [key for key in later if key.startswith(CODE_HASH_PREFIX)]
    return [input_name(key) for key in code_keys if key.removeprefix(CODE_HASH_PREFIX) in earlier]
