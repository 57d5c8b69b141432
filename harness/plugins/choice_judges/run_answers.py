"""The answers of an earlier run, with which a judge compares those of the current one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from harness.engine.assessment import judged_outcomes
from harness.engine.reasoning import RecordedAnswers
from harness.engine.resolving import find_referenced_run
from harness.errors import ConfigError
from harness.ports import Task
from harness.records import Attempt, Instance, Outcome
from harness.scoring.reasoning import Reasoning
from harness.store.columns import name_digest
from harness.store.index import AttemptIndex, read_attempts
from harness.store.lost_lines import find_loss


class RunAnswers:
    """A run's answers to its instances.

    An instance's answer is the text of its first sample's last round, if the round's outcome is one
    of ``outcomes``, which judges score. ``failed`` is the number of instances whose last round is a
    failed call. ``scripted`` says whether some rounds are turns of a conversation. ``reasoning``
    has the marks of the run's model: reasoning is no part of an answer.
    """

    def __init__(self, path: Path, outcomes: Collection[Outcome], reasoning: Reasoning) -> None:
        self._index = AttemptIndex(path, judges=False)
        self._answers = RecordedAnswers(self._index, reasoning)
        self._row: dict[int, int] = {}
        self.failed = 0
        self.scripted = self._index.attempts.turns is not None
        last_rounds = self._index.last_rounds()
        rows = last_rounds[self._index.attempts.sample[last_rounds] == 0].tolist()
        texts: list[bytes] = []
        for row, answer in zip(rows, self._read(rows), strict=True):
            self.failed += answer.outcome == "error"
            if answer.outcome in outcomes:
                self._row[name_digest(answer.instance)] = row
                texts.append(sha256(msgspec.json.encode([answer.instance, answer.text])).digest())
        self._sha256 = sha256(b"".join(sorted(texts))).hexdigest()

    def _read(self, rows: Sequence[int]) -> Iterator[Attempt]:
        return self._answers.separate(self._index.read(Attempt, rows, judged=False))

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
    """Return the answers of a finished run that a judge's option ``against`` names."""
    folder = find_referenced_run(runs, name, task.fingerprint(), "against", simulated=simulated)
    if not folder.has_attempts() or folder.read_manifest().get("owed"):
        remedy = "Run its file again first: answers made later would be missing here."
        raise ConfigError(f"against: the run {name!r} is not finished.", remedy)
    if loss := find_loss(folder, read_attempts(folder.attempts)):
        raise ConfigError(f"against: {loss.message}", loss.remedy)
    reasoning = Reasoning(folder.read_config().model.reasoning)
    answers = RunAnswers(folder.attempts, judged_outcomes(task), reasoning)
    if answers.scripted:
        problem = f"against: the run {name!r} has conversations of several turns."
        raise ConfigError(problem, "Only answers to the same prompt can be compared.")
    if answers.failed:  # their later answers would change the texts to compare with
        problem = f"against: {answers.failed:,} calls of the run {name!r} have failed."
        raise ConfigError(problem, "Run its file again: it repeats failed calls.")
    return answers
