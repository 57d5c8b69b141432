"""The folder of all runs: the names of runs, and how to find them."""

import contextlib
import logging
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

from harness.config.run_file import Shard
from harness.errors import ConfigError, DataMissing, StoreFailed, nearest
from harness.store.files import RUN_FILES, make_folder, write_json
from harness.store.json_lines import reading
from harness.store.run_folder import REPORT, RunFolder

logger = logging.getLogger("harness")


def all_runs(root: Path) -> list[RunFolder]:
    """Return the runs in a folder, sorted by name. Other folders are ignored."""
    with reading(root):
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


def run_path(root: Path, named: str) -> Path:
    """Return the path of a run's folder, which need not exist.

    ``named`` is the run's name, the path of its folder or run file, or the path of a file in its
    folder. ``root`` is the folder of all runs.
    """
    path = Path(named)
    if path.name in (*RUN_FILES, REPORT) and (path.parent / "manifest.json").exists():
        path = path.parent
    if path.name in ("", ".."):
        path = path.resolve()
    if not (path.parent.name or path.is_absolute()):
        path = root / path.name
    is_run_file = path.suffix in (".yaml", ".yml") and not path.is_dir()
    return root / path.stem if is_run_file else path


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
    if not folder.exists():
        runs = all_runs(root)
        found, others = _variants(runs, path.name, listed)
        found += others * removed
        of_file = [run for run in found if run.read_manifest().get("variant")]
        if len(of_file) == 1:
            _say_left_out(path.name, [] if removed else others, listed)
            return of_file[0]
        if below := [run.name for run in runs if run.name.startswith(f"{path.name}.")]:
            problem = f"There is no run {path.name!r} in {root}, but runs named '{path.name}.…'."
            names = [one for one in below if one not in {run.name for run in others}] or below
            raise DataMissing(problem, f"Name one of them: {', '.join(names)}.")
        problem = f"There is no run {path.name!r} in {root}."
        remedy = nearest(path.name, {run.name for run in runs} | _bases(runs))
        raise DataMissing(problem, remedy or "Start one with 'harness run configs/….yaml'.")
    return folder


def run_name(base: str, variant: str) -> str:
    """Return the name of a variant's run: ``BASE.VARIANT``, or ``BASE`` without a variant."""
    return f"{base}.{variant}" if variant else base


def shard_base(base: str, shard: Shard) -> str:
    """Return the base name of a shard's runs: ``BASE-3of16``."""
    return f"{base}-{shard.number}of{shard.of}"


def in_run_name(text: str) -> str:
    """Return text with hyphens in place of characters that a run's name cannot contain.

    For the path of a Python file, only the file's stem is used.

    >>> in_run_name("ollama/llama3.2:3b"), in_run_name("./app.py")
    ('ollama-llama3.2-3b', 'app')
    """
    return re.sub(r"[^\w.-]", "-", Path(text).stem if text.endswith(".py") else text)


def fresh_base(root: Path, base: str, variants: Sequence[str] = ("",)) -> str:
    """Return the first of BASE, BASE-2, … that no run of the ``variants`` has."""
    number, free = 1, base
    while any(RunFolder(root, run_name(free, variant)).path.exists() for variant in variants):
        number += 1
        free = f"{base}-{number}"
    return free


@contextlib.contextmanager
def set_aside(
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
    for run in all_runs(root) if removed else ():
        variant = run.read_manifest().get("variant") or ""
        if run.name == run_name(base, variant):
            before[variant] = run
    kept = fresh_base(root, f"{base}-{time.strftime('%Y%m%d-%H%M%S')}", list(before))
    renamed: list[tuple[RunFolder, RunFolder]] = []
    try:
        for variant, run in before.items():
            if run.exists():
                renamed.append((run, run.rename(run_name(kept, variant))))
        for run, _ in renamed:  # payments for the earlier run are not the new one's
            make_folder(run.path)
            write_json(run.manifest, {"id": uuid4().hex})
        yield kept if renamed else ""
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
    prefix = run_name(path.name, "?").removesuffix("?")
    found, others = _variants(runs, path.name, listed)
    if removed:
        found += others
    else:
        _say_left_out(path.name, others, listed)
    if len(found) < 2:
        existing = f"only one run {found[0].name}" if found else f"no run {prefix}VARIANT"
        said, remedy = f"There is {existing} in {root}: nothing to compare.", ""
        if any(run.name == path.name for run in runs):
            said = f"The run {path.name!r} has no variants: there is nothing to compare it with."
        else:
            remedy = nearest(path.name, _bases(runs) - {path.name})
        remedy = (
            remedy or "Start runs of a file with variants or a matrix (harness docs run-files)."
        )
        raise DataMissing(said, remedy)
    return found


def _variants(
    runs: Iterable[RunFolder], base: str, listed: Collection[str] | None
) -> tuple[list[RunFolder], list[RunFolder]]:
    """Return the runs of a file's variants, and those of variants that it no longer has."""
    every = [run for run in runs if run.name.startswith(f"{base}.") and _of_file(run, base)]
    if listed is None:
        found = _in_file(every)
    else:
        of_file = {run.name: run for run in every}
        found = [of_file[name] for name in listed if name in of_file]
    return found, [run for run in every if run not in found]


def _say_left_out(base: str, runs: Sequence[RunFolder], listed: Collection[str] | None) -> None:
    if runs:
        had = (
            "had no such variant when it was last run" if listed is None else "has no such variant"
        )
        names = ", ".join(run.name for run in runs)
        logger.warning(f"Left out: {names}. The file of {base!r} {had}. To include a run, name it.")


def _in_file(runs: Iterable[RunFolder]) -> list[RunFolder]:
    """Return the runs of the variants that their file had when one of them was last worked on."""
    manifests = {run: run.read_manifest() for run in runs}
    last = max(manifests.values(), key=_latest_session, default={})
    listed: list[str] = last.get("variants") or []  # none: `harness eval`, or an earlier version

    def order(run: RunFolder) -> tuple[float, float, str]:
        variant, started = manifests[run].get("variant"), manifests[run].get("started_at")
        return listed.index(variant) if variant in listed else inf, started or inf, run.name

    others = {run for run, one in manifests.items() if one.get("variant") and listed}
    return [run for run in sorted(manifests, key=order) if order(run)[0] < inf or run not in others]


def _latest_session(manifest: Mapping[str, Any]) -> float:
    return max((one.get("started_at") or 0.0 for one in manifest.get("sessions", ())), default=0.0)


def _bases(runs: Iterable[RunFolder]) -> set[str]:
    """Return names that may stand for the runs of several variants."""
    return {run.name.partition(".")[0] for run in runs if "." in run.name}


def _of_file(run: RunFolder, base: str) -> bool:
    """Return whether a run ``BASE.…`` may belong to the file ``base`` rather than to ``BASE.X``."""
    variant = run.read_manifest().get("variant") or ""
    if not variant:  # named by hand, or by a version that did not record variants
        return True
    file = run.name.removesuffix(f".{variant}")
    return file != run.name and (base == file or base.startswith(f"{file}."))
