"""Recorded replies scored again under a task as it is now.

No model is called and nothing is written here. The attempts are read in the order of the data
set, so that neither its instances nor their texts are ever held: only a few bytes an attempt.

>>> changes = VerdictChanges()
>>> for attempt, scored in rescored(task, Recorded(path)):  # doctest: +SKIP
...     changes.record(attempt, scored)
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.analysis.rescoring import GONE, Rescored
from harness.errors import DataInvalid, DataMissing, StoreFailed
from harness.ports import Task
from harness.records import SCHEMA_VERSION, Attempt, Instance, Reply
from harness.run.assessment import assess
from harness.store.json_lines import lines

Ints = NDArray[np.int32] | NDArray[np.intp]


def rescore(task: Task[Any], instance: Instance[Any] | None, attempt: Attempt) -> Rescored:
    """Score a recorded attempt again; a failed call stays what it was.

    Args:
        task: As it is now.
        instance: None where the data set does not have it any more. There is no verdict then,
            which is not a failed one.
        attempt: As it was recorded.
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


_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]  # columns are 32 bits wide


class _Line(msgspec.Struct):
    v: int
    instance: str
    sample: _Number
    round: _Number


_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Recorded:
    """Where each attempt of a run's file is, by instance.

    The last line of a key counts, and a round that was written anew ends its
    sample: later rounds in earlier lines followed another answer.

    size: bytes of the file's complete lines.

    Raises: DataInvalid for a line that is no attempt, or of another schema
        version; StoreFailed where the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(Attempt)
        self._numbers: dict[str, int] = {}
        rows: tuple[array[int], ...] = array("i"), array("i"), array("i")
        offsets = array("q")
        self.size = 0
        try:
            for number, (offset, text) in enumerate(lines(path), start=1):
                found = self._decoded(text, number)
                key = self._numbers.setdefault(found.instance, len(self._numbers))
                for row, value in zip(rows, (key, found.sample, found.round), strict=True):
                    row.append(value)
                offsets.append(offset)
                self.size = offset + len(text)
        except OSError as error:
            raise self._failed(error) from None
        instance, sample, round_ = (np.frombuffer(row, dtype=np.int32) for row in rows)
        # Stable: lines of one key keep the order of the file, and the last one is taken.
        order = np.lexsort((round_, sample, instance))
        again = np.ones(max(len(order) - 1, 0), dtype=np.bool_)
        for column in (instance, sample, round_):
            again &= np.diff(column[order]) == 0
        last = np.append(~again, True)[: len(order)]
        anew = np.append(False, again)[: len(order)][last]
        order = order[last]
        if anew.any():
            order = order[_followed(instance[order], sample[order], order, anew)]
        self._offsets = np.frombuffer(offsets, dtype=np.int64)[order]
        self._starts = np.searchsorted(instance[order], np.arange(len(self._numbers) + 1))

    def __len__(self) -> int:
        return len(self._offsets)

    def taken(self, instance: str) -> Iterator[Attempt]:
        """The attempts of an instance by sample and round; they are there once."""
        number = self._numbers.pop(instance, None)
        if number is not None:
            yield from self._read(self._starts[number], self._starts[number + 1])

    def rest(self) -> Iterator[Attempt]:
        """The attempts that were not taken, in the order in which their instances came."""
        for instance in list(self._numbers):
            yield from self.taken(instance)

    def _read(self, start: int, end: int) -> Iterator[Attempt]:
        with self._path.open("rb") as file:
            for offset in self._offsets[start:end]:
                file.seek(offset)
                try:
                    yield self._decoder.decode(file.readline())
                except _UNREADABLE as error:
                    raise self._invalid(f"the line at byte {offset}", error) from None

    def _decoded(self, text: bytes, number: int) -> _Line:
        try:
            found = msgspec.json.decode(text, type=_Line)
        except _UNREADABLE as error:
            raise self._invalid(f"line {number}", error) from None
        if found.v != SCHEMA_VERSION:
            raise DataInvalid(
                f"{self._path}, line {number}: schema version {found.v}, this harness reads "
                f"version {SCHEMA_VERSION}.",
                "Score the run with the harness that wrote it.",
            )
        return found

    def _invalid(self, where: str, error: Exception) -> DataInvalid:
        return DataInvalid(
            f"{self._path}, {where} is no attempt ({str(error)[:160]}).",
            "Remove that line; 'harness run' then makes its attempt again.",
        )

    def _failed(self, error: OSError) -> StoreFailed:
        return StoreFailed(
            f"Cannot read {self._path}: {error.strerror}.", "Mend its permissions, then try again."
        )


def _followed(instance: Ints, sample: Ints, number: Ints, anew: NDArray[np.bool_]) -> list[bool]:
    """Which attempts follow what is now the answer before them.

    number: of each attempt's line; the attempts are sorted by instance, sample and round.
    """
    kept: list[bool] = []
    before, latest = (-1, -1), -1
    columns = (column.tolist() for column in (instance, sample, number, anew))
    for of, k, line_number, again in zip(*columns, strict=True):
        if (of, k) != before:
            before, latest = (of, k), -1
        kept.append(line_number > latest)
        if again:
            latest = max(latest, line_number)
    return kept


def rescored(task: Task[Any], recorded: Recorded) -> Iterator[tuple[Attempt, Rescored]]:
    """Each attempt with what is made of it now: in the data set's order, then what is gone.

    Raises: DataMissing where the data set has not one of the run's instances.
    """
    some = False
    for instance in task.instances():
        for attempt in recorded.taken(instance.id):
            some = True
            yield attempt, rescore(task, instance, attempt)
    for attempt in recorded.rest():
        if not some:
            raise DataMissing(
                f"The data set has none of the run's instances, such as {attempt.instance!r}.",
                "Bring back the data set that the run was made with.",
            )
        yield attempt, rescore(task, None, attempt)
