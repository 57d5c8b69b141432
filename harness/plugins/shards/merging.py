"""`harness merge`: merges all shards' runs into one run, which can be resumed like any other."""

import contextlib
import glob
import logging
import shutil
from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import typer

from harness.analysis.metrics import encode_metrics
from harness.analysis.summary import compute_metrics
from harness.cli.manage import read_run_metrics
from harness.config.identity import conflicting_keys
from harness.config.run_file import Shard
from harness.config.settings import Settings
from harness.engine.resolving import build_task
from harness.errors import DataMissing, RunConflict, StoreFailed
from harness.execution import ExecutionRefused
from harness.plugin_loader import kind
from harness.ports import Task, overrides_method
from harness.report.run_tables import run_document
from harness.store.aggregates import write_aggregates
from harness.store.columns import AttemptTable
from harness.store.file_states import (
    APPENDED_FILES,
    REDRAWS_KEY,
    REPEATED_KEY,
    RESULT_FILES,
    SETTINGS_FILES,
    STATES_KEY,
    compute_states,
)
from harness.store.files import RUN_REMEDY, make_folder, read_file, write_atomically, write_json
from harness.store.index import AttemptIndex, count_run_redraws, read_attempts
from harness.store.json_lines import read_lines
from harness.store.judgements import read_register, write_register
from harness.store.lost_lines import find_loss
from harness.store.run_folder import (
    FRESH_KEY,
    JUDGEMENTS,
    PLACE_KEY,
    REFERENCES,
    ROWS,
    SHARD_KEY,
    RunFolder,
    read_prices,
)
from harness.store.runs import (
    latest_session_start,
    run_name,
    run_path,
    runs_of_shards,
    shard_base_name,
)
from harness.store.unrecorded import UNRECORDED_KEY, UnrecordedCalls, unrecorded_calls
from harness.terminal.console import say, show

logger = logging.getLogger("harness")

Shards = Mapping[Shard, RunFolder]


def find_shards(root: Path, base: str) -> Mapping[str, Shards]:
    """Return the runs of all shards of a run file, by variant ("" without variants).

    Raises:
        DataMissing: If shards or all shards of a variant are missing, or their counts differ.
    """
    variants: dict[str, dict[Shard, RunFolder]] = {}
    last: Mapping[str, Any] = {}
    for folders in runs_of_shards(root, base).values():
        for folder in folders:
            manifest = folder.read_manifest()
            if latest_session_start(manifest) >= latest_session_start(last):
                last = manifest
            if part := folder.read_config().parsed_shard:
                variants.setdefault(manifest.get("variant") or "", {})[part] = folder
    if not variants:
        problem = f"There are no shards of {base!r} in {root}."
        remedy = f"Start each with --shard NUMBER/COUNT: its run is named {base}-NUMBERofCOUNT."
        raise DataMissing(problem, remedy)
    for variant, shards in variants.items():
        counts = {part.n_shards for part in shards}
        count = max(counts)
        expected = [Shard(number, count) for number in range(1, count + 1)]
        missing = [shard_base_name(base, shard) for shard in expected if shard not in shards]
        if len(counts) > 1 or missing:
            problem = (
                f"These shards of {run_name(base, variant)!r} are missing: {', '.join(missing)}."
            )
            if len(counts) > 1:
                problem = f"{base!r} has shards of several counts: {sorted(counts)}."
            raise DataMissing(problem, f"Run them, or copy their folders to {root}.")
    if lost := [variant for variant in last.get("variants", ()) if variant not in variants]:
        names = ", ".join(repr(run_name(base, variant)) for variant in lost)
        problem = f"All shards of {names} are missing."
        raise DataMissing(problem, f"Run them, or copy their folders to {root}.")
    return variants


def merge(shards: Shards, name: str, settings: Settings) -> RunFolder:
    """Merge all shards' attempts and judgements into a new run.

    Raises:
        RunConflict: If the name is taken, or the shards are unfinished or not of one run.
    """
    target = RunFolder(settings.runs_dir, name)
    folders = [shards[shard] for shard in sorted(shards)]
    if target.exists():
        raise RunConflict(
            f"There is already a run {name!r}.", f"To rename it: harness mv {name} NEW"
        )
    with contextlib.ExitStack() as holds:
        for folder in folders:
            holds.enter_context(folder.lock())
        _check(folders)
        for stale in settings.runs_dir.glob(f".merge-{glob.escape(name)}-*"):
            shutil.rmtree(stale, ignore_errors=True)  # of a merge that was killed
        # No run's name begins with a dot, so this folder is never mistaken for a run. It is new:
        # what has its name may be a link to another folder.
        temporary = mkdtemp(prefix=f".merge-{name}-", dir=settings.runs_dir)
        new = RunFolder(Path(temporary), name)
        try:
            _write(new, folders)
            if all(folder.was_made_here() for folder in folders):
                new.update_manifest({PLACE_KEY: target.first_account()})
            _aggregate(new, settings)
            new.update_manifest(
                {STATES_KEY: compute_states(new.path, (*APPENDED_FILES, *SETTINGS_FILES))}
            )
            metrics = compute_metrics(new)
            write_atomically(new.metrics, encode_metrics(metrics))
            names = (*APPENDED_FILES, *SETTINGS_FILES, *RESULT_FILES)
            repeated = AttemptIndex(new.attempts, judges=False).n_repeated
            counts = {REDRAWS_KEY: count_run_redraws(new), REPEATED_KEY: repeated}
            new.update_manifest({STATES_KEY: compute_states(new.path, names), **counts})
            new.path.rename(target.path)
        except OSError as error:
            problem = f"Cannot write {target.path}: {error.strerror}."
            raise StoreFailed(problem, RUN_REMEDY) from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return target


def _aggregate(new: RunFolder, settings: Settings) -> None:
    """Write the metrics that the task computes from all answers, unless they need refused code."""
    run = new.read_config()
    try:
        if overrides_method(kind("tasks").load(run.task.name), Task.aggregate_answers):
            write_aggregates(new.attempts, build_task(run, settings))
    except ExecutionRefused as error:
        remedy = f"To add them: harness run FILE --name {new.name}"
        logger.warning(
            f"{new.name}: the metrics of its task, if any, are missing. {error.message} {remedy}"
        )


def _check(folders: Sequence[RunFolder]) -> None:
    first = folders[0]
    config = first.read_config()
    fingerprint = first.read_manifest().get("fingerprint")
    register = read_register(first.path)
    verdicts: Verdicts = {}
    for folder in folders:
        attempts = read_attempts(folder.attempts)
        if loss := find_loss(folder, attempts):
            raise RunConflict(loss.message, f"{loss.remedy} Then merge again.")
        if not folder.progress()[0]:
            problem = f"The run {folder.name!r} is unfinished."
            raise RunConflict(problem, "Repeat its command, then merge again.")
        _refuse_overlap(verdicts, folder, attempts)
        shard_config = folder.read_config().model_copy(update={"shard": config.shard})
        # In both directions: some keys may grow.
        keys = {*conflicting_keys(config, shard_config), *conflicting_keys(shard_config, config)}
        if folder.read_manifest().get("fingerprint") != fingerprint:
            keys.add("the task's data or checks")
        if read_register(folder.path) != register:
            keys.add("the judges")
        if (folder.path / REFERENCES).exists():
            problem = f"{folder.name!r} has judged reference answers ({REFERENCES}/)."
            remedy = "Move this folder away, and judge the references of the merged run: "
            raise RunConflict(problem, f"{remedy}the replies are in the cache.")
        if keys:
            differ = ", ".join(sorted(keys))
            problem = (
                f"{folder.name!r} and {first.name!r} are not shards of one run: they differ in "
            )
            raise RunConflict(f"{problem}{differ}.", "Run them with the same file and version.")


Verdicts = dict[tuple[int, int], tuple[RunFolder, int]]  # by instance and sample


def _refuse_overlap(verdicts: Verdicts, folder: RunFolder, attempts: AttemptTable) -> None:
    """Add a shard's samples to the ``verdicts``, or refuse it if another one has one of them."""
    last = attempts.last_rounds()
    digests = last.instances.digest[last.instance]
    columns = (column.tolist() for column in (digests, last.sample, last.passed))
    for digest, sample, passed in zip(*columns, strict=True):
        first, verdict = verdicts.setdefault((digest, sample), (folder, passed))
        if first is not folder:
            how = "the same verdict" if verdict == passed else "different verdicts"
            problem = f"{first.name!r} and {folder.name!r} have the same sample, with {how}."
            remedy = "Each shard has its own samples: was a file of attempts copied? Run it again."
            raise RunConflict(problem, remedy)


def _write(new: RunFolder, folders: Sequence[RunFolder]) -> None:
    """Write the files of the merged run except its metrics and aggregates."""
    first = folders[0]
    manifests = [folder.read_manifest() for folder in folders]
    make_folder(new.path)
    for file in (first.attempts.name, JUDGEMENTS):
        parts = [folder.path / file for folder in folders if (folder.path / file).exists()]
        if parts:
            with (new.path / file).open("wb") as joined:
                for part in parts:
                    joined.writelines(text for _, text in read_lines(part))
    if (first.path / ROWS).exists():
        write_atomically(new.path / ROWS, read_file(first.path / ROWS))
    if (register := read_register(first.path)).judges:
        write_register(new.path, register)
    new.write_prices(
        {key: prices for folder in folders for key, prices in read_prices(folder.path).items()}
    )
    if paid := fsum(folder.read_spending().usd for folder in folders):
        new.write_spending(uuid4().hex, paid)
    new.write_config(first.read_config().model_copy(update={"shard": None}))
    unknown = sum(manifest.get("unanswerable") or 0 for manifest in manifests)
    unrecorded: dict[str, UnrecordedCalls] = {}
    for manifest in manifests:
        for key, calls in unrecorded_calls(manifest).items():
            unrecorded[key] = unrecorded.get(key, UnrecordedCalls()) + calls
    sessions = [session for manifest in manifests for session in manifest.get("sessions", [])]
    write_json(
        new.manifest,
        {
            key: value
            for key, value in manifests[0].items()
            if key not in (STATES_KEY, FRESH_KEY, PLACE_KEY, SHARD_KEY)
        }
        | {
            "id": uuid4().hex,
            "run": new.name,
            "merged": [folder.name for folder in folders],
            UNRECORDED_KEY: msgspec.to_builtins(unrecorded),
            "merged_ids": [folder.run_id() for folder in folders],
            "sealed": all(manifest.get("sealed") for manifest in manifests),
            **({"unanswerable": unknown} if unknown else {}),
            "samples": sum(manifest["samples"] for manifest in manifests),
            "owed": sum(manifest["owed"] for manifest in manifests),
            "sessions": sorted(sessions, key=lambda session: session.get("started_at") or 0.0),
            "started_at": min(manifest.get("started_at") or 0.0 for manifest in manifests),
            "ended_at": max(manifest.get("ended_at") or 0.0 for manifest in manifests),
        },
    )


def merge_all(base: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Merge the runs of all shards (harness run FILE --shard 1/4, …) into one run.

    All shards must be finished and in the folder of runs. Their runs stay. The merged run can be
    shown, compared and resumed like a run that was never split.

    Args:
        base: The name of the run file, or the --name of the shards.
    """
    settings = Settings()
    base = run_path(settings.runs_dir, base).name
    variants = find_shards(settings.runs_dir, base)
    for variant, shards in variants.items():
        name = run_name(base, variant)
        merged = merge(shards, name, settings)
        if metrics := read_run_metrics(merged):
            show(run_document(metrics))
        say(f"Merged {len(shards):,} shards: {merged.path}")
