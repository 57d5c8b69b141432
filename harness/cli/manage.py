"""`harness ls`, `rm` and `mv`: list, delete and rename runs."""

from math import fsum
from typing import Annotated, Any

import msgspec
import typer

from harness.analysis.metrics import Metrics
from harness.analysis.summary import read_metrics
from harness.cli.options import Format, Run, Runs, ask_yes_no
from harness.config.settings import Settings
from harness.engine.run_files import find_named_run, find_named_runs
from harness.engine.session import preserve_payments
from harness.errors import HarnessError, UserError
from harness.report.runs import runs_document
from harness.store.run_folder import REPORT, RunFolder
from harness.store.runs import all_runs
from harness.terminal.console import say, show
from harness.wording import format_count


def ls(form: Format = "table") -> None:
    """List the runs."""
    root = Settings().runs_dir
    folders = all_runs(root)
    if folders or form != "table":
        metrics: dict[str, Metrics | None] = {}
        started: dict[str, float] = {}
        problems: dict[str, str] = {}
        paid: dict[str, float] = {}  # by the run's id, so that copies of a run count once
        merged: set[str] = set()  # ids of shards, whose payments count in the merged run
        for folder in folders:
            metrics[folder.name] = None
            try:
                manifest = folder.read_manifest()
                if started_at := manifest.get("started_at"):
                    started[folder.name] = started_at
                metrics[folder.name] = run_metrics = _read_without_groups(folder, manifest)
                merged.update(manifest.get("merged_ids", ()))
                if run_metrics is not None:
                    paid[folder.run_id()] = run_metrics.paid_usd
            except HarnessError as error:
                say(f"{folder.name}: {error}")
                problems[folder.name] = str(error)
        paid_usd = fsum(amount for run_id, amount in paid.items() if run_id not in merged)
        show(runs_document(metrics, started, problems, paid_usd), form)
    else:
        say(f"No runs in {root}. Start one with 'harness run configs/quickstart.yaml'.")


def read_run_metrics(folder: RunFolder) -> Metrics | None:
    """Read a run's metrics without groups. If they cannot be read, print why and return None."""
    try:
        return _read_without_groups(folder, folder.read_manifest())
    except HarnessError as error:
        say(f"{folder.name}: {error}")
        return None


def _read_without_groups(folder: RunFolder, manifest: dict[str, Any]) -> Metrics | None:
    metrics = read_metrics(folder, manifest)
    # The groups are not listed, and thousands of them take most of the time.
    return None if metrics is None else msgspec.structs.replace(metrics, groups={})


def rm(runs: Runs, yes: bool = False) -> None:
    """Delete runs with everything in their folders, after confirmation.

    Runs in progress are refused. The cache keeps the paid replies, so a new run of the same file
    does not pay for them again ('harness cache prune' deletes replies).

    Args:
        yes: Do not ask for confirmation.
    """
    settings = Settings()
    folders = find_named_runs(runs, settings, removed=True)
    n_lost = sum(preserve_payments(folder, settings) for folder in folders)
    message = (
        "The cache keeps their paid replies: the same run file runs again without paying for them."
    )
    if n_lost:
        calls = format_count(n_lost, "call")
        message = f"The cache lacks the replies to {calls}: a new run pays for them again."
    if not yes:
        show(runs_document({folder.name: read_run_metrics(folder) for folder in folders}))
        subject = "this run" if len(folders) == 1 else f"these {len(folders):,} runs"
        if n_lost:
            say(message)
        if not ask_yes_no(f"Delete {subject}?"):
            raise UserError("Nothing was deleted.", "Answer y, or use --yes.")
    for folder in folders:
        folder.remove()
        say(f"Deleted {folder.path}")
    say(message)


def mv(run: Run, new: Annotated[str, typer.Argument(metavar="NEW")]) -> None:
    """Rename a run.

    Refused if the run is in progress, or if another run has the name.

    Args:
        new: The new name.
    """
    settings = Settings()
    folder = find_named_run(run, settings)
    moved = folder.rename(new)
    preserve_payments(moved, settings, replies=False)
    say(f"Renamed {folder.name} to {moved.name}: {moved.path}")
    if (moved.path / REPORT).exists():
        say(f"Its report has the old name; to write it again: harness report {moved.name}")
