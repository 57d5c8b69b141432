"""Metrics that a task computes from all round-1 answers of a run, in ``aggregates.json``.

They are saved because only a session of the run has the task: later readers may lack its packages
or data.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.ports import Aggregates, Aggregating, GivenAnswer, Task
from harness.store.files import write_whole

FILE = "aggregates.json"


class _Saved(msgspec.Struct):
    attempts_bytes: int  # the size of the attempts that the metrics cover
    results: dict[str, dict[str, float]]


class _Line(msgspec.Struct):
    instance: str
    sample: int
    text: str | None = None


def write_aggregates(attempts: Path, task: Task[object]) -> None:
    """Compute a task's metrics of the round-1 answers in an attempts file, and save them beside it.

    Nothing is written if the task has no such metrics (see `harness.ports.Aggregating`).
    """
    if not isinstance(task, Aggregating):
        return
    from harness.store.index import AttemptIndex  # NumPy takes 0.2 s to import

    index = AttemptIndex(attempts, judges=False)
    order = index.in_order()
    lines = index.read(_Line, order[index.attempts.round[order] == 1])
    results = task.aggregate_answers(_answers(lines))
    saved = {"attempts_bytes": attempts.stat().st_size, "results": results}
    content = msgspec.json.format(msgspec.json.encode(saved), indent=2)
    write_whole(attempts.with_name(FILE), content + b"\n")


def _answers(lines: Iterator[_Line]) -> Iterator[GivenAnswer]:
    return (GivenAnswer(o.instance, o.sample, o.text) for o in lines if o.text is not None)


def read_aggregates(attempts: Path) -> Aggregates:
    """Return the metrics saved for an attempts file.

    The mapping is empty if they are missing or damaged, or do not cover the whole file.
    """
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        saved = msgspec.json.decode(attempts.with_name(FILE).read_bytes(), type=_Saved)
        if saved.attempts_bytes == attempts.stat().st_size:
            return saved.results
    return {}
