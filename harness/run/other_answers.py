"""The answers of another run, for a judge that compares with them."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import ConfigError
from harness.ports import Task
from harness.records import Instance, Outcome
from harness.run.judging import judged_outcomes
from harness.store.columns import name_digest
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder, find_run


def other_data(folder: RunFolder, task: Task[Any]) -> str:
    """What a run's data differs in from a task's, by their fingerprints; empty for nothing."""
    before = folder.read_manifest().get("fingerprint", {})
    for key, now in task.fingerprint().items():
        if key.startswith("dataset") and before.get(key, now) != now:
            return f"{key} ({before[key]}, now {now})"
    return ""


class _Answer(msgspec.Struct, gc=False):
    instance: str
    outcome: Outcome
    text: str | None = None


class RunAnswers:
    """The first sample's last answer to each instance of a run, read when it is asked for.

    Args:
        path: of the run's attempts.
        task: says which outcomes are answers.

    Attributes:
        failed: instances whose call has failed, so that an answer may still come.

    Raises:
        DataInvalid: A line is damaged, or has another schema version.
        StoreFailed: The file cannot be read.
    """

    def __init__(self, path: Path, task: Task[Any]) -> None:
        self._index = AttemptIndex(path, judges=False)
        self._row: dict[int, int] = {}
        self.failed = 0
        rows = self._index.last_rounds()
        rows = rows[self._index.attempts.sample[rows] == 0]
        outcomes = judged_outcomes(task)
        texts: list[bytes] = []
        for row, line in zip(rows.tolist(), self._index.read(_Answer, rows), strict=True):
            self.failed += line.outcome == "error"
            if line.outcome in outcomes:
                self._row[name_digest(line.instance)] = row
                texts.append(sha256(msgspec.json.encode([line.instance, line.text])).digest())
        self._sha256 = sha256(b"".join(sorted(texts))).hexdigest()

    def has(self, instance: Instance[Any]) -> bool:
        """Whether there is an answer to an instance."""
        return name_digest(instance.id) in self._row

    def text(self, instance: Instance[Any]) -> str | None:
        """Read the answer to an instance; None if there is none.

        Raises:
            DataInvalid: The line is damaged.
            StoreFailed: The file cannot be read.
        """
        row = self._row.get(name_digest(instance.id))
        if row is None:
            return None
        (line,) = self._index.read(_Answer, [row])
        return line.text or ""

    def fingerprint(self) -> Mapping[str, str]:
        """A hash over all of the answers."""
        return {"against_sha256": self._sha256}


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
