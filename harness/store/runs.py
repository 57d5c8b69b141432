"""The folder of all runs: the names of runs, and how to find them."""

import contextlib
import logging
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

from harness.config.run_file import Shard, parse_shard
from harness.errors import ConfigError, DataMissing, StoreFailed, suggest_name
from harness.store.files import RUN_FILES, make_folder, write_json
from harness.store.json_lines import convert_read_errors
from harness.store.run_folder import EXTENDS_KEY, FRESH_KEY, REPORT, SHARD_KEY, RunFolder

logger = logging.getLogger("harness")


def all_runs(root: Path) -> list[RunFolder]:
    """Return the runs in a folder, sorted by name. Other subfolders are ignored."""
    with convert_read_errors(root):
        paths = sorted(root.iterdir()) if root.exists() else []
    runs = []
    for path in paths:
        with contextlib.suppress(ConfigError):  # an invalid name must not hide the others
            run = RunFolder(root, path.name)
            with contextlib.suppress(StoreFailed):  # other readers report that it is unreadable
                if not run.exists():
                    continue
            runs.append(run)
    return runs


def run_path(root: Path, name: str) -> Path:
    """Return the path of a run's folder, which need not exist.

    Args:
        root: The folder of all runs.
        name: The run's name, the path of its folder or run file, or that of a file in its folder.
            ``./NAME`` and ``NAME/`` are a folder in the current folder if that holds a run, and
            otherwise in ``root``.
    """
    path = Path(name)
    is_path = "/" in name or os.sep in name
    if path.name in (*RUN_FILES, REPORT) and (path.parent / "manifest.json").exists():
        path = path.parent
    if path.name in ("", ".."):
        path = path.resolve()
    has_no_folder = not (path.parent.name or path.is_absolute())
    if has_no_folder and not (is_path and _has_manifest(path)):
        path = root / path.name
    is_run_file = path.suffix in (".yaml", ".yml") and not path.is_dir()
    return root / path.stem if is_run_file else path


def _has_manifest(path: Path) -> bool:
    return (path / "manifest.json").is_file()


def find_run(
    root: Path, name: str, *, listed: Collection[str] | None = None, removed: bool = False
) -> RunFolder:
    """Return an existing run.

    Args:
        root: The folder of all runs.
        name: As in `run_path`, or a run file with variants of which only one has been run.
        listed: As in `find_variants`.
        removed: As in `find_variants`.

    Raises:
        DataMissing: If there is no such run. The remedy suggests a name, if possible.
        ConfigError: If the name is invalid.
    """
    path = run_path(root, name)
    root = path.parent
    folder = RunFolder(root, path.name)
    if folder.exists():
        return folder
    runs = all_runs(root)
    variants, former = _find_file_runs(runs, path.name, listed)
    if removed:
        variants += former
    named_variants = [run for run in variants if run.read_manifest().get("variant")]
    any_lost = any(not run.read_manifest() for run in variants)  # maybe those of other variants
    if len(named_variants) == 1 and not any_lost:
        if not removed:
            _warn_of_omitted_runs(path.name, former, from_last_run=listed is None)
        return named_variants[0]
    raise _missing_run(path, runs, former)


def _missing_run(
    path: Path, runs: Sequence[RunFolder], former: Collection[RunFolder]
) -> DataMissing:
    """Return the error for a path without a run, which suggests names of ``runs``."""
    problem = f"There is no run {path.name!r} in {path.parent}"
    suffixed = [run for run in runs if run.name.startswith(f"{path.name}.")]
    if not suffixed:
        local_path = Path(path.name)
        if _has_manifest(local_path) and local_path.resolve() != path.resolve():
            remedy = f"The current folder has a run of this name: write .{os.sep}{local_path}"
            return DataMissing(f"{problem}.", remedy)
        remedy = suggest_name(path.name, {run.name for run in runs} | _base_names(runs))
        return DataMissing(f"{problem}.", remedy or "Start one with 'harness run configs/….yaml'.")
    former_names = {run.name for run in former}
    choices = [run for run in suffixed if run.name not in former_names] or suffixed
    names = ", ".join(run.name for run in choices)
    return DataMissing(f"{problem}, but runs named '{path.name}.…'.", f"Name one of them: {names}.")


def run_name(base: str, variant: str) -> str:
    """Return the name of a variant's run: ``BASE.VARIANT``, or ``BASE`` without a variant."""
    return f"{base}.{variant}" if variant else base


def base_name(run: RunFolder, variant: str | None = None) -> str:
    """Return a run's name without its variant (None: the recorded variant)."""
    if variant is None:
        variant = run.read_manifest().get("variant")
    return run.name.removesuffix(f".{variant}") if variant else run.name


def runs_of_file(root: Path, base: str) -> dict[str, RunFolder]:
    """Return the existing runs of a file by variant, including variants that it no longer has."""
    runs: dict[str, RunFolder] = {}
    for run in all_runs(root):
        if run.name == base or run.name.startswith(f"{base}."):
            variant = run.read_manifest().get("variant") or ""
            if run.name == run_name(base, variant):
                runs[variant] = run
    return runs


def shard_base_name(base: str, shard: Shard) -> str:
    """Return the base name of a shard's runs: ``BASE-3of16``."""
    return f"{base}-{shard.number}of{shard.n_shards}"


def runs_of_shards(root: Path, base: str) -> dict[str, list[RunFolder]]:
    """Return the existing runs of a file's shards, by the base name of each shard's runs."""
    runs: dict[str, list[RunFolder]] = {}
    pattern = re.compile(rf"({re.escape(base)}-\d+of\d+)(\..+)?")
    for run in all_runs(root):
        if match := pattern.fullmatch(run.name):
            manifest = run.read_manifest()
            recorded = manifest.get(SHARD_KEY)
            if manifest and SHARD_KEY not in manifest:  # an earlier version
                recorded = run.read_config().shard
            shard = parse_shard(recorded)
            if shard and match[1] == shard_base_name(base, shard) and base_name(run) == match[1]:
                runs.setdefault(match[1], []).append(run)
    return runs


def to_run_name(text: str) -> str:
    """Replace characters that a run's name cannot contain by hyphens.

    Of the path of a Python file, only the file's stem is used.

    >>> to_run_name("ollama/llama3.2:3b"), to_run_name("./app.py")
    ('ollama-llama3.2-3b', 'app')
    """
    return re.sub(r"[^\w.-]", "-", Path(text).stem if text.endswith(".py") else text)


def unused_base(root: Path, base: str, variants: Sequence[str] = ("",)) -> str:
    """Return the first of BASE, BASE-2, … that no run of one of the ``variants`` uses."""
    number = 1
    candidate = base
    while any(RunFolder(root, run_name(candidate, variant)).path.exists() for variant in variants):
        number += 1
        candidate = f"{base}-{number}"
    return candidate


@contextlib.contextmanager
def move_runs_aside(
    root: Path, base: str, variants: Collection[str], *, removed: bool = True
) -> Iterator[str]:
    """Rename the runs of a run file, so that new runs can have their names.

    ``BASE.VARIANT`` becomes ``BASE-DATE.VARIANT``. If the ``with`` block raises an exception, the
    names are restored.

    Args:
        root: The folder of all runs.
        base: The runs' name without the variant.
        variants: The variants whose runs are renamed.
        removed: Whether runs of variants that the file no longer has are renamed too.

    Yields:
        The new name of the runs, without the variant, or "" if there was no run.
    """
    runs = {variant: RunFolder(root, run_name(base, variant)) for variant in variants}
    if removed:
        runs |= runs_of_file(root, base)
    dated_base = unused_base(root, f"{base}-{time.strftime('%Y%m%d-%H%M%S')}", list(runs))
    renamed: list[tuple[RunFolder, RunFolder]] = []
    try:
        for variant, run in runs.items():
            if run.exists():
                renamed.append((run, run.rename(run_name(dated_base, variant))))
        for run, _ in renamed:  # a new id: payments for the renamed run are not the new run's
            make_folder(run.path)
            write_json(
                run.manifest, {"id": uuid4().hex, FRESH_KEY: time.time() if removed else 0.0}
            )
        yield dated_base if renamed else ""
    except BaseException:
        for run, new in renamed:
            if run.path.exists():
                shutil.rmtree(run.path)
            new.rename(run.name)
        raise


def find_runs(
    root: Path, name: str, *, listed: Collection[str] | None = None, removed: bool = False
) -> list[RunFolder]:
    """Return the run with a name, or the runs of the variants of the run file with this name.

    The arguments are as in `find_run` and `find_variants`.

    Raises:
        DataMissing: If there are no such runs.
    """
    try:
        return [find_run(root, name, listed=listed, removed=removed)]
    except DataMissing as missing:
        try:
            return find_variants(root, name, listed=listed, removed=removed)
        except DataMissing:
            raise missing from None


def find_variants(
    root: Path, name: str, *, listed: Collection[str] | None = None, removed: bool = False
) -> list[RunFolder]:
    """Return the runs of a file's variants, in the order of the file or else of their start.

    Args:
        root: The folder of all runs.
        name: The run file's name, or the path of the runs' folders without the variant.
        listed: The names of the file's runs (default: those that it had when it was last run).
        removed: Whether to include runs of variants that the file no longer has. Otherwise, a
            warning names them.

    Raises:
        DataMissing: If there are fewer than two such runs.
    """
    path = run_path(root, name)
    root = path.parent
    runs = all_runs(root)
    variants, former = _find_file_runs(runs, path.name, listed)
    if removed:
        variants += former
    else:
        _warn_of_omitted_runs(path.name, former, from_last_run=listed is None)
    if len(variants) > 1:
        return variants
    remedy = ""
    if any(run.name == path.name for run in runs):
        problem = f"The run {path.name!r} has no variants: there is nothing to compare it with."
    else:
        existing = f"no run {run_name(path.name, 'VARIANT')}"
        if variants:
            existing = f"only one run {variants[0].name}"
        problem = f"There is {existing} in {root}: nothing to compare."
        remedy = suggest_name(path.name, _base_names(runs) - {path.name})
    start = "Start runs of a file with variants or a matrix (harness docs run-files)."
    raise DataMissing(problem, remedy or start)


def _find_file_runs(
    runs: Iterable[RunFolder], base: str, listed: Collection[str] | None
) -> tuple[list[RunFolder], list[RunFolder]]:
    """Return the runs of a file's variants, and those of variants that it no longer has."""
    file_runs = [
        run for run in runs if run.name.startswith(f"{base}.") and _may_belong_to(run, base)
    ]
    if listed is None:
        variants = _current_runs(file_runs)
    else:
        by_name = {run.name: run for run in file_runs}
        variants = [by_name[name] for name in listed if name in by_name]
    former = [run for run in file_runs if run not in variants]
    return variants, former


def _warn_of_omitted_runs(base: str, runs: Sequence[RunFolder], *, from_last_run: bool) -> None:
    """Warn of runs of variants that a run file lacks.

    With ``from_last_run``, the variants are those that it had when it was last run.
    """
    if not runs:
        return
    names = ", ".join(run.name for run in runs)
    reason = "has no such variant"
    if from_last_run:
        reason = "had no such variant when it was last run"
    logger.warning(f"Left out: {names}. The file of {base!r} {reason}. To include a run, name it.")


def missing_runs(root: Path, name: str) -> list[str]:
    """Return the names of a file's or evaluation's runs that do not exist.

    The runs are those that it had when it was last run. ``name`` is as in `find_variants`. If it is
    the name of a run, none is missing.
    """
    path = run_path(root, name)
    root = path.parent
    if RunFolder(root, path.name).exists():
        return []
    prefix = f"{path.name}."
    latest_manifest: Mapping[str, Any] = {}
    latest_start = 0.0
    base = ""
    for run in all_runs(root):
        if run.name.startswith(prefix) and _may_belong_to(run, path.name):
            manifest = run.read_manifest()
            start = latest_session_start(manifest)
            if manifest.get("variants") and start >= latest_start:
                latest_manifest = manifest
                latest_start = start
                base = base_name(run)
    missing: list[str] = []
    for variant in latest_manifest.get("variants", ()):
        expected = run_name(base, variant)
        with contextlib.suppress(ConfigError):  # a foreign manifest may have any text
            if expected.startswith(prefix) and not _is_variant(RunFolder(root, expected), variant):
                missing.append(expected)
    return missing


def _is_variant(run: RunFolder, variant: str) -> bool:
    """Return whether a run exists and is of this variant, rather than a copy of another run."""
    return run.exists() and run.read_manifest().get("variant") in (variant, None)


def _current_runs(runs: Iterable[RunFolder]) -> list[RunFolder]:
    """Return the runs of the variants that their file had when one of them was last run."""
    manifests = {run: run.read_manifest() for run in runs}
    latest_manifest = max(manifests.values(), key=latest_session_start, default={})
    listed: list[str] = latest_manifest.get("variants") or []  # none: an earlier version
    if latest_manifest.get(EXTENDS_KEY):  # an evaluation's earlier runs remain part of it
        listed = []

    def is_listed(run: RunFolder) -> bool:
        return manifests[run].get("variant") in listed

    def sort_key(run: RunFolder) -> tuple[float, float, str]:
        manifest = manifests[run]
        position = listed.index(manifest["variant"]) if is_listed(run) else inf
        return position, manifest.get("started_at") or inf, run.name

    without_variant = {run for run, manifest in manifests.items() if not manifest.get("variant")}
    in_order = sorted(manifests, key=sort_key)
    return [run for run in in_order if is_listed(run) or run in without_variant or not listed]


def latest_session_start(manifest: Mapping[str, Any]) -> float:
    """Return the Unix time at which a run's latest session started (0: it has had none)."""
    sessions = manifest.get("sessions", ())
    return max((session.get("started_at") or 0.0 for session in sessions), default=0.0)


def _base_names(runs: Iterable[RunFolder]) -> set[str]:
    """Return the names of run files, as far as the names of their runs reveal them."""
    return {run.name.partition(".")[0] for run in runs if "." in run.name}


def _may_belong_to(run: RunFolder, base: str) -> bool:
    """Return whether a run ``BASE.…`` may belong to the file ``base`` rather than to ``BASE.X``."""
    variant = run.read_manifest().get("variant") or ""
    if not variant:  # named by hand, or by a version that did not record variants
        return True
    file_base = run.name.removesuffix(f".{variant}")
    return file_base != run.name and (base == file_base or base.startswith(f"{file_base}."))
