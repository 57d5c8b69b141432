"""A run's folder made of another tool's results: there whole, or not at all.

Owns what such a run says of itself: a backend called ``imported``, which nothing can be asked of,
the data's hashes, so that comparing refuses other data, and what file it is from.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
from pydantic import ValidationError

from harness.config.run_file import RunFile
from harness.errors import ConfigError, DataInvalid, RunConflict, StoreFailed
from harness.exchange.foreign_json import LARGEST, invalid, opened
from harness.records import SCHEMA_VERSION, Attempt
from harness.store.json_lines import JsonLinesWriter
from harness.store.manifest import package_versions
from harness.store.run_folder import RunFolder

BACKEND = "imported"
MOST_PARTS = 20_000
"""Instances of which each has its data's hash in the manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What a file holds.

    config: the run file that would have made it, as near as the file says.
    manifest: what a manifest says that depends on the file.
    attempts: with the place in the file that each is from, for messages.
    """

    format: str
    config: RunFile
    manifest: Mapping[str, Any]
    attempts: Iterable[tuple[str, Attempt]]
    notes: list[str] = field(default_factory=list)


def config(
    task: str, model: str, samples: int, decoding: Mapping[str, Any] | None = None
) -> RunFile:
    """The run file of results that the harness has not made.

    decoding: as the tool says; left out where no run file could hold it.
    """
    tree: dict[str, Any] = {
        "task": {"name": task},
        "model": {"backend": BACKEND, "name": model},
        "samples": max(samples, 1),
        "seed": None,
    }
    try:
        return RunFile.model_validate(tree | {"decoding": dict(decoding or {})})
    except ValidationError:
        return RunFile.model_validate(tree)


def fingerprint(data: Mapping[str, str]) -> dict[str, str]:
    """Hashes of the instances' data: the whole, and each so that parts can be compared.

    data: instance to a hash of what it is asked and what would be right.
    """
    whole = hashlib.sha256("\n".join(f"{k}={data[k]}" for k in sorted(data)).encode(**REPLACE))
    found = {"dataset_sha256": whole.hexdigest()}
    if len(data) <= MOST_PARTS:
        found |= {f"instance_sha256/{name}": value[:16] for name, value in data.items()}
    return found


REPLACE = {"errors": "replace"}


def manifest(
    task: str, model: str, data: Mapping[str, str], measure: str | None, **told: Any
) -> dict[str, Any]:
    """What a manifest says of results that the harness has not made."""
    return {
        "task": task,
        "model": model,
        "backend": BACKEND,
        "simulated": False,
        "measure": measure,
        "variant": "",
        "fingerprint": fingerprint(data),
        "seed": None,
    } | told


def write_run(
    root: Path,
    name: str,
    source: Path,
    imported: Imported,
    finish: Callable[[RunFolder], None] = lambda folder: None,
) -> RunFolder:
    """Make the run; nothing is left behind where that fails.

    root: the folder of runs. finish: what is to be done with the run before it is there.

    Raises: RunConflict where there is a run of that name; DataInvalid; StoreFailed.
    """
    wanted = RunFolder(root, name)
    refuse_existing(wanted)
    # Its name begins with a point: no run's does, so that nobody takes it for one.
    beside = root / f".import-{os.getpid()}"
    folder = RunFolder(beside, name)
    try:
        folder.path.mkdir(parents=True)
        _fill(folder, source, imported)
        _check(folder, source, finish)
        refuse_existing(wanted)
        folder.path.rename(wanted.path)
    except (OSError, StoreFailed) as error:
        reason = error.message if isinstance(error, StoreFailed) else f"{error.strerror}."
        raise StoreFailed(
            f"Cannot write {wanted.path}: {reason.replace(str(beside), str(root))}",
            "Make room or mend the permissions, or set HARNESS_RUNS_DIR to another folder.",
        ) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return wanted


def refuse_existing(folder: RunFolder) -> None:
    """Raises: RunConflict where something has the run's name."""
    if folder.path.exists():
        raise RunConflict(
            f"There is a run {folder.name!r} already.", "Choose another name with --name."
        )


def _fill(folder: RunFolder, source: Path, imported: Imported) -> None:
    keys: set[tuple[str, int]] = set()
    rounds: set[tuple[str, int, int]] = set()
    with JsonLinesWriter(folder.attempts) as writer:
        for where, attempt in imported.attempts:
            _refuse_unusable(where, attempt)
            named = (attempt.instance, attempt.sample, attempt.round)
            if named in rounds:  # which of them counts is not for us to say
                raise invalid(where, f"{attempt.instance[:80]!r} is there twice")
            rounds.add(named)
            keys.add((attempt.instance, attempt.sample))
            writer.append(attempt)
    if not keys:
        raise DataInvalid(f"{source}: there is no sample in it.", "Nothing was imported.")
    folder.write_config(imported.config)
    now = time.time()
    told = dict(imported.manifest)
    begun, ended = (told.get(key) or now for key in ("started_at", "ended_at"))
    folder.write_json(
        folder.manifest,
        {
            "sessions": [
                {"started_at": begun, "ended_at": ended, "ended": "finished", "retried": []}
            ],
            "id": uuid4().hex,
            "schema_version": SCHEMA_VERSION,
            "run": folder.name,
            "packages": package_versions(),
            "samples": len(keys),
            "owed": 0,
            "resumed": 0,
        }
        | told
        | {
            "started_at": begun,
            "ended_at": ended,
            "imported": {
                "format": imported.format,
                "file": source.name,
                "sha256": _sha256(source),
                "at": now,
            },
        },
    )


def _check(folder: RunFolder, source: Path, finish: Callable[[RunFolder], None]) -> None:
    """Read back what was written: what cannot be read is no run."""
    try:
        folder.read_config()
        folder.read_manifest()
        finish(folder)
    except (ConfigError, DataInvalid, StoreFailed) as error:
        reason = error.message.replace(str(folder.path), "the run")
        raise invalid(str(source), f"makes no run that can be read ({reason})") from None


def _refuse_unusable(where: str, attempt: Attempt) -> None:
    """Raises: DataInvalid where an attempt cannot be one."""
    if attempt.v != SCHEMA_VERSION:
        raise invalid(where, f"an attempt of schema version {attempt.v}")
    if not 0 <= attempt.sample < 2**31 or not 1 <= attempt.round < 2**31:
        raise invalid(where, f"sample {attempt.sample}, round {attempt.round}: no such attempt")
    for name, score in attempt.scores.items():
        if score.value is not None and not -LARGEST <= score.value <= LARGEST:
            raise invalid(where, f"the score {name[:80]!r} is too large")


def _sha256(path: Path) -> str:
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def own_config(tree: Mapping[str, Any], where: str) -> RunFile:
    """The run file that a run of the harness was exported with.

    Raises: DataInvalid.
    """
    try:
        return RunFile.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"]))
        raise invalid(where, f"its run file is not valid ({at}: {first['msg']})") from None


def own_attempt(tree: Any, where: str) -> Attempt:
    """An attempt that the harness has exported.

    Raises: DataInvalid.
    """
    try:
        return msgspec.convert(tree, Attempt)
    except (msgspec.ValidationError, RecursionError) as error:
        raise invalid(where, f"not an attempt ({str(error)[:160]})") from None
