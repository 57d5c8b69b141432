"""A run's attempts with their texts, one at a time, whatever their number.

What counts is what `harness.store.reader` says: a superseded line is no attempt.
Memory holds where each line is, not what it says.

>>> for attempt in read_whole(Path("runs/none/attempts.jsonl")):
...     print(attempt.text)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.errors import DataInvalid, StoreFailed
from harness.records import Attempt, Outcome, Usage
from harness.store.columns import AttemptTable
from harness.store.json_lines import lines
from harness.store.reader import read_attempts_and_offsets
from harness.store.run_folder import JUDGES

if TYPE_CHECKING:
    from harness.store.judged_lines import JudgedLines

S = TypeVar("S", bound=msgspec.Struct)


class AttemptLine(msgspec.Struct, kw_only=True, gc=False):
    """What a line tells, a shape for `read_lines`.

    Request and scores are left to the shapes made of it: one reader wants them as JSON, another
    as records. A field that an attempt gets belongs here, or a test says who leaves it out.
    """

    instance: str
    sample: int
    round: int
    groups: dict[str, str]
    cluster: str
    outcome: Outcome
    started_at: float
    ended_at: float
    text: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    passed: bool | None = None
    feedback: str | None = None
    call_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    cached: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """The attempts that count, and where they are in their file.

    attempts: sorted by (instance, sample, round).
    offset: (n,) of the line of each, in bytes.
    """

    attempts: AttemptTable
    offset: NDArray[np.int64]

    def in_order(self) -> NDArray[np.intp]:
        """(n,) rows instance by instance, in the order in which the file begins them."""
        first = np.full(len(self.attempts.instances.digest), np.iinfo(np.int64).max)
        np.minimum.at(first, self.attempts.instance, self.offset)
        return np.argsort(first[self.attempts.instance], kind="stable")

    def last_rounds(self, round_: int | None = None) -> NDArray[np.intp]:
        """Of `in_order`, the rows that are a sample's last round.

        round_: its last one up to this; None for the last in the file.
        """
        attempts = self.attempts
        reached = np.ones(len(attempts), np.bool_) if round_ is None else attempts.round <= round_
        # The row after a sample's last one is another sample's, or beyond the round.
        ends = np.append(attempts.sample_starts()[1:] | ~reached[1:], True)[: len(attempts)]
        order = self.in_order()
        kept: NDArray[np.intp] = order[(reached & ends)[order]]
        return kept


def read_places(path: Path) -> Places:
    """The attempts of a file and where they are; none where there is no file.

    Raises: DataInvalid with file and line, StoreFailed where the file cannot be read.
    """
    return Places(*read_attempts_and_offsets(path))


def read_whole(path: Path, places: Places | None = None) -> Iterator[Attempt]:
    """Every attempt that counts, instance by instance, each by sample and round.

    places: of the file, where they are known already.

    Raises: as `read_places`.
    """
    return read_lines(path, places or read_places(path), Attempt)


def read_lines(
    path: Path, places: Places, shape: type[S], rows: NDArray[np.intp] | None = None
) -> Iterator[S]:
    """What a shape tells of the attempts.

    shape: a struct whose fields are some of an attempt's; scores and verdict are those of the
        judges, too, where the run has judges and the shape has the text that they judged.
    rows: of places, in the order wanted; by default all, `Places.in_order`.

    Raises: as `read_places`.
    """
    if not len(places.offset):
        return
    decode = msgspec.json.Decoder(shape).decode
    rows = places.in_order() if rows is None else rows
    judged = _judged(path, shape)
    try:
        with path.open("rb") as file:  # mapped, all that was read would count as memory
            for row, offset in zip(rows.tolist(), places.offset[rows].tolist(), strict=True):
                file.seek(offset)
                try:
                    line = decode(file.readline())
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    raise DataInvalid(
                        f"{path}, line {_number(path, offset)}: not an attempt "
                        f"({str(error)[:160]}).",
                        "Remove the line and run again: its attempt is then owed again.",
                    ) from None
                yield judged.put(line, int(places.attempts.passed[row])) if judged else line
    except OSError as error:
        raise StoreFailed(
            f"Cannot read {path}: {error.strerror}.", "Mend its permissions, then try again."
        ) from None


def _judged(path: Path, shape: type[msgspec.Struct]) -> JudgedLines | None:
    """What judges say, where the run has any and the shape tells of scores."""
    if not path.with_name(JUDGES).exists():
        return None
    from harness.store.judged_lines import NEEDED, JudgedLines

    names = {field.name for field in msgspec.structs.fields(shape)}
    return JudgedLines(path.parent, shape) if names >= NEEDED else None


def _number(path: Path, offset: int) -> int:
    """The number, from 1, of the line at an offset."""
    return 1 + sum(start < offset for start, _ in lines(path))
