"""Compares a run's inputs with those that its folder records: may the run continue?"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from harness.config.run_file import is_below
from harness.datasets.folder import DataFolder, sha256
from harness.datasets.rows import differing_row_numbers, item_numbers_text, legacy_differences
from harness.engine.inline_rows import inline_rows_path
from harness.engine.job import Job
from harness.engine.plan import Opening
from harness.engine.reasoning import REASONING
from harness.engine.resolving import replace_grown_hashes, resolve_defaults
from harness.plugin_loader import CODE_HASH_PREFIX
from harness.ports import Backend, overrides_method
from harness.records import Attempt, Instance, messages_hash
from harness.scoring.checks import JUDGE_KEY
from harness.store.files import make_folder
from harness.store.run_folder import ROWS, Differences
from harness.wording import format_count

logger = logging.getLogger("harness")

RULE_KEYS = ("task.checks", "task.extract", "task.gold", "task.groups")
"""Keys of the run file that do not change the prompts of judges."""


def check_changes(job: Job) -> Differences | None:
    """Return the changes of a run since its last session that need `rescore`, or None.

    Raises:
        RunConflict: If the run cannot continue after its changes.
    """
    if not job.folder.has_attempts():
        return None
    fingerprint = replace_grown_hashes(job.fingerprint, job.folder, job.run, job.settings)
    differences = job.folder.differences(job.run, fingerprint, resolve_defaults)
    if not any(differences):
        return differences if job.rescore else None  # this version may score answers differently
    rescorable = is_rescorable(job, differences)
    from harness.store.index import is_scored  # NumPy takes 0.2 s to import

    is_rescored = is_scored(job.folder, job.task.fingerprint())
    is_rescored &= REASONING not in differences.settings  # `harness score` reads the run's own file
    if rescorable and (job.rescore or is_rescored):
        return differences
    backend = job.model.backend
    backend_hash = f"{CODE_HASH_PREFIX}backends/{job.run.model.backend}_sha256"
    has_other_keys = "model.version" in differences.settings or (
        overrides_method(backend, Backend.key_part) and backend_hash in differences.inputs
    )
    if rescorable:
        rescorable = has_same_prompts(job)
    raise differences.conflict_error(
        job.folder.name,
        cached=backend.cacheable and job.model.caching == "shared" and not has_other_keys,
        rescorable=rescorable,
        data=_describe_data(job),
    )


def _describe_data(job: Job) -> str:
    """Return "the data", with its file and what is known of the change in parentheses."""
    manifest = job.folder.read_manifest()
    path = job.run.task.options.get("path")
    rows_path = inline_rows_path(job.run, job.settings)
    recorded_rows = job.folder.path / ROWS
    facts: list[str] = []
    if rows_path is not None:
        if recorded_rows.exists():
            differing = differing_row_numbers(recorded_rows, rows_path)
            facts.append(f"{item_numbers_text(differing)} of task.rows differ")
    elif isinstance(path, str) and path:  # another package's task may have a path of ""
        facts.append(Path(path).name)
        if path != "builtin":
            file = DataFolder(job.settings.data_dir, job.run.folder).file(path)
            if manifest.get("fingerprint", {}).get("dataset_sha256") == sha256(file):
                reread = item_numbers_text(legacy_differences(file))
                facts.append(f"the same file, but this version reads values of {reread} otherwise")
    n_before = (manifest.get("samples") or 0) // job.folder.read_config().samples
    n_instances = sum(1 for _ in job.instances)
    if n_before not in (0, n_instances):
        facts.append(f"{format_count(n_before, 'instance')}, now {n_instances:,}")
    return f"the data ({': '.join(facts)})" if facts else "the data"


def is_rescorable(job: Job, differences: Differences) -> bool:
    """Return whether a changed run can continue once its answers are scored again.

    `rescore` checks whether the prompts themselves are the same.
    """
    keys = differences.settings.keys()
    inputs = differences.inputs.keys()
    if inputs & {"prompt_sha256", "template_sha256", "decoding_sha256"}:
        return False
    if job.judges:  # their questions must stay the same
        old_checks, new_checks = differences.settings.get("task.checks", ([], []))
        if _judge_checks(old_checks) != _judge_checks(new_checks):
            return False
        if not all(is_below(key, RULE_KEYS) for key in keys):
            return False
        if any(name.startswith(("dataset", "documents")) for name in inputs):
            return False
    only_scoring = all(is_below(key, ["task", REASONING]) for key in keys)
    if not only_scoring or any(is_below(key, ["task.name", "task.shots"]) for key in keys):
        return False
    return inputs <= {
        *job.task.fingerprint(),
        f"{CODE_HASH_PREFIX}tasks/{job.run.task.name}_sha256",
    }


def _judge_checks(checks: object) -> list[Any]:
    entries = checks if isinstance(checks, list) else []
    return [check for check in entries if isinstance(check, Mapping) and JUDGE_KEY in check]


MAX_COMPARED_INSTANCES = 1_000


def has_same_prompts(job: Job) -> bool:
    """Return whether a run's recorded prompts are unchanged, judging by its first instances."""
    from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

    recorded = AttemptIndex(job.folder.attempts)
    plan = job.plan()
    for instance in islice(job.task.instances(), MAX_COMPARED_INSTANCES):
        rows = recorded.find_rows(instance.id)
        if not rows:
            continue
        first = next(recorded.read(Attempt, [rows[0]], judged=False))
        if not has_same_prompt(job, instance, plan.opening(instance), first):
            return False
    return True


def has_same_prompt(job: Job, instance: Instance[Any], opening: Opening, first: Attempt) -> bool:
    """Return whether an instance's prompt and constraint are those of its first attempt.

    Args:
        job: The run.
        instance: The instance.
        opening: Its present messages.
        first: Its first recorded attempt.
    """
    request = first.request
    if job.run.decoding.constraint == "task" and job.task.constraint_kind is not None:
        constraint = msgspec.to_builtins(job.task.constraint(instance))
        if constraint != request["decoding"].get("constraint"):
            return False
    if job.paraphraser is not None:  # the recorded prompt is a paraphrase
        return opening.cluster == first.cluster
    return bool(messages_hash(opening.messages) == request["messages_hash"])


OWN_ABBREVIATIONS = "own abbreviations"  # in the name of a splitter without NLTK's parameters


def warn_of_splitter(fingerprint: Mapping[str, str], cache: Path, *, simulated: bool) -> None:
    """Warn, once per cache folder, if a published data set is scored without NLTK's parameters.

    Args:
        fingerprint: Of the run.
        cache: The cache folder.
        simulated: Whether the run's answers are simulated: there is no warning then.
    """
    is_published = fingerprint.get("dataset") != "builtin"
    if not is_published or simulated or OWN_ABBREVIATIONS not in fingerprint.get("splitter", ""):
        return
    mark = cache / "splitter_reported"
    if mark.exists():
        return
    with suppress(OSError):
        make_folder(cache)
        mark.touch()
    logger.warning(
        "NLTK's sentence parameters are missing, so a few verdicts differ from the published "
        "ones. To install them: harness data fetch punkt"
    )
