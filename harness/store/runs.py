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
    """Return the runs in a folder, sorted by name. Other folders are ignored."""
    with convert_read_errors(root):
        paths = sorted(root.iterdir()) if root.exists() else []
    runs = []
    for path in paths:
        with contextlib.suppress(ConfigError):  # an invalid name must not hide the others
            run = RunFolder(root, path.name)
            with contextlib.suppress(StoreFailed):  # its readers say that it is unreadable
                if not run.exists():
                    continue
            runs.append(run)
    return runs


def run_path(root: Path, name: str) -> Path:
    """Return the path of a run's folder, which need not exist.

    ``name`` is the run's name, the path of its folder or run file, or the path of a file in its
    folder. ``root`` is the folder of all runs. ``./NAME`` and ``NAME/`` are a run's folder in the
    current folder if it has one, otherwise in ``root``.
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

    ``name`` is as in `run_path`, or a run file with variants of which only one has been run.
    ``listed`` and ``removed`` are as in `find_variants`.

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
    of_file = [run for run in variants if run.read_manifest().get("variant")]
    if len(of_file) == 1:
        if not removed:
            _warn_of_former_runs(path.name, former, listed)
        return of_file[0]
    problem = f"There is no run {path.name!r} in {root}"
    below = [run for run in runs if run.name.startswith(f"{path.name}.")]
    if not below:
        here = Path(path.name)
        if _has_manifest(here) and here.resolve() != path.resolve():
            remedy = f"The current folder has a run of this name: write .{os.sep}{here}"
            raise DataMissing(f"{problem}.", remedy)
        remedy = suggest_name(path.name, {run.name for run in runs} | _base_names(runs))
        raise DataMissing(f"{problem}.", remedy or "Start one with 'harness run configs/….yaml'.")
    former_names = {run.name for run in former}
    choices = [run for run in below if run.name not in former_names] or below
    names = ", ".join(run.name for run in choices)
    raise DataMissing(f"{problem}, but runs named '{path.name}.…'.", f"Name one of them: {names}.")


def run_name(base: str, variant: str) -> str:
    """Return the name of a variant's run: ``BASE.VARIANT``, or ``BASE`` without a variant."""
    return f"{base}.{variant}" if variant else base


def base_name(run: RunFolder, variant: str | None = None) -> str:
    """Return a run's name without its variant (default: the recorded one)."""
    if variant is None:
        variant = run.read_manifest().get("variant")
    return run.name.removesuffix(f".{variant}") if variant else run.name


def runs_of_file(root: Path, base: str) -> dict[str, RunFolder]:
    """Return the existing runs of a file by variant, also of variants that it no longer has."""
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
    form = re.compile(rf"({re.escape(base)}-\d+of\d+)(\..+)?")
    for run in all_runs(root):
        if match := form.fullmatch(run.name):
            manifest = run.read_manifest()
            recorded = manifest.get(SHARD_KEY)
            if manifest and SHARD_KEY not in manifest:  # an earlier version
                recorded = run.read_config().shard
            part = parse_shard(recorded)
            if part and match[1] == shard_base_name(base, part) and base_name(run) == match[1]:
                runs.setdefault(match[1], []).append(run)
    return runs


def to_run_name(text: str) -> str:
    """Return text with hyphens in place of characters that a run's name cannot contain.

    For the path of a Python file, only the file's stem is used.

    >>> to_run_name("ollama/llama3.2:3b"), to_run_name("./app.py")
    ('ollama-llama3.2-3b', 'app')
    """
    return re.sub(r"[^\w.-]", "-", Path(text).stem if text.endswith(".py") else text)


def unused_base(root: Path, base: str, variants: Sequence[str] = ("",)) -> str:
    """Return the first of BASE, BASE-2, … that no run of the ``variants`` has."""
    number = 1
    free = base
    while any(RunFolder(root, run_name(free, variant)).path.exists() for variant in variants):
        number += 1
        free = f"{base}-{number}"
    return free


@contextlib.contextmanager
def move_runs_aside(
    root: Path, base: str, variants: Collection[str], *, removed: bool = True
) -> Iterator[str]:
    """Rename the runs of a run file, so that new runs can have their names.

    ``BASE.VARIANT`` becomes ``BASE-DATE.VARIANT``. If the ``with`` block raises an error, the
    earlier runs get their names back.

    Args:
        root: The folder of all runs.
        base: The runs' name without the variant.
        variants: The variants whose runs are renamed.
        removed: Whether runs of variants that the file no longer has are renamed too.

    Yields:
        The new name of the runs, without the variant, or "" if there was no run.
    """
    before = {variant: RunFolder(root, run_name(base, variant)) for variant in variants}
    if removed:
        before |= runs_of_file(root, base)
    dated = unused_base(root, f"{base}-{time.strftime('%Y%m%d-%H%M%S')}", list(before))
    renamed: list[tuple[RunFolder, RunFolder]] = []
    try:
        for variant, run in before.items():
            if run.exists():
                renamed.append((run, run.rename(run_name(dated, variant))))
        for run, _ in renamed:  # payments for the earlier run are not the new one's
            make_folder(run.path)
            write_json(
                run.manifest, {"id": uuid4().hex, FRESH_KEY: time.time() if removed else 0.0}
            )
        yield dated if renamed else ""
    except BaseException:
        for run, new in renamed:
            if run.path.exists():
                shutil.rmtree(run.path)
            new.rename(run.name)
        raise


def find_runs(
    root: Path, name: str, *, listed: Collection[str] | None = None, removed: bool = False
) -> list[RunFolder]:
    """Return the named run, or the runs of the named run file's variants.

    ``listed`` and ``removed`` are as in `find_variants`.
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

    ``name`` is the run file's name, or the path of the runs' folders without the variant.
    ``listed`` are the names of the file's runs (default: those that it had when it was last run).
    ``removed`` says whether to include runs of variants that the file no longer has. Otherwise, a
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
        _warn_of_former_runs(path.name, former, listed)
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
    of_file = [run for run in runs if run.name.startswith(f"{base}.") and _may_belong_to(run, base)]
    if listed is None:
        variants = _current_runs(of_file)
    else:
        by_name = {run.name: run for run in of_file}
        variants = [by_name[name] for name in listed if name in by_name]
    return variants, [run for run in of_file if run not in variants]


def _warn_of_former_runs(
    base: str, runs: Sequence[RunFolder], listed: Collection[str] | None
) -> None:
    if not runs:
        return
    names = ", ".join(run.name for run in runs)
    reason = "has no such variant"
    if listed is None:
        reason = "had no such variant when it was last run"
    logger.warning(f"Left out: {names}. The file of {base!r} {reason}. To include a run, name it.")


def missing_runs(root: Path, name: str) -> list[str]:
    """Return the names of runs that ``name`` stands for, but that do not exist.

    ``name`` is as in `find_variants`. The runs are those that the file, or the evaluation, had when
    it was last run. If ``name`` is that of a run, none is missing.
    """
    path = run_path(root, name)
    root = path.parent
    if RunFolder(root, path.name).exists():
        return []
    prefix = f"{path.name}."
    last: Mapping[str, Any] = {}
    base = ""
    for run in all_runs(root):
        if run.name.startswith(prefix) and _may_belong_to(run, path.name):
            manifest = run.read_manifest()
            if manifest.get("variants") and latest_session_start(manifest) >= latest_session_start(
                last
            ):
                last = manifest
                base = base_name(run)
    missing: list[str] = []
    for variant in last.get("variants", ()):
        expected = run_name(base, variant)
        with contextlib.suppress(ConfigError):  # a foreign manifest may have any text
            if expected.startswith(prefix) and not _is_variant(RunFolder(root, expected), variant):
                missing.append(expected)
    return missing


def _is_variant(run: RunFolder, variant: str) -> bool:
    """Return whether a run exists and is one of this variant, rather than a copy of another."""
    return run.exists() and run.read_manifest().get("variant") in (variant, None)


def _current_runs(runs: Iterable[RunFolder]) -> list[RunFolder]:
    """Return the runs of the variants that their file had when one of them was last worked on."""
    manifests = {run: run.read_manifest() for run in runs}
    last = max(manifests.values(), key=latest_session_start, default={})
    listed: list[str] = last.get("variants") or []  # none: an earlier version
    if last.get(EXTENDS_KEY):  # an evaluation's earlier runs remain part of it
        listed = []

    def is_listed(run: RunFolder) -> bool:
        return manifests[run].get("variant") in listed

    def order(run: RunFolder) -> tuple[float, float, str]:
        manifest = manifests[run]
        place = listed.index(manifest["variant"]) if is_listed(run) else inf
        return place, manifest.get("started_at") or inf, run.name

    has_no_variant = {run for run, manifest in manifests.items() if not manifest.get("variant")}
    in_order = sorted(manifests, key=order)
    return [run for run in in_order if is_listed(run) or run in has_no_variant or not listed]


def latest_session_start(manifest: Mapping[str, Any]) -> float:
    """Return when a run's latest session started, or 0 if it has had none."""
    sessions = manifest.get("sessions", ())
    return max((session.get("started_at") or 0.0 for session in sessions), default=0.0)


def _base_names(runs: Iterable[RunFolder]) -> set[str]:
    """Return names that may stand for the runs of several variants."""
    return {run.name.partition(".")[0] for run in runs if "." in run.name}


def _may_belong_to(run: RunFolder, base: str) -> bool:
    """Return whether a run ``BASE.…`` may belong to the file ``base`` rather than to ``BASE.X``."""
    variant = run.read_manifest().get("variant") or ""
    if not variant:  # named by hand, or by a version that did not record variants
        return True
    file = run.name.removesuffix(f".{variant}")
    return file != run.name and (base == file or base.startswith(f"{file}."))
