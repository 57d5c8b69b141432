"""`harness reproduce`: runs a study, and records hashes by which its page can be verified."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct

import harness
from harness.cli.options import Format, Overrides
from harness.cli.run import print_early_end, run_with_display
from harness.config import shipped
from harness.config.loading import load_variants
from harness.config.run_file import RunFile
from harness.config.settings import Settings
from harness.engine.changes import OWN_ABBREVIATIONS
from harness.engine.executor import execute_all
from harness.engine.job import Job
from harness.engine.models import Resources
from harness.engine.preparation import prepare_all, prepare_data
from harness.engine.resolving import parse_model_name
from harness.errors import ConfigError, DataInvalid, DataMissing, unreadable_file_error
from harness.plugins.comparisons.comparable import read_run
from harness.plugins.reproduce.page import study_document, study_page
from harness.plugins.reproduce.study import (
    Finding,
    Study,
    find_study,
    findings,
    read_study,
    shipped_studies,
)
from harness.records import Attempt, content_hash
from harness.store.files import check_output_path, write_atomically, write_json
from harness.store.index import AttemptIndex
from harness.store.manifest import package_versions
from harness.store.run_folder import RunFolder
from harness.store.runs import to_run_name
from harness.terminal.console import say, show
from harness.terminal.display import Display
from harness.user_code import files_sha256

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
        model: The model to use (see `parse_model_name`). If empty, recorded answers are used
            or, where there are none, a simulated model.
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
        model_name = model or "simulated"
        changes = [f"model={json.dumps(parse_model_name(model_name))}"]
        if not model:
            changes += run.offline
        changes += overrides
        base = f"{name}-{key}-{to_run_name(model_name)}"
        jobs |= _jobs(key, run.live, base, resources, changes, fetch if model else None)
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
    runs = load_variants(shipped.find(file), overrides)
    keys = {override.partition("=")[0].strip() for override in overrides}
    for option in keys & {"task.rows", "task.path"}:
        if any(run.task.name != "jsonl" for run in runs.values()):
            problem = f"{option} cannot be set: the study fixes the data of its task."
            remedy = "For fewer instances, add -o limit=N. For your own rows: harness docs jsonl."
            raise ConfigError(problem, remedy)
    if fetch:
        fetch(runs, base)
    jobs = {}
    for variant, job in prepare_all(runs, base, resources).items():
        name = f"{key}.{variant}" if variant else key
        jobs[name] = job
    return jobs


def record(study: Study, folders: Mapping[str, RunFolder], made_at: float) -> StudyRecord:
    """Build a study's record: our values, what they are compared with, and hashes of all inputs."""
    replies = {}
    runs = {}
    for name, folder in folders.items():
        replies[name] = _replies(folder)
        runs[name] = read_run(folder)
    return StudyRecord(
        made_at=made_at,
        packages=package_versions(),
        code_sha256=code_sha256(),
        study=study.model_dump(),
        runs=replies,
        findings=findings(study, runs),
    )


def differences(path: Path, runs_dir: Path) -> Iterator[str]:
    """Yield the differences between a study's record (``path``) and its present runs and code.

    If a run is missing, nothing else is compared.
    """
    recorded = read_record(path)
    study = Study.model_validate(recorded.study)
    folders = {name: RunFolder(runs_dir, run.folder) for name, run in recorded.runs.items()}
    absent = [folder.name for folder in folders.values() if not folder.has_attempts()]
    if absent:
        yield f"these runs are not in {runs_dir}: {', '.join(absent)}"
        return
    present = record(study, folders, recorded.made_at)
    for name, before in recorded.runs.items():
        yield from _run_differences(before, present.runs[name])
    for old, new in zip(recorded.findings, present.findings, strict=True):
        if msgspec.to_builtins(old) != msgspec.to_builtins(new):
            values = f"{_value_text(old.ours)} on the page, {_value_text(new.ours)} now"
            yield f"{old.exhibit}, {old.row}, {old.column}: {values}"
    if recorded.code_sha256 != present.code_sha256:
        yield f"the code of the harness differs (the page: {recorded.packages['harness']})"


def _run_differences(before: Replies, after: Replies) -> Iterator[str]:
    for key in sorted({*before.replies, *after.replies}):
        if before.replies.get(key) != after.replies.get(key):
            what = "differs"
            if key not in before.replies:
                what = "is new"
            elif key not in after.replies:
                what = "is missing"
            yield f"{before.folder}: the reply or a score of {key} {what}"
    for field in ("config_sha256", "fingerprint"):
        if getattr(before, field) != getattr(after, field):
            yield f"{before.folder}: {field} differs"


def _value_text(value: float | None) -> str:
    return "no value" if value is None else f"{value:.10g}"


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


def cautions(study_record: StudyRecord) -> list[str]:
    """Return warnings about a page, if the sentence splitter may have changed its values."""
    simulated = {finding.run for finding in study_record.findings if finding.why == "simulated"}
    runs = set[str]()
    for name, run in study_record.runs.items():
        if OWN_ABBREVIATIONS in run.fingerprint.get("splitter", "") and name not in simulated:
            runs.add(name)
    if not runs:
        return []
    names = ", ".join(sorted(runs))
    return [
        f"NLTK's sentence parameters were not installed, so a few verdicts of {names} "
        "may differ from those of the published code. To repeat the study with them, run harness "
        "data fetch punkt, and reproduce it under another --name."
    ]


def facts(study_record: StudyRecord) -> dict[str, str]:
    """Return the hashes and versions, by name, on which a study's page is based."""
    hashes = {"harness": study_record.packages["harness"], "code": study_record.code_sha256}
    hashes["study"] = content_hash(study_record.study)
    for name, run in study_record.runs.items():
        hashes[f"{name}: run file"] = run.config_sha256
        hashes[f"{name}: {len(run.replies):,} replies"] = content_hash(run.replies)
        hashes |= {f"{name}: {key}": value for key, value in run.fingerprint.items()}
    return hashes


def code_sha256() -> str:
    """Return the SHA-256 hash (hex digits) of the harness's own code."""
    return files_sha256(sorted(Path(harness.__file__).parent.rglob("*.py")))


def _replies(folder: RunFolder) -> Replies:
    hashes = {}
    for attempt in AttemptIndex(folder.attempts).read(Attempt):
        verdict = (attempt.outcome, attempt.passed, attempt.scores)
        content = (attempt.text, attempt.finish_reason, *verdict)
        name = f"{attempt.instance}, sample {attempt.sample}, round {attempt.round}"
        hashes[name] = content_hash(msgspec.to_builtins(content))[:16]
    return Replies(
        folder=folder.name,
        config_sha256=hashlib.sha256(folder.config.read_bytes()).hexdigest(),
        fingerprint=dict(folder.read_manifest().get("fingerprint", {})),
        replies=hashes,
    )


MOST = 20  # maximum number of differences to print
DIFFERS = 3  # exit code if a verified page does not match its runs


def reproduce(
    study: Annotated[str, typer.Argument(help="A paper's name, or the path of a study.")] = "",
    model: Annotated[str, typer.Option("-m", "--model", metavar="MODEL")] = "",
    option: Overrides = None,
    name: Annotated[str, typer.Option(metavar="NAME")] = "",
    output: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    verify: Annotated[Path | None, typer.Option(metavar="PAGE")] = None,
    form: Format = "table",
) -> None:
    """Reproduce a paper's tables and figures, and compare them with the paper and official code.

    Replays recorded answers where they exist. Other runs are simulated unless --model is set.
    Prints a summary, or every cell with --format csv or json. Writes an HTML page and its record, a
    JSON file with a hash of every reply. To resume an interrupted study, repeat the command. Exit
    codes: 0 finished, 1 failed, 3 the budget is spent or a verified page does not match its runs.

    Args:
        model: Ask this model instead, such as openai/gpt-4o-mini.
        option: Override a key of the study's run files, such as budget.usd=5; repeatable.
        name: Prefix of the runs' names (default: the study's name).
        output: The page to write (default: STUDY.html); its record is written next to it.
        verify: Check a page against its record and runs, and list the differences.
    """
    settings = Settings()
    if verify is not None:
        raise typer.Exit(_verify(verify, settings.runs_dir))
    if not study:
        known = ", ".join(shipped_studies())
        raise ConfigError(
            "Which study?",
            f"Name one of {known}, or the path of your own study. To try it offline, without "
            "recorded answers: harness reproduce last_letter. 'harness data fetch collie' and "
            "'natural_instructions' download theirs (harness docs reproduce).",
        )
    study_name, path = find_study(study)
    page = output or Path(f"{study_name}.html")
    check_output_path(page)
    loaded = read_study(path)
    with Resources(settings) as resources:
        jobs, reasons = study_jobs(
            loaded,
            name or study_name,
            resources,
            model,
            option or [],
            partial(prepare_data, resources=resources),
        )
        for reason in reasons:
            say(reason, "yellow")
        command = f"harness reproduce {study}"
        with Display({job.folder.name: name for name, job in jobs.items()}) as display:
            run_with_display(_execute([*jobs.values()], display, command), display, command)
    study_record = record(loaded, {name: job.folder for name, job in jobs.items()}, time.time())
    write_json(page.with_suffix(".json"), study_record)
    write_atomically(page, _page(study_record).encode())
    show(study_document(loaded, study_record.findings), form)
    say(f"Page in {page}; check it with: harness reproduce --verify {page}")


async def _execute(jobs: Sequence[Job], display: Display, command: str) -> None:
    """Execute the runs of a study, all of which must finish."""
    async for _, result, error in execute_all(jobs, display.watch, lambda: display.interrupted):
        if error is not None:
            raise error
        assert result is not None
        if code := print_early_end(result.ending, result.tally.budget, "budget.usd", command):
            raise typer.Exit(code)


def _page(study_record: StudyRecord) -> str:
    study = Study.model_validate(study_record.study)
    hashes = facts(study_record)
    findings = study_record.findings
    return study_page(study, findings, hashes, cautions(study_record), study_record.made_at)


def _verify(page: Path, runs_dir: Path) -> int:
    record_path = page.with_suffix(".json")
    study_record = read_record(record_path)
    try:
        content = page.read_bytes()
    except OSError as error:
        raise unreadable_file_error(page, error) from None
    problems = list(differences(record_path, runs_dir))
    if content != _page(study_record).encode():
        problems.insert(0, f"{page} is not the page of {record_path}")
    for problem in problems[:MOST]:
        say(problem, "red")
    if len(problems) > MOST:
        say(f"… and {len(problems) - MOST:,} more")
    if problems:
        say(f"{page}: {len(problems):,} differences")
        return DIFFERS
    n = sum(len(run.replies) for run in study_record.runs.values())
    say(f"{page} matches its {n:,} replies")
    return 0
