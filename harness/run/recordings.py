"""Whether a recording that a run replays still holds the answers that the run has used.

A recording may grow between the sessions of a run. If it has changed otherwise, the run's scores
are those of other answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.datasets.folder import DataFolder
from harness.errors import DataMissing
from harness.store.run_folder import RunFolder

RECORDING = "recording_sha256"
"""The name in a fingerprint. The value is the file's SHA-256 and size."""


def recording_hash(run: RunFile, settings: Settings) -> dict[str, str]:
    """Return the hash of the recording that a run replays, by its name in a fingerprint, or {}."""
    path = _recording(run, settings)
    return {} if path is None else {RECORDING: _hash(path, path.stat().st_size)}


def if_grown(
    fingerprint: Mapping[str, str], folder: RunFolder, run: RunFile, settings: Settings
) -> Mapping[str, str]:
    """Return a fingerprint with the recording's earlier hash if the recording has only grown."""
    before = folder.read_manifest().get("fingerprint", {}).get(RECORDING, "")
    size = int(before.partition(":")[2] or 0)
    path = _recording(run, settings)
    if path is None or not 0 < size < path.stat().st_size or _hash(path, size) != before:
        return fingerprint
    return {**fingerprint, RECORDING: before}


def _recording(run: RunFile, settings: Settings) -> Path | None:
    path = run.model.options.get("path")
    if run.model.backend != "replay" or not isinstance(path, str):
        return None
    try:
        return DataFolder(settings.data_dir, run.folder).file(path)
    except DataMissing:
        return None


def _hash(path: Path, size: int) -> str:
    digest = hashlib.sha256()
    left = size
    with path.open("rb") as file:
        while left and (block := file.read(min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
    return f"{digest.hexdigest()}:{size}"
