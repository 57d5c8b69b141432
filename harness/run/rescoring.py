"""Scores recorded attempts again with the current task, without calling a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from harness.analysis.rescoring import GONE, Rescored
from harness.errors import DataMissing
from harness.ports import Task
from harness.records import SCHEMA_VERSION, Attempt, Instance, Reply
from harness.run.assessment import Assessment
from harness.store.index import AttemptIndex


def rescored(
    task: Task[Any], recorded: AttemptIndex, assess: Callable[[Instance[Any], Reply], Assessment]
) -> Iterator[tuple[Attempt, Rescored]]:
    """Yield each recorded attempt with its new scores.

    ``recorded`` is an index that leaves judges' verdicts out. Attempts come in the order of the
    data set, so neither instances nor texts are held in memory. Attempts whose instances are no
    longer in the data set come last, without a verdict.
    """
    left = np.ones(len(recorded), np.bool_)
    for instance in task.instances():
        rows = recorded.rows_of(instance.id)
        left[rows.start : rows.stop] = False
        for attempt in recorded.read(Attempt, rows):
            yield attempt, _rescored(assess, instance, attempt)
    order = recorded.in_order()
    for attempt in recorded.read(Attempt, order[left[order]]):
        if left.all():
            problem = f"The data set has none of the run's instances, such as {attempt.instance!r}."
            raise DataMissing(problem, "Restore the data set that the run was made with.")
        yield attempt, _rescored(assess, None, attempt)


def _rescored(
    assess: Callable[[Instance[Any], Reply], Assessment],
    instance: Instance[Any] | None,
    attempt: Attempt,
) -> Rescored:
    now = (attempt.outcome, attempt.passed, attempt.scores, attempt.error)
    if attempt.outcome == "error":  # a failed call stays a failed call
        pass
    elif instance is None:
        now = (attempt.outcome, None, {}, GONE)
    else:
        reply = Reply(attempt.text or "", attempt.finish_reason or "")
        outcome, passed, scores, problem = assess(instance, reply)
        now = (outcome, passed, scores, problem or None)
    return Rescored(SCHEMA_VERSION, attempt.instance, attempt.sample, attempt.round, *now)
