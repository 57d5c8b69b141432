"""Finds out whether a run's files still have the lines with which its last session ended.

The manifest says how many samples are finished, and has the state of `attempts.jsonl` and
`judgements.jsonl` at the end of the session. If a file was emptied, cut, deleted or replaced since,
lines are lost. Both files only grow, so a file that begins with the recorded content is intact.
"""

from __future__ import annotations

import contextlib
import logging
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from harness.records import OUTCOMES
from harness.store.files import open_file
from harness.store.json_lines import reading
from harness.store.judgements import read_register, run_judges
from harness.store.run_folder import ATTEMPTS, JUDGEMENTS, RunFolder
from harness.wording import count_of

if TYPE_CHECKING:
    from harness.store.columns import AttemptTable  # NumPy takes 0.2 s to import

KEYS = ("attempts", "judgements")  # in a manifest
PART = 1 << 20  # bytes that are hashed at a time
_REPEAT = "run the run file again: the paid replies are in the cache."

logger = logging.getLogger("harness")


class FileState(msgspec.Struct):
    """A file of lines at the end of a session."""

    bytes: int
    modified_ns: int
    n: int = 0  # attempts that count
    digest: str = ""  # of the content; empty if an earlier version wrote the manifest


class Loss(NamedTuple):
    """Lines that a run has lost: at least so many samples, a description, and the remedy."""

    samples: int
    message: str
    remedy: str


def file_states(folder: RunFolder, n: int) -> dict[str, Any]:
    """Return the entries of a manifest that describe the files, given the attempts that count."""
    states: dict[str, Any] = {}
    for key, path in zip(KEYS, _paths(folder), strict=True):
        size, modified_ns = _stat(path)
        count = n if key == KEYS[0] else 0
        digest = _digest(path, size, (size, modified_ns))
        states[key] = msgspec.to_builtins(FileState(size, modified_ns, count, digest))
    return states


def is_unchanged(folder: RunFolder, manifest: dict[str, Any]) -> bool:
    """Return whether the files have the size and the time at which a session ended.

    If an earlier version wrote the manifest, the attempts must be older than the session's end.
    """
    attempts, judgements = _paths(folder)
    state = _recorded(manifest, KEYS[0])
    if state is None:
        size, modified_ns = _stat(attempts)
        return size > 0 and modified_ns <= (manifest.get("ended_at") or 0.0) * 1e9
    expected = _recorded(manifest, KEYS[1])
    if expected is not None and _stat(judgements) != (expected.bytes, expected.modified_ns):
        return False
    return _stat(attempts) == (state.bytes, state.modified_ns)


def find_loss(folder: RunFolder, attempts: AttemptTable) -> Loss | None:
    """Return what a run has lost, if anything. ``attempts`` are all its attempts.

    During a session, and after a kill, nothing is lost.
    """
    manifest = folder.read_manifest()
    owed, planned = folder.owed(manifest), manifest.get("samples")
    if owed is None or planned is None:
        return None
    state = _recorded(manifest, KEYS[0])
    begun = int(attempts.sample_starts().sum())
    lost = planned - owed - begun
    if state is not None and len(attempts) < state.n:
        lost = max(lost, 1)
    if lost > 0:
        lacks = f"lacks at least {count_of(lost, 'finished sample')}: a part of the file is lost."
        return Loss(lost, f"{folder.name}: {ATTEMPTS} {lacks}", f"To repeat them, {_REPEAT}")
    if begun > planned:
        problem = f"has {count_of(begun - planned, 'sample')} too many"
    elif state is not None and not _is_intact(folder.attempts, state):
        problem = "was changed after the run's last session"
    else:
        return _lost_judgements(folder, attempts, manifest)
    message = f"{folder.name}: {ATTEMPTS} {problem}: it may have attempts of another run."
    return Loss(1, message, f"Restore or delete the file, then {_REPEAT}")


def _lost_judgements(
    folder: RunFolder, attempts: AttemptTable, manifest: dict[str, Any]
) -> Loss | None:
    path, state = folder.path / JUDGEMENTS, _recorded(manifest, KEYS[1])
    if state is not None:
        lost = not _is_intact(path, state)
    else:  # an earlier version wrote the manifest
        outcomes = {OUTCOMES[code] for code in set(attempts.outcome.tolist())}
        judged = not outcomes.isdisjoint(read_register(folder.path).judged)
        finished = judged and manifest.get("owed") == 0 and bool(run_judges(folder.path))
        lost = finished and not _stat(path)[0]
    if not lost:
        return None
    message = f"{folder.name}: {JUDGEMENTS} was changed after the run's last session: "
    return Loss(1, f"{message}judgements are lost.", f"To repeat them, {_REPEAT}")


def warn_of_loss(folder: RunFolder, attempts: AttemptTable) -> Loss | None:
    """Return the same as `find_loss`, and warn of a loss, once for each run."""
    loss = find_loss(folder, attempts)
    if loss is not None:
        _warn(f"{loss.message} {loss.remedy}")
    return loss


_warn = cache(logger.warning)


def _paths(folder: RunFolder) -> tuple[Path, Path]:
    return folder.attempts, folder.path / JUDGEMENTS


def _recorded(manifest: dict[str, Any], key: str) -> FileState | None:
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(manifest.get(key), FileState | None)
    return None


def _is_intact(path: Path, state: FileState) -> bool:
    """Return whether a file begins with the recorded content."""
    found = _stat(path)
    if found == (state.bytes, state.modified_ns):
        return True
    return found[0] >= state.bytes and state.digest in ("", _digest(path, state.bytes, found))


@lru_cache(maxsize=64)
def _digest(path: Path, size: int, _: tuple[int, int]) -> str:
    """Hash the first ``size`` bytes of a file, of which the last argument identifies the state."""
    content = blake2b(digest_size=16)
    with reading(path):
        if path.exists():
            with open_file(path) as file:
                while size > 0 and (part := file.read(min(size, PART))):
                    content.update(part)
                    size -= len(part)
    return content.hexdigest()


def _stat(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
