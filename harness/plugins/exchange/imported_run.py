"""Writes another tool's results as a run folder, atomically.

The run's backend, ``imported``, cannot be called. The manifest records hashes of the data, so that
the run is not compared with runs on other data.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import uuid4

from msgspec.structs import replace
from pydantic import ValidationError

from harness.analysis.metrics import encode_metrics
from harness.analysis.summary import compute_metrics
from harness.config.run_file import RunFile
from harness.errors import (
    ConfigError,
    DataInvalid,
    DataMissing,
    RunConflict,
    StoreFailed,
    suggest_name,
)
from harness.records import CRASH_VERSION, MAX_MAGNITUDE, SCHEMA_VERSION, Attempt, Role, Score
from harness.store.file_states import (
    APPENDED_FILES,
    RESULT_FILES,
    SETTINGS_FILES,
    STATES_KEY,
    compute_states,
    run_tag,
    seal_line,
)
from harness.store.files import RUN_REMEDY, write_atomically, write_json
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter, read_json
from harness.store.manifest import package_versions
from harness.store.run_folder import IMPORTED, RunFolder

MAX_PARTS = 20_000  # up to this many instances, the manifest has a hash of each one's data
MAX_BYTES = 1 << 27  # size limit of one sample: a line, or a member of a log

Placed = tuple[str, Attempt]  # an attempt with its place in the file, for messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Another tool's results, converted to a run file, a partial manifest, and attempts."""

    format: str
    config: RunFile
    manifest: Mapping[str, Any]
    attempts: Iterable[Placed]
    notes: Sequence[str] = ()


def invalid(where: str, problem: str) -> DataInvalid:
    """Return the DataInvalid to raise for a problem at a place in an imported file."""
    remedy = "Nothing was imported. Write the file again, or name its format with --format."
    return DataInvalid(f"{where}: {problem}.", remedy)


def opened(path: Path) -> BufferedReader:
    """Open a file to be imported, as bytes, and raise errors as a `HarnessError`."""
    try:
        if path.exists() and not path.is_file():
            raise invalid(str(path), "not a file")
        return path.open("rb")
    except FileNotFoundError:
        raise DataMissing(f"There is no file {path}.", "Check its name.") from None
    except OSError as error:
        message = f"Cannot read {path}: {error.strerror}."
        raise StoreFailed(message, "Fix its permissions.") from None


CONTRADICTIONS = "contradictions"  # the manifest's key for sentences on results and samples


def contradictions(index: AttemptIndex) -> list[str]:
    """Return what the tool's own results say otherwise than the samples that were imported."""
    manifest = read_json(index.path.with_name("manifest.json"), dict[str, Any], "Import it again.")
    sentences = manifest.get(CONTRADICTIONS)
    return list(map(str, sentences)) if "imported" in manifest and sentences else []


def number(value: Any, where: str) -> float | None:
    """Return a finite number as a float, or None for any other value. Raise DataInvalid if huge."""
    if not isinstance(value, int | float) or value != value or value in (math.inf, -math.inf):
        return None
    if not -MAX_MAGNITUDE <= value <= MAX_MAGNITUDE:
        raise invalid(where, "a number that is too large")
    return float(value)


def role(name: object) -> Role:
    """Return the role of a message in another tool's file. An unknown one is the user's."""
    if name == "system":
        return "system"
    return "assistant" if name == "assistant" else "user"


@dataclass(frozen=True, slots=True)
class FoundScore:
    """A score in an imported file. ``graded``: whether the file calls answers right or wrong."""

    value: float | None
    graded: bool = False
    reason: str = ""
    details: dict[str, object] = field(default_factory=dict)


def judged(
    rows: Sequence[tuple[Placed, Mapping[str, FoundScore]]],
    is_accuracy: Callable[[str], bool],
    requested: str,
    headline: str,
) -> tuple[list[Placed], str | None]:
    """Decide which scores are verdicts, and which score decides whether an answer passed.

    A score is a verdict if all its values are graded. If some are 0 or 1 instead, it is a verdict
    if the user ``requested`` it or ``is_accuracy`` is true of its name. The score ``requested``
    decides. By default (""), it is the tool's ``headline`` or else the first score, of the verdicts
    or, if there are none, of the scores with a value. Return the attempts with their scores, and
    the run's primary metric (None for the pass rate).
    """
    measured: dict[str, list[FoundScore]] = {}  # the scores that have a value, by name
    for _, scores in rows:
        for name, imported in scores.items():
            with_value = measured.setdefault(name, [])
            if imported.value is not None:
                with_value.append(imported)
    if requested and requested not in measured:
        remedy = suggest_name(requested, measured) or "It has no scores at all."
        raise ConfigError(f"--score: the file has no score {requested!r}.", remedy)
    verdicts = []
    binary = set()
    for name, with_value in measured.items():
        ungraded = [imported for imported in with_value if not imported.graded]
        if all(imported.value in (0, 1) for imported in with_value):
            binary.add(name)
        elif any(imported.value not in (0, 1) for imported in ungraded):
            continue
        if with_value and (not ungraded or name == requested or is_accuracy(name)):
            verdicts.append(name)
    names = verdicts or [name for name, with_value in measured.items() if with_value]
    deciding = requested
    if not deciding and names:
        deciding = headline if headline in names else names[0]

    def score(name: str, imported: FoundScore) -> Score:
        if imported.value is None:
            return Score(None, None, imported.reason, imported.details)
        if name not in verdicts:  # a count may happen to be 0 or 1 everywhere
            share = is_accuracy(name) and 0 <= imported.value <= 1
            return Score(imported.value, None, imported.reason, imported.details, share=share)
        value = bool(imported.value) if name in binary else imported.value
        return Score(value, imported.value == 1, imported.reason, imported.details)

    attempts = []
    for (where, attempt), imported_scores in rows:
        attempt_scores = {name: score(name, imported) for name, imported in imported_scores.items()}
        passed = attempt_scores[deciding].passed if deciding in attempt_scores else None
        attempts.append((where, replace(attempt, scores=attempt_scores, passed=passed)))
    if deciding not in measured or (deciding in verdicts and deciding in binary):
        return attempts, None
    return attempts, deciding


def config(task: str, model: str, samples: int, decoding: Mapping[str, Any]) -> RunFile:
    """Return a run file for another tool's results, without ``decoding`` if that is invalid."""
    tree = {
        "task": {"name": task},
        "model": {"backend": IMPORTED, "name": model},
        "samples": max(samples, 1),
        "seed": None,
    }
    try:
        return RunFile.model_validate(tree | {"decoding": dict(decoding)})
    except ValidationError:
        return RunFile.model_validate(tree)


def manifest(
    task: str, model: str, data: Mapping[str, str], measure: str | None, **others: Any
) -> dict[str, Any]:
    """Return a manifest for another tool's results.

    ``data`` maps each instance to a hash of its data. ``measure`` is the primary metric (None for
    the pass rate). ``others`` are further entries, which may replace the manifest's own.
    """
    listing = "\n".join(f"{name}={data[name]}" for name in sorted(data))
    hashed = hashlib.sha256(listing.encode(errors="replace")).hexdigest()
    fingerprint = {"dataset_sha256": hashed}
    if len(data) <= MAX_PARTS:
        fingerprint |= {f"instance_sha256/{name}": value[:16] for name, value in data.items()}
    entries = {
        "task": task,
        "model": model,
        "backend": IMPORTED,
        "simulated": False,
        "measure": measure,
        "variant": "",
        "fingerprint": fingerprint,
        "seed": None,
    }
    return entries | others


def write_run(root: Path, name: str, source: Path, imported: Imported) -> RunFolder:
    """Write imported results as the run ``name`` below ``root``, and return the run's folder.

    A failure leaves nothing behind. The manifest records the ``source`` and its hash.
    """
    target = RunFolder(root, name)
    refuse_existing(target)
    root.mkdir(parents=True, exist_ok=True)
    # No run's name begins with a dot, so this folder is never mistaken for a run. It is new: what
    # has its name may be a link to another folder.
    temporary = mkdtemp(prefix=".import-", dir=root)
    folder = RunFolder(Path(temporary), name)
    try:
        folder.path.mkdir(parents=True)
        _fill(folder, source, imported)
        try:
            folder.read_config()
            # Without states, a run that is not complete would be taken for one that lost lines.
            folder.update_manifest(
                {STATES_KEY: compute_states(folder.path, (*APPENDED_FILES, *SETTINGS_FILES))}
            )
            write_atomically(folder.metrics, encode_metrics(compute_metrics(folder)))
            names = (*APPENDED_FILES, *SETTINGS_FILES, *RESULT_FILES)
            folder.update_manifest({STATES_KEY: compute_states(folder.path, names)})
        except (ConfigError, DataInvalid, StoreFailed) as error:
            reason = error.message.replace(str(folder.path), "the run")
            raise invalid(str(source), f"cannot be read as a run ({reason})") from None
        refuse_existing(target)
        folder.path.rename(target.path)
    except (OSError, StoreFailed) as error:
        reason = error.message if isinstance(error, StoreFailed) else f"{error.strerror}."
        message = f"Cannot write {target.path}: {reason.replace(temporary, str(root))}"
        raise StoreFailed(message, RUN_REMEDY) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def refuse_existing(folder: RunFolder) -> None:
    """Raise RunConflict if there is already a run with this name."""
    if folder.path.exists():
        message = f"There is a run {folder.name!r} already."
        raise RunConflict(message, "Choose another name with --name.")


def _fill(folder: RunFolder, source: Path, imported: Imported) -> None:
    rounds: set[tuple[str, int, int]] = set()
    run_id = uuid4().hex
    seal = partial(seal_line, tag=run_tag(run_id))
    with JsonLinesWriter(folder.attempts, seal) as writer:
        for where, attempt in imported.attempts:
            _refuse_unusable(where, attempt)
            key = (attempt.instance, attempt.sample, attempt.round)
            if key in rounds:  # it is unknown which one counts
                raise invalid(where, f"{attempt.instance[:80]!r} occurs twice")
            rounds.add(key)
            writer.append(attempt)
    if not rounds:
        raise DataInvalid(f"{source}: it has no samples.", "Nothing was imported.")
    folder.write_config(imported.config)
    now = time.time()
    times = {key: imported.manifest.get(key) or now for key in ("started_at", "ended_at")}
    with opened(source) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    content = {
        "sessions": [{**times, "ended": "finished", "retried": []}],
        "id": run_id,
        "sealed": True,
        "schema_version": SCHEMA_VERSION,
        "run": folder.name,
        "packages": package_versions(),
        "samples": len({key[:2] for key in rounds}),
        "owed": 0,
        "resumed": 0,
    }
    origin = {"format": imported.format, "file": source.name, "sha256": digest, "at": now}
    write_json(folder.manifest, content | dict(imported.manifest) | times | {"imported": origin})


def _refuse_unusable(where: str, attempt: Attempt) -> None:
    if attempt.v not in (SCHEMA_VERSION, CRASH_VERSION):
        raise invalid(where, f"an attempt of schema version {attempt.v}")
    if not 0 <= attempt.sample < 2**31 or not 1 <= attempt.round < 2**31:
        raise invalid(where, f"not a valid attempt: sample {attempt.sample}, round {attempt.round}")
    for name, score in attempt.scores.items():
        if score.value is not None and not -MAX_MAGNITUDE <= score.value <= MAX_MAGNITUDE:
            raise invalid(where, f"the score {name[:80]!r} is too large")
