"""`harness rm` and `mv`: delete and rename runs."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.console import Run, Runs, agreed, say, show
from harness.cli.listings import run_metrics
from harness.config.settings import Settings
from harness.errors import UserError
from harness.report.runs import runs_document
from harness.run.run_files import run_named, runs_named
from harness.store.run_folder import REPORT


def rm(runs: Runs, yes: bool = False) -> None:
    """Delete runs with everything in their folders, after confirmation.

    Runs in progress are refused. The cache keeps the paid replies, so a new run of the same file
    does not pay for them again ('harness cache prune' deletes replies).

    Args:
        yes: Do not ask for confirmation.
    """
    folders = runs_named(runs, Settings())
    if not yes:
        show(runs_document({one.name: run_metrics(one) for one in folders}))
        what = "this run" if len(folders) == 1 else f"these {len(folders):,} runs"
        if not agreed(f"Delete {what}?"):
            raise UserError("Nothing was deleted.", "Answer y, or use --yes.")
    for folder in folders:
        folder.remove()
        say(f"Deleted {folder.path}")
    say("The cache keeps their paid replies: the same run file runs again without paying for them.")


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
