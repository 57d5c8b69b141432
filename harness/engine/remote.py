"""Runs on an object store: one process at a time works on a run, and uploads it as it grows."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from harness.config.settings import Settings
from harness.engine.session import Session
from harness.errors import ConfigError, DataMissing, RunConflict
from harness.records import content_hash
from harness.store.lost_lines import find_loss
from harness.store.run_folder import RunFolder
from harness.store.runs import run_name

if TYPE_CHECKING:
    from harness.store.remote import RemoteRuns  # needs an extra


def remote_runs(settings: Settings) -> RemoteRuns | None:
    """Return the object store that the settings name, if any."""
    if not settings.runs_url:
        return None
    if settings.cache_url is None:
        problem = "HARNESS_RUNS_URL is set, but no cache that machines share."
        remedy = "Set HARNESS_CACHE_URL too: it keeps two machines from working on one run at once."
        raise ConfigError(problem, f"{remedy} See 'harness docs team'.")
    from harness.store.remote import RemoteRuns

    return RemoteRuns(settings.runs_url)


def set_copies_aside(settings: Settings, base: str, variants: Iterable[str]) -> None:
    """Rename a run file's runs on the object store, so that new runs can have their names."""
    if (runs := remote_runs(settings)) is not None:
        for variant in variants:
            runs.set_aside(run_name(base, variant))


def synchronise(runs: RemoteRuns, folder: RunFolder) -> str:
    """Bring a run's folder and its copy up to date. Return the message of `RemoteRuns.pull`.

    Raises:
        DataMissing: If there is no such run on either side.
        RunConflict: If attempts of the folder are lost, so that it must not replace the copy.
    """
    from harness.store.index import read_attempts  # NumPy takes 0.2 s to import

    message = runs.pull(folder)
    if not folder.exists():
        raise DataMissing(f"There is no run {folder.name!r} here or at {runs.url}.")
    if loss := find_loss(folder, read_attempts(folder.attempts)):
        remedy = f"To get its copy, first delete yours: harness rm {folder.name}"
        if message:  # its copy, which was just downloaded, is the same
            remedy = loss.remedy
        raise RunConflict(loss.message, remedy)
    with folder.hold():
        runs.push(folder)
    return message


@contextlib.asynccontextmanager
async def uploaded(
    runs: RemoteRuns | None, folder: RunFolder, session: Session
) -> AsyncIterator[None]:
    """Hold the lease of a run in an ``async with`` block, and upload the run as it grows.

    If ``runs`` is None, do nothing.
    """
    if runs is None:
        yield
        return
    from harness.store.remote import Uploads

    replies, key = session.replies, content_hash(["run", runs.url, folder.name])
    # A run without a cache has only simulated or recorded answers, which cost nothing.
    if replies and replies.shared and not await replies.shared.claim_shared(key):
        problem = f"Another machine is working on the run {folder.name!r}."
        raise RunConflict(problem, "Wait for it, or give this run another name.")
    try:
        runs.check(folder)
        with Uploads(runs, folder, session.notices.status("object store")):
            yield
    finally:
        if replies:
            replies.release(key)
