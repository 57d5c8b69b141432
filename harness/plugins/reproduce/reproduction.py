"""Prepares the runs of a study, and records hashes by which the study's page can be verified."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

import harness
from harness.analysis.comparable import read_run
from harness.config import shipped
from harness.config.loading import load
from harness.config.run_file import RunFile
from harness.engine.changes import OWN_ABBREVIATIONS
from harness.engine.job import Job
from harness.engine.models import Resources
from harness.engine.preparation import prepare_all
from harness.engine.resolving import named_model
from harness.errors import ConfigError, DataInvalid, DataMissing
from harness.plugins.reproduce.study import Finding, Study, findings
from harness.records import Attempt, content_hash
from harness.store.index import AttemptIndex
from harness.store.manifest import package_versions
from harness.store.run_folder import RunFolder
from harness.store.runs import in_run_name

RECORD_VERSION = 2  # 1: a published value was the number in the paper or the code's result


class Replies(Struct, frozen=True):
    """A run of a study: the hashes of its inputs, and of each reply together with its scores."""

    folder: str  # the run's name
    config_sha256: str
    fingerprint: Mapping[str, str]  # hashes of data and prompts, as in the manifest
    replies: Mapping[str, str]  # by "instance, sample, round": hash of the reply and its scores


class StudyRecord(Struct, frozen=True, kw_only=True):
    """Everything that a study's page shows, written to a JSON file next to the page."""

    schema_version: int = RECORD_VERSION
    made_at: float  # epoch seconds
    packages: Mapping[str, str]
    code_sha256: str
    study: Mapping[str, Any]
    runs: Mapping[str, Replies]
    findings: Sequence[Finding]


class _Versioned(Struct):
    schema_version: int


# Called with the runs of a run file and the first part of their names, before they are prepared.
Fetch = Callable[[Mapping[str, RunFile], str], None]


def study_jobs(
    study: Study,
    name: str,
    resources: Resources,
    model: str = "",
    overrides: Sequence[str] = (),
    fetch: Fetch = lambda runs, base: None,
) -> tuple[dict[str, Job], list[str]]:
    """Prepare the runs of a study.

    Args:
        study: The study.
        name: The first part of the runs' names.
        resources: Resources that the runs share.
        model: The model to use (see `named_model`). If empty, recorded answers are used or, where
            there are none, a simulated model.
        overrides: ``KEY=VALUE`` overrides for all runs.
        fetch: Downloads published data for runs that are not simulated.

    Returns:
        The jobs by the runs' names in the study, and notes on simulated and omitted runs.
    """
    jobs: dict[str, Job] = {}
    reasons = []
    for key, run in study.runs.items():
        if not model and run.recorded:
            try:
                jobs |= _jobs(key, run.recorded, f"{name}-{key}", resources, overrides, fetch)
                continue
            except DataMissing as error:
                reason = f"{error.message} {error.remedy}"
        else:
            reason = "There are no recorded answers."
        if not model:
            reasons.append(f"{key} is {'simulated' if run.live else 'not run'}. {reason}")
        if not run.live:
            continue
        asked = model or "simulated"
        changes = [f"model={json.dumps(named_model(asked))}"]
        if not model:
            changes += run.offline
        base = f"{name}-{key}-{in_run_name(asked)}"
        jobs |= _jobs(
            key, run.live, base, resources, [*changes, *overrides], fetch if model else None
        )
    return jobs, reasons


def _jobs(
    key: str,
    file: str,
    base: str,
    resources: Resources,
    overrides: Sequence[str],
    fetch: Fetch | None,
) -> dict[str, Job]:
    """Prepare a file's runs, named with ``key`` in the result and with ``base`` on disk."""
    runs = load(shipped.find(file), overrides)
    keys = {override.partition("=")[0].strip() for override in overrides}
    for option in keys & {"task.rows", "task.path"}:
        if any(run.task.name != "jsonl" for run in runs.values()):
            problem = f"{option} cannot be set: the study fixes the data of its task."
            remedy = "For fewer instances, add -o limit=N. For your own rows: harness docs jsonl."
            raise ConfigError(problem, remedy)
    if fetch:
        fetch(runs, base)
    jobs = prepare_all(runs, base, resources)
    return {f"{key}.{variant}" if variant else key: job for variant, job in jobs.items()}


def record(study: Study, folders: Mapping[str, RunFolder], made_at: float) -> StudyRecord:
    """Build a study's record: our values, what they are compared with, and hashes of all inputs."""
    return StudyRecord(
        made_at=made_at,
        packages=package_versions(),
        code_sha256=code_sha256(),
        study=study.model_dump(),
        runs={name: _replies(folder) for name, folder in folders.items()},
        findings=findings(study, {name: read_run(folder) for name, folder in folders.items()}),
    )


def differences(path: Path, runs_dir: Path) -> Iterator[str]:
    """Yield the differences between a study's record (``path``) and its present runs and code.

    If a run is missing, nothing else is compared.
    """
    kept = read_record(path)
    study = Study.model_validate(kept.study)
    folders = {name: RunFolder(runs_dir, run.folder) for name, run in kept.runs.items()}
    if absent := [folder.name for folder in folders.values() if not folder.begun()]:
        yield f"these runs are not in {runs_dir}: {', '.join(absent)}"
        return
    now = record(study, folders, kept.made_at)
    for name, before in kept.runs.items():
        after = now.runs[name]
        for key in sorted({*before.replies, *after.replies}):
            if before.replies.get(key) != after.replies.get(key):
                what = "is new" if key not in before.replies else "differs"
                what = "is missing" if key not in after.replies else what
                yield f"{before.folder}: the reply or a score of {key} {what}"
        for field in ("config_sha256", "fingerprint"):
            if getattr(before, field) != getattr(after, field):
                yield f"{before.folder}: {field} differs"
    for old, new in zip(kept.findings, now.findings, strict=True):
        if msgspec.to_builtins(old) != msgspec.to_builtins(new):
            was, found = (
                "no value" if one.ours is None else f"{one.ours:.10g}" for one in (old, new)
            )
            yield f"{old.exhibit}, {old.row}, {old.column}: {was} on the page, {found} now"
    if kept.code_sha256 != now.code_sha256:
        yield f"the code of the harness differs (the page: {kept.packages['harness']})"


def read_record(path: Path) -> StudyRecord:
    """Read a study's record from the JSON file next to its page."""
    try:
        content = path.read_bytes()
        version = msgspec.json.decode(content, type=_Versioned).schema_version
        if version == RECORD_VERSION:
            return msgspec.json.decode(content, type=StudyRecord)
    except OSError as error:
        raise ConfigError(
            f"Cannot read {path}: {error.strerror}.", "Name a study's page."
        ) from None
    except msgspec.MsgspecError as error:
        raise DataInvalid(
            f"{path}: not the record of a study ({error}).", "Reproduce it again."
        ) from None
    raise DataInvalid(
        f"{path} is a record of version {version}; this version of the harness reads version "
        f"{RECORD_VERSION}.",
        "Reproduce the study again: its runs are reused.",
    )


def cautions(made: StudyRecord) -> list[str]:
    """Return warnings about a page, if the sentence splitter may have changed its values."""
    simulated = {one.run for one in made.findings if one.why == "simulated"}
    splitters = {name: run.fingerprint.get("splitter", "") for name, run in made.runs.items()}
    own = {name for name, splitter in splitters.items() if OWN_ABBREVIATIONS in splitter}
    named = sorted(own - simulated)
    if not named:
        return []
    return [
        f"NLTK's sentence parameters were not installed, so a few verdicts of {', '.join(named)} "
        "may differ from those of the published code. To repeat the study with them, run harness "
        "data fetch punkt, and reproduce it under another --name."
    ]


def facts(made: StudyRecord) -> dict[str, str]:
    """Return the hashes and versions, by name, on which a study's page is based."""
    found = {"harness": made.packages["harness"], "code": made.code_sha256}
    found["study"] = content_hash(made.study)
    for name, run in made.runs.items():
        found[f"{name}: run file"] = run.config_sha256
        found[f"{name}: {len(run.replies):,} replies"] = content_hash(run.replies)
        found |= {f"{name}: {key}": value for key, value in run.fingerprint.items()}
    return found


def code_sha256() -> str:
    """Return the SHA-256 hash (hex digits) of the harness's own code."""
    root = Path(harness.__file__).parent
    hashes = [hashlib.sha256(path.read_bytes()).digest() for path in sorted(root.rglob("*.py"))]
    return hashlib.sha256(b"".join(hashes)).hexdigest()


def _replies(folder: RunFolder) -> Replies:
    hashes = {}
    for one in AttemptIndex(folder.attempts).read(Attempt):
        said = (one.text, one.finish_reason, one.outcome, one.passed, one.scores)
        name = f"{one.instance}, sample {one.sample}, round {one.round}"
        hashes[name] = content_hash(msgspec.to_builtins(said))[:16]
    return Replies(
        folder=folder.name,
        config_sha256=hashlib.sha256(folder.config.read_bytes()).hexdigest(),
        fingerprint=dict(folder.read_manifest().get("fingerprint", {})),
        replies=hashes,
    )
