"""Finds out whether a run's file of attempts still has those with which its last session ended.

The manifest says how many samples are finished. If the file was emptied, cut, deleted or replaced
since, these samples are not there.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from harness.store.run_folder import ATTEMPTS, RunFolder
from harness.wording import count_of

if TYPE_CHECKING:
    from harness.store.columns import AttemptTable  # NumPy takes 0.2 s to import

KEY = "attempts"  # in a manifest

logger = logging.getLogger("harness")


class AttemptsState(msgspec.Struct):
    """The file of attempts at the end of a session."""

    bytes: int
    modified_ns: int
    n: int  # attempts that count


def attempts_state(folder: RunFolder, n: int) -> dict[str, Any]:
    """Return the entry of a manifest that describes the file of attempts, of which ``n`` count."""
    size, modified_ns = _stat(folder)
    return {KEY: msgspec.to_builtins(AttemptsState(size, modified_ns, n))}


def is_unchanged(folder: RunFolder, manifest: dict[str, Any]) -> bool:
    """Return whether the file of attempts has the size and the time at which a session ended.

    If an earlier version wrote the manifest, the file must have content.
    """
    size, modified_ns = _stat(folder)
    state = _recorded(manifest)
    if state is None:
        return size > 0
    return (size, modified_ns) == (state.bytes, state.modified_ns)


def lost_samples(folder: RunFolder, attempts: AttemptTable) -> int:
    """Return how many samples are lost, or at least 1 if attempts are.

    ``attempts`` are all attempts of the run. During a session, and after a kill, nothing is lost.
    """
    manifest, owed = folder.read_manifest(), folder.owed()
    if owed is None:
        return 0
    lost = (manifest.get("samples") or 0) - owed - int(attempts.sample_starts().sum())
    state = _recorded(manifest)
    if state is not None and len(attempts) < state.n:
        lost = max(lost, 1)
    return max(lost, 0)


def warn_of_lost(folder: RunFolder, lost: int) -> None:
    """Warn, once for each run, that samples are lost."""
    _warn(f"{lost_message(folder, lost)} To repeat them, run the run file again.")


def lost_message(folder: RunFolder, lost: int) -> str:
    """Describe that samples are lost."""
    samples = f"{count_of(lost, 'finished sample')}"
    return f"{folder.name}: {ATTEMPTS} lacks at least {samples}: a part of the file is lost."


_warn = cache(logger.warning)


def _recorded(manifest: dict[str, Any]) -> AttemptsState | None:
    try:
        return msgspec.convert(manifest.get(KEY), AttemptsState | None)
    except msgspec.ValidationError:
        return None


def _stat(folder: RunFolder) -> tuple[int, int]:
    try:
        status = folder.attempts.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
