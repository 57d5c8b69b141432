"""Metrics that a task computes from a run's answers together, in ``aggregates.json``.

They are saved because later readers may lack the task's packages or data.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.ports import Aggregates, GivenAnswer, Task, overrides_method
from harness.store.files import read_file, write_atomically
from harness.store.json_lines import DECODE_ERRORS

AGGREGATES = "aggregates.json"


class _SavedMetrics(msgspec.Struct):
    attempts_bytes: int  # the size of the attempts that the metrics cover
    results: dict[str, dict[str, float]]


class _AnswerLine(msgspec.Struct):
    instance: str
    sample: int
    round: int
    text: str | None = None
    turns: int = 0
    scores: dict[str, _Score] = {}


class _Score(msgspec.Struct):
    value: bool | float | None = None


def write_aggregates(attempts: Path, task: Task[object]) -> None:
    """Compute a task's metrics from all answers in an attempts file, and save them next to it.

    The answers of round 1 count, or in conversations the answers to all turns. Nothing is written
    if the task has no such metrics.
    """
    if not overrides_method(task, Task.aggregate_answers):
        return
    from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

    index = AttemptIndex(attempts, judges=False)
    rows = index.ordered_rows()
    if index.attempts.turns is None:
        rows = rows[index.attempts.round[rows] == 1]
    results = task.aggregate_answers(_iter_answers(index.read(_AnswerLine, rows)))
    saved = {"attempts_bytes": attempts.stat().st_size, "results": results}
    content = msgspec.json.format(msgspec.json.encode(saved), indent=2)
    write_atomically(attempts.with_name(AGGREGATES), content + b"\n")


def _iter_answers(lines: Iterator[_AnswerLine]) -> Iterator[GivenAnswer]:
    for line in lines:
        if line.text is not None and (line.round == 1 or line.turns):
            scores = {}
            for name, score in line.scores.items():
                if score.value is not None:
                    scores[name] = float(score.value)
            yield GivenAnswer(line.instance, line.sample, line.text, line.round, scores)


def read_aggregates(attempts: Path) -> Aggregates:
    """Return the metrics saved for an attempts file, or {} if missing, damaged or outdated."""
    with contextlib.suppress(OSError, *DECODE_ERRORS):
        saved = msgspec.json.decode(read_file(attempts.with_name(AGGREGATES)), type=_SavedMetrics)
        if saved.attempts_bytes == attempts.stat().st_size:
            return saved.results
    return {}
