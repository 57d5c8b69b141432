"""Compares a run's inputs with those that its folder records: may the run continue?"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.config.run_file import is_below
from harness.datasets.folder import DataFolder, sha256
from harness.datasets.rows import differing_rows, items, reread_rows
from harness.engine.job import Job
from harness.engine.reasoning import REASONING
from harness.engine.recordings import if_grown
from harness.engine.resolving import resolved
from harness.engine.run_files import own_rows
from harness.plugin_loader import CODE
from harness.ports import Backend, overrides
from harness.scoring.checks import JUDGE
from harness.store.files import make_folder
from harness.store.run_folder import ROWS, Differences
from harness.wording import count_of

logger = logging.getLogger("harness")

OF_RULES = ("task.checks", "task.extract", "task.gold", "task.groups")
"""Keys of the run file that do not change what judges are asked."""


def check_changes(job: Job) -> Differences | None:
    """Raise RunConflict if a run cannot continue. Return changes that need `rescore`, if any."""
    if not job.folder.begun():
        return None
    fingerprint = if_grown(job.fingerprint, job.folder, job.run, job.settings)
    found = job.folder.differences(job.run, fingerprint, resolved)
    if not any(found):
        return found if job.rescore else None  # this version may score answers differently
    rescorable = is_rescorable(job, found)
    from harness.store.index import is_scored  # NumPy takes 0.2 s to import

    scored = is_scored(job.folder, job.task.fingerprint())
    scored &= REASONING not in found.settings  # `harness score` reads the run's own file
    if rescorable and (job.rescore or scored):
        return found
    backend, code = job.model.backend, f"{CODE}backends/{job.run.model.backend}_sha256"
    shared = backend.cacheable and job.model.caching == "shared"
    other = overrides(backend, Backend.key_part) and code in found.inputs  # replies have other keys
    other |= "model.version" in found.settings
    if rescorable:
        from harness.engine.rescoring import has_same_prompts  # not imported for most runs

        rescorable = has_same_prompts(job)
    said = {"cached": shared and not other, "rescorable": rescorable}
    raise found.conflict(job.folder.name, **said, data=_named_data(job))


def _named_data(job: Job) -> str:
    """Return "the data", with its file and what is known of the change."""
    path = job.run.task.options.get("path") or None  # another package's task may have a path of ""
    own = own_rows(job.run, job.settings)
    known = [Path(path).name] if isinstance(path, str) and not own else []
    recorded = job.folder.path / ROWS
    if own and recorded.exists():
        known.append(f"{items(differing_rows(recorded, own))} of task.rows differ")
    elif isinstance(path, str) and path != "builtin" and not own:
        file = DataFolder(job.settings.data_dir, job.run.folder).file(path)
        before = job.folder.read_manifest().get("fingerprint", {}).get("dataset_sha256")
        if before == sha256(file):
            reread = items(reread_rows(file))
            known.append(f"the same file, but this version reads values of {reread} otherwise")
    samples, each = job.folder.read_manifest().get("samples"), job.folder.read_config().samples
    before, now = (samples or 0) // each, sum(1 for _ in job.instances)
    if before not in (0, now):
        known.append(f"{count_of(before, 'instance')}, now {now:,}")
    return f"the data ({': '.join(known)})" if known else "the data"


def is_rescorable(job: Job, found: Differences) -> bool:
    """Return whether a run can continue with these differences once its answers are scored again.

    `rescore` checks whether the prompts themselves are the same.
    """
    keys, inputs = found.settings.keys(), found.inputs.keys()
    if inputs & {"prompt_sha256", "template_sha256", "decoding_sha256"}:
        return False
    if job.judges:  # their questions must stay the same
        checks = [_judge_checks(one) for one in found.settings.get("task.checks", ([], []))]
        other = [key for key in keys if not is_below(key, OF_RULES)]
        data = any(one.startswith(("dataset", "documents")) for one in inputs)
        if checks[0] != checks[1] or other or data:
            return False
    of_task = all(is_below(key, ["task", REASONING]) for key in keys)
    if not of_task or any(is_below(key, ["task.name", "task.shots"]) for key in keys):
        return False
    return inputs <= {*job.task.fingerprint(), f"{CODE}tasks/{job.run.task.name}_sha256"}


def _judge_checks(checks: object) -> list[Any]:
    listed = checks if isinstance(checks, list) else []
    return [check for check in listed if isinstance(check, Mapping) and JUDGE in check]


OWN_ABBREVIATIONS = "own abbreviations"  # in the name of a splitter without NLTK's parameters


def check_splitter(fingerprint: Mapping[str, str], folder: Path, *, simulated: bool) -> None:
    """Warn, once per ``folder``, if real data are scored without NLTK's parameters."""
    published = fingerprint.get("dataset") != "builtin"
    if not published or simulated or OWN_ABBREVIATIONS not in fingerprint.get("splitter", ""):
        return
    reported = folder / "splitter_reported"
    if reported.exists():
        return
    with suppress(OSError):
        make_folder(folder)
        reported.touch()
    logger.warning(
        "NLTK's sentence parameters are missing, so a few verdicts differ from the published "
        "ones. To install them: harness data fetch punkt"
    )
