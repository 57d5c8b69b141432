"""`harness sync`: synchronise runs with their copies on an object store."""

from typing import Annotated

import typer

from harness.config.settings import Settings
from harness.errors import DataMissing, HarnessError, RunConflict, StoreFailed, UserError
from harness.plugins.remote_runs.object_store import RemoteRuns, remote_runs
from harness.store.index import read_attempts
from harness.store.lost_lines import find_loss, remove_copies
from harness.store.run_folder import RunFolder
from harness.terminal.console import say


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
        with folder.hold():
            remove_copies(folder)
        loss = find_loss(folder, read_attempts(folder.attempts))
    except StoreFailed as error:
        raise StoreFailed(_lines(message, error.message), error.remedy) from None
    if loss:
        remedy = f"To get its copy, first delete yours: harness rm {folder.name}"
        if message:  # its copy, which was just downloaded, is the same
            remedy = loss.remedy
        raise RunConflict(_lines(message, loss.message), remedy)
    with folder.hold():
        return _lines(message, runs.push(folder))


def _lines(*messages: str) -> str:
    return "\n".join(filter(None, messages))
