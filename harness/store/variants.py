"""The runs that a name means: one, or those of a run file's variants."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.errors import ConfigError, DataMissing, nearest
from harness.store.run_folder import RunFolder, all_runs, find_run, run_name


def find_runs(root: Path, names: Iterable[str]) -> list[RunFolder]:
    """The runs of some names; that of a run file with variants is all of its runs.

    Raises: DataMissing; ConfigError where one is named twice.
    """
    folders: list[RunFolder] = []
    for name in names:
        try:
            folders.append(find_run(root, name))
        except DataMissing as missing:
            try:
                folders += find_variants(root, name)
            except DataMissing:
                raise missing from None
    own = [folder.name for folder in folders]
    for name in own:
        if own.count(name) > 1:
            raise ConfigError(f"{name!r} is named twice.", "Name each run once.")
    return folders


def find_variants(root: Path, name: str) -> list[RunFolder]:
    """The runs of a file's variants, two or more, in the order in which they were begun.

    root: the folder of runs, where name is no path.
    name: the file's, or the path of their folder without the variant.

    Raises: DataMissing.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):  # the run file itself: what it is called is meant
        path = Path(path.stem)
    root = path.parent if path.parent.name else root
    runs = all_runs(root)
    prefix = run_name(path.name, "?").removesuffix("?")
    found = [run for run in runs if run.name.startswith(prefix) and _of_file(run, path.name)]
    if len(found) < 2:
        there = f"only one run {found[0].name}" if found else f"no run {prefix}VARIANT"
        if any(run.name == path.name for run in runs):
            raise DataMissing(
                f"The run {path.name!r} has no variants: there is nothing to compare it with.",
                "Write variants: or matrix: into its run file (docs/run-files.md).",
            )
        bases = {run.name.partition(".")[0] for run in runs if "." in run.name}
        raise DataMissing(
            f"There is {there} in {root}: nothing to compare.",
            nearest(path.name, bases - {path.name})
            or "Start some with a run file that has variants (docs/run-files.md).",
        )
    return sorted(found, key=lambda run: (_started(run), run.name))


def _of_file(run: RunFolder, base: str) -> bool:
    """Whether a run is a variant of the file of that name: not of another one, nor a copy.

    base: may have the beginning of the variants' names after it (``FILE.gpt-4``).
    """
    variant = run.read_manifest().get("variant") or ""
    if not variant:  # named by hand, or by a harness that did not say
        return True
    file = run.name.removesuffix(f".{variant}")
    return file != run.name and (base == file or base.startswith(f"{file}."))


def _started(run: RunFolder) -> float:
    started = run.read_manifest().get("started_at")
    return float(started) if isinstance(started, int | float) else float("inf")
