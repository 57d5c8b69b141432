"""What judges have still to judge of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.ports import Task
from harness.records import Attempt, Instance
from harness.store.index import AttemptIndex
from harness.store.judgements import JudgementOutcome


class Unjudged(NamedTuple):
    """An attempt that some judges have not judged, or are to judge again.

    judges: by their names, how often each has answered before.
    """

    instance: Instance[Any]
    attempt: Attempt
    judges: Mapping[str, int]


class OwedJudgements:
    """The attempts of a run that its judges have still to judge, as the files say now.

    path: of the attempts. judges: their names.
    retried: outcomes of judgements that are made again.

    Raises: DataInvalid, StoreFailed.
    """

    def __init__(
        self,
        path: Path,
        judges: Sequence[str],
        retried: Collection[JudgementOutcome],
    ) -> None:
        self._index = AttemptIndex(path)
        self._owed = self._index.owed_judgements(judges, retried)

    def __len__(self) -> int:
        return len(self._owed)

    def work(self, task: Task[Any]) -> Iterator[Unjudged]:
        """Each of them, in the data set's order; those that the data set has no more are left out.

        Raises: DataInvalid, StoreFailed.
        """
        if not self._owed:
            return
        for instance in task.instances():
            rows = [row for row in self._index.rows_of(instance.id) if row in self._owed]
            attempts = self._index.read(Attempt, rows, judged=False)
            for row, attempt in zip(rows, attempts, strict=True):
                yield Unjudged(instance, attempt, self._owed[row])
