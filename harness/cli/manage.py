"""`harness rm`, `mv`, `merge` and `sync`: delete, rename, merge and synchronise runs."""

from typing import Annotated

import typer

from harness.cli.console import Run, Runs, agreed, say, show
from harness.cli.listings import run_metrics
from harness.config.settings import Settings
from harness.engine.merging import find_shards
from harness.engine.merging import merge as merge_shards
from harness.engine.remote import remote_runs, synchronise
from harness.engine.run_files import run_named, runs_named
from harness.errors import HarnessError, UserError
from harness.report.run_tables import run_document
from harness.report.runs import runs_document
from harness.store.run_folder import REPORT, RunFolder
from harness.store.runs import run_name, run_path


def merge(base: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Merge the runs of all shards (harness run FILE --shard 1/4, …) into one run.

    All shards must be finished and in the folder of runs. Their runs stay. The merged run can be
    shown, compared and resumed like a run that was never split.

    Args:
        base: The name of the run file, or the --name of the shards.
    """
    settings = Settings()
    base = run_path(settings.runs_dir, base).name
    found = find_shards(settings.runs_dir, base)
    for variant, shards in found.items():
        name = run_name(base, variant)
        merged = merge_shards(shards, name, settings)
        if metrics := run_metrics(merged):
            show(run_document(metrics))
        say(f"Merged {len(shards):,} shards: {merged.path}")


def rm(runs: Runs, yes: bool = False) -> None:
    """Delete runs with everything in their folders, after confirmation.

    Runs in progress are refused. The cache keeps the paid replies, so a new run of the same file
    does not pay for them again ('harness cache prune' deletes replies).

    Args:
        yes: Do not ask for confirmation.
    """
    folders = runs_named(runs, Settings(), removed=True)
    if not yes:
        show(runs_document({one.name: run_metrics(one) for one in folders}))
        what = "this run" if len(folders) == 1 else f"these {len(folders):,} runs"
        if not agreed(f"Delete {what}?"):
            raise UserError("Nothing was deleted.", "Answer y, or use --yes.")
    for folder in folders:
        folder.remove()
        say(f"Deleted {folder.path}")
    say("The cache keeps their paid replies: the same run file runs again without paying for them.")


def sync(names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None) -> None:
    """Get runs from the object store that HARNESS_RUNS_URL names, and copy runs to it.

    A run that has grown on both sides is kept under a dated name, and replaced by its copy. Exit
    codes: 0 all runs are the same on both sides, 1 some are not.

    Args:
        names: The runs' names (default: all runs on the object store).
    """
    settings = Settings()
    remote = remote_runs(settings)
    if remote is None:
        raise UserError("HARNESS_RUNS_URL is not set.", "Set it to a URL such as s3://BUCKET/runs.")
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


def mv(run: Run, new: Annotated[str, typer.Argument(metavar="NEW")]) -> None:
    """Rename a run.

    Refused if the run is in progress, or if another run has the name.

    Args:
        new: The new name.
    """
    folder = run_named(run, Settings())
    moved = folder.rename(new)
    say(f"Renamed {folder.name} to {moved.name}: {moved.path}")
    if (moved.path / REPORT).exists():
        say(f"Its report has the old name; to write it again: harness report {moved.name}")
