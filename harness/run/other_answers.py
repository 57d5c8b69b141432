"""The answers of another run, for a judge that compares with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.ports import Task
from harness.records import Instance
from harness.run.judging import judged_outcomes
from harness.store.last_answers import LastAnswers
from harness.store.run_folder import RunFolder, find_run


def other_data(folder: RunFolder, task: Task[Any]) -> str:
    """What a run's data differs in from a task's, by their fingerprints; empty for nothing."""
    before = folder.read_manifest().get("fingerprint", {})
    for key, now in task.fingerprint().items():
        if key.startswith("dataset") and before.get(key, now) != now:
            return f"{key} ({before[key]}, now {now})"
    return ""


class RunAnswers:
    """The first sample's last answer to each instance of a run.

    path: of its attempts. task: says which outcomes are answers.

    failed: instances whose call has failed: they are owed an answer.

    Raises: DataInvalid, StoreFailed.
    """

    def __init__(self, path: Path, task: Task[Any]) -> None:
        self._answers = LastAnswers(path, judged_outcomes(task))
        self.failed = self._answers.failed

    def has(self, instance: Instance[Any]) -> bool:
        """Whether there is an answer to an instance."""
        return self._answers.has(instance.id)

    def text(self, instance: Instance[Any]) -> str | None:
        """The answer to an instance. Raises: StoreFailed."""
        return self._answers.text(instance.id)

    def fingerprint(self) -> Mapping[str, str]:
        """Which texts these are."""
        return {"against_sha256": self._answers.sha256}


def answers_of(runs: Path, name: str, task: Task[Any], *, made_up: bool) -> RunAnswers:
    """The answers of the run of a name, which must have ended and be of the task's data.

    runs: the folder of all runs.
    made_up: whether a simulated run's will do.

    Raises: ConfigError, DataMissing, DataInvalid, StoreFailed.
    """
    folder = find_run(runs, name)
    manifest = folder.read_manifest()
    if not folder.begun() or manifest.get("owed"):
        raise ConfigError(
            f"against: the run {name!r} is not finished.",
            "Run its file again: later answers would be compared with none.",
        )
    if manifest.get("simulated") and not made_up:
        raise ConfigError(
            f"against: the answers of the run {name!r} are made up (SIMULATED).",
            "Name a run of a real model.",
        )
    if key := other_data(folder, task):
        raise ConfigError(
            f"against: the run {name!r} has another {key}.", "Name a run of the same data."
        )
    answers = RunAnswers(folder.attempts, task)
    if answers.failed:  # once they are made the texts are others, and the judge is another one
        raise ConfigError(
            f"against: {answers.failed:,} calls of the run {name!r} have failed.",
            "Run its file again: failed calls are made again.",
        )
    return answers
