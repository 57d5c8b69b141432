"""Other runs that a run file names, to compare with their answers or to use their mistakes."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.engine.assessment import judged_outcomes
from harness.engine.reasoning import RecordedAnswers
from harness.errors import ConfigError, DataMissing
from harness.ports import Task
from harness.records import Attempt, Instance
from harness.scoring.reasoning import Reasoning
from harness.store.columns import name_digest
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder, change
from harness.store.runs import find_run


def other_run(runs: Path, name: str, task: Task[Any], key: str, *, simulated: bool) -> RunFolder:
    """Return the run that a run file names under ``key``.

    It must have been made with the data of ``task``, and by a real model unless ``simulated``.
    """
    try:
        folder = find_run(runs, name)
    except DataMissing as error:
        raise ConfigError(f"{key}: {error.message}", error.remedy) from None
    if folder.read_manifest().get("simulated") and not simulated:
        problem = f"{key}: the answers of the run {name!r} come from a simulated model."
        raise ConfigError(problem, "Name a run of a real model.")
    if difference := data_difference(folder, task):
        raise ConfigError(
            f"{key}: the run {name!r} has a different {difference}.", "Name a run of the same data."
        )
    return folder


def data_difference(folder: RunFolder, task: Task[Any]) -> str:
    """Describe how a run's data differs from a task's, or return "" if it does not."""
    before = folder.read_manifest().get("fingerprint", {})
    for key, now in task.fingerprint().items():
        if key.startswith(("dataset", "documents")) and before.get(key, now) != now:
            return change(key, before[key], now)
    return ""


class RunAnswers:
    """A run's answers to its instances.

    An instance's answer is the text of its first sample's last round, if judges score that round's
    outcome. ``failed`` is the number of instances whose last round is a failed call. ``scripted``
    says whether some rounds are turns of a conversation. ``reasoning`` has the marks of the run's
    model: reasoning is no part of an answer.
    """

    def __init__(self, path: Path, task: Task[Any], reasoning: Reasoning) -> None:
        self._index = AttemptIndex(path, judges=False)
        self._answers = RecordedAnswers(self._index, reasoning)
        self._row: dict[int, int] = {}
        self.failed = 0
        self.scripted = self._index.attempts.turns is not None
        rows = self._index.last_rounds()
        rows = rows[self._index.attempts.sample[rows] == 0]
        outcomes = judged_outcomes(task)
        texts: list[bytes] = []
        for row, answer in zip(rows.tolist(), self._read(rows), strict=True):
            self.failed += answer.outcome == "error"
            if answer.outcome in outcomes:
                self._row[name_digest(answer.instance)] = row
                texts.append(sha256(msgspec.json.encode([answer.instance, answer.text])).digest())
        self._sha256 = sha256(b"".join(sorted(texts))).hexdigest()

    def _read(self, rows: NDArray[np.intp] | Sequence[int]) -> Iterator[Attempt]:
        return self._answers.of(self._index.read(Attempt, rows, judged=False))

    def has(self, instance: Instance[Any]) -> bool:
        """Return whether the instance has an answer."""
        return name_digest(instance.id) in self._row

    def text(self, instance: Instance[Any]) -> str | None:
        """Return an instance's answer, or None if it has none."""
        row = self._row.get(name_digest(instance.id))
        if row is None:
            return None
        (answer,) = self._read([row])
        return answer.text or ""

    def fingerprint(self) -> Mapping[str, str]:
        """Return a hash of all answers, under the key ``against_sha256``."""
        return {"against_sha256": self._sha256}


def answers_of(runs: Path, name: str, task: Task[Any], *, simulated: bool) -> RunAnswers:
    """Return a finished run's answers, for a judge's option ``against`` (see `other_run`)."""
    folder = other_run(runs, name, task, "against", simulated=simulated)
    if not folder.begun() or folder.read_manifest().get("owed"):
        remedy = "Run its file again first: answers made later would be missing here."
        raise ConfigError(f"against: the run {name!r} is not finished.", remedy)
    reasoning = Reasoning(folder.read_config().model.reasoning)
    answers = RunAnswers(folder.attempts, task, reasoning)
    if answers.scripted:
        problem = f"against: the run {name!r} has conversations of several turns."
        raise ConfigError(problem, "Only answers to the same prompt can be compared.")
    if answers.failed:  # their later answers would change the texts to compare with
        problem = f"against: {answers.failed:,} calls of the run {name!r} have failed."
        raise ConfigError(problem, "Run its file again: it repeats failed calls.")
    return answers
