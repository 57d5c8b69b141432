"""Recorded replies under a task as it is now: new scores, and what has changed.

No model is asked and nothing is written here. The attempts are read in the
order of the data set, so that neither its instances nor their texts are ever
held: a few bytes an attempt are.

>>> changes = Changes()
>>> for attempt, scored in rescored(task, AttemptIndex(path, judges=False)):  # doctest: +SKIP
...     changes.record(attempt, scored)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from harness.errors import DataMissing
from harness.ports import Task
from harness.records import SCHEMA_VERSION, Attempt, Instance, Outcome, Reply, Score
from harness.run.assessment import assess
from harness.store.index import AttemptIndex
from harness.store.json_lines import encode

GONE = "The instance is not in the data set any more."


class Rescored(msgspec.Struct, frozen=True):
    """One line of ``scores.jsonl``: what is made of a recorded attempt now.

    error: why an answer is unparseable, or why it could not be scored.
    """

    v: int
    instance: str
    sample: int
    round: int
    outcome: Outcome
    passed: bool | None
    scores: Mapping[str, Score]
    error: str | None = None


def rescore(task: Task[Any], instance: Instance[Any] | None, attempt: Attempt) -> Rescored:
    """Score a recorded attempt anew; a failed call stays what it was.

    instance: None where the data set has it no more. There is no verdict then,
        which is not a failed one.
    """
    outcome, passed, scores, error = (
        attempt.outcome, attempt.passed, attempt.scores, attempt.error
    )  # fmt: skip
    if attempt.outcome == "error":
        pass
    elif instance is None:
        passed, scores, error = None, {}, GONE
    else:
        reply = Reply(attempt.text or "", attempt.finish_reason or "")
        outcome, passed, scores, problem = assess(task, instance, reply)
        error = problem or None
    return Rescored(
        SCHEMA_VERSION,
        attempt.instance,
        attempt.sample,
        attempt.round,
        outcome,
        passed,
        scores,
        error,
    )


class AttemptKey(NamedTuple):
    """What names an attempt."""

    instance: str
    sample: int
    round: int


class Change(NamedTuple):
    """A verdict that is another one now.

    reason: what speaks against the answer: now, or before where it passes now.
    """

    key: AttemptKey
    before: bool | None
    after: bool | None
    reason: str


Verdicts = Counter[tuple[bool | None, bool | None]]
"""How many verdicts were the first and are the second."""


class Changes:
    """Counts what re-scoring changes, one attempt after the other.

    verdicts: of all attempts; groups: by label, then group.
    left: failed calls, which have no answer to score; they are in no other count.
    gone: attempts whose instance is no longer there, with a verdict before or without.
    otherwise: the same verdict, from another outcome or other scores.
    """

    def __init__(self) -> None:
        self.verdicts: Verdicts = Counter()
        self.groups: dict[str, dict[str, Verdicts]] = {}
        self.left = 0
        self.gone = 0
        self.otherwise = 0

    def record(self, attempt: Attempt, scored: Rescored) -> Change | None:
        """Count one attempt; returns what changed of its verdict, if anything did."""
        if attempt.outcome == "error":
            self.left += 1
            return None
        self.gone += scored.error == GONE
        pair = (attempt.passed, scored.passed)
        self.verdicts[pair] += 1
        for label, group in attempt.groups.items():
            self.groups.setdefault(label, {}).setdefault(group, Counter())[pair] += 1
        if attempt.passed is scored.passed:
            self.otherwise += _content(attempt) != _content(scored)
            return None
        return Change(
            AttemptKey(attempt.instance, attempt.sample, attempt.round),
            *pair,
            _reason(attempt if scored.passed else scored),
        )

    @property
    def changed(self) -> int:
        """Verdicts that are others now."""
        return sum(count for (before, after), count in self.verdicts.items() if before is not after)

    @property
    def same(self) -> int:
        """Verdicts that are what they were."""
        return self.verdicts.total() - self.changed


def line(value: object) -> bytes:
    """A value as JSON in one line, as scores.jsonl has it."""
    return encode(value, order="deterministic")


def _content(found: Attempt | Rescored) -> tuple[str, bytes]:
    """What a scoring says beside its verdict, as a file has it."""
    return found.outcome, line(found.scores)


def _reason(found: Attempt | Rescored) -> str:
    for name, score in found.scores.items():
        if score.passed is not True and score.reason:
            return f"{name}: {score.reason}"
    return found.error or ("" if found.outcome == "ok" else found.outcome)


def rescored(task: Task[Any], recorded: AttemptIndex) -> Iterator[tuple[Attempt, Rescored]]:
    """Each attempt with what is made of it now: in the data set's order, then what is gone.

    recorded: an index of the rules' scores alone.

    Raises: DataMissing where the data set has not one of the run's instances.
    """
    left = np.ones(len(recorded), np.bool_)
    for instance in task.instances():
        rows = recorded.rows_of(instance.id)
        left[rows.start : rows.stop] = False
        for attempt in recorded.read(Attempt, rows):
            yield attempt, rescore(task, instance, attempt)
    order = recorded.in_order()
    for attempt in recorded.read(Attempt, order[left[order]]):
        if left.all():
            raise DataMissing(
                f"The data set has none of the run's instances, such as {attempt.instance!r}.",
                "Bring back the data set that the run was made with.",
            )
        yield attempt, rescore(task, None, attempt)
