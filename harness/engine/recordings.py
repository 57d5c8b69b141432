"""Whether the recordings that a run replays still hold the answers that the run has used.

A recording may grow between the sessions of a run. If it has changed otherwise, the run's scores
are those of other answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.datasets.folder import DataFolder
from harness.errors import DataMissing
from harness.store.run_folder import RunFolder

RECORDING = "recording_sha256"
"""The end of a recording's name in a fingerprint. The value is the file's SHA-256 and size."""


def recording_hashes(run: RunFile, settings: Settings) -> dict[str, str]:
    """Return the hash of each recording that a model of the run replays, by name."""
    recordings = _recordings(run, settings).items()
    return {name: _hash(path, path.stat().st_size) for name, path in recordings}


def if_grown(
    fingerprint: Mapping[str, str], folder: RunFolder, run: RunFile, settings: Settings
) -> dict[str, str]:
    """Return a fingerprint with the earlier hash of each recording that has only grown."""
    earlier = folder.read_manifest().get("fingerprint", {})
    same = dict(fingerprint)
    for name, path in _recordings(run, settings).items():
        before = earlier.get(name, "")
        size = int(before.partition(":")[2] or 0)
        if 0 < size < path.stat().st_size and _hash(path, size) == before:
            same[name] = before
    return same


def _recordings(run: RunFile, settings: Settings) -> dict[str, Path]:
    """Return the files by their names in a fingerprint, such as ``judge_good_recording_sha256``."""
    models = {"": run.model, **{f"judge_{one.as_}_": one.model for one in run.judges}}
    if run.user is not None:
        models["user_"] = run.user.model
    paths = {}
    for prefix, model in models.items():
        path = model.options.get("path")
        if model.backend == "replay" and isinstance(path, str):
            with suppress(DataMissing):
                paths[prefix + RECORDING] = DataFolder(settings.data_dir, run.folder).file(path)
    return paths


def _hash(path: Path, size: int) -> str:
    digest = hashlib.sha256()
    left = size
    with path.open("rb") as file:
        while left and (block := file.read(min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
    return f"{digest.hexdigest()}:{size}"
