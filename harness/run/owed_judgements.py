"""What judges have still to judge of a run, and what has passed by what they have judged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from harness.errors import StoreFailed
from harness.ports import Task
from harness.records import Attempt, Instance
from harness.store.columns import name_digest
from harness.store.judgements import JudgementOutcome
from harness.store.reader import read_attempts, read_owed_judgements


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
        self._path = path
        there = path.exists() and path.stat().st_size
        self._owed = read_owed_judgements(path, tuple(judges), retried) if there else {}

    def __len__(self) -> int:
        return sum(map(len, self._owed.values()))

    def work(self, task: Task[Any]) -> Iterator[Unjudged]:
        """Each of them, in the data set's order; those that the data set has no more are left out.

        Raises: StoreFailed.
        """
        decode = msgspec.json.Decoder(Attempt).decode
        try:
            with self._path.open("rb") as file:
                for instance in task.instances():
                    for owed in self._owed.pop(instance.id, ()):
                        file.seek(owed.offset)
                        yield Unjudged(instance, decode(file.readline()), owed.judges)
                    if not self._owed:
                        return
        except OSError as error:
            raise StoreFailed(
                f"Cannot read {self._path}: {error.strerror}.",
                "Mend its permissions, then try again.",
            ) from None


class Passed:
    """Which attempts have passed by rules and judges, for a run that goes on with the others.

    path: of the attempts.
    """

    def __init__(self, path: Path) -> None:
        table = read_attempts(path)
        rows = table.passed == 1
        columns = (table.instances.digest[table.instance], table.sample, table.round)
        self._keys = set(zip(*(column[rows].tolist() for column in columns), strict=True))

    def __call__(self, instance: str, sample: int, number: int) -> bool:
        """Whether a round of a sample has passed."""
        return (name_digest(instance), sample, number) in self._keys
