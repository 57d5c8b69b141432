"""What a run has already: read from its attempts when it is continued.

Holds about 300 bytes per finished attempt and no text: the texts of an unfinished
sample are read again when its next round is due.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import msgspec

from harness.errors import DataInvalid, StoreFailed
from harness.records import SCHEMA_VERSION, Attempt, Outcome
from harness.store.json_lines import lines


class Finished(NamedTuple):
    """One finished attempt: how it went, and where in the file its line begins.

    answers: lines of this attempt that hold an answer; all but the last are superseded.
    """

    round: int
    outcome: Outcome
    passed: bool | None
    offset: int
    answers: int


class _Line(msgspec.Struct):
    v: int
    instance: str
    sample: int
    round: int
    outcome: Outcome
    passed: bool | None


class Ledger:
    """The attempts of a run by sample, later lines superseding earlier ones.

    A line also supersedes the later rounds of its sample that stand before it:
    they continued an answer that is no longer there.

    Raises: DataInvalid for a complete line that is no attempt, or one of another
        schema version; StoreFailed where the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # A tuple, not a mapping by round: it takes a quarter of the memory, and rounds are few.
        self._samples: dict[tuple[str, int], tuple[Finished, ...]] = {}
        decoder = msgspec.json.Decoder(_Line)
        try:
            for number, (offset, line) in enumerate(lines(path), start=1):
                try:
                    found = decoder.decode(line)
                except _UNREADABLE as error:
                    raise _invalid(path, f"line {number}", error) from None
                if found.v != SCHEMA_VERSION:
                    raise DataInvalid(
                        f"{path}, line {number}: schema version {found.v}, this harness writes "
                        f"version {SCHEMA_VERSION}.",
                        "Continue the run with the harness that began it, or use --fresh.",
                    )
                self._add(found, offset)
        except OSError as error:
            raise StoreFailed(
                f"Cannot read {path}: {error.strerror}.", "Mend its permissions, then run again."
            ) from None

    def _add(self, line: _Line, offset: int) -> None:
        sample = (line.instance, line.sample)
        rounds = self._samples.get(sample, ())
        before = next((done for done in rounds if done.round == line.round), None)
        if before is not None:
            rounds = tuple(done for done in rounds if done.round < line.round)
        answers = (before.answers if before else 0) + (line.outcome != "error")
        done = Finished(line.round, line.outcome, line.passed, offset, answers)
        self._samples[sample] = (*rounds, done)

    def _rounds(self, instance: str, sample: int) -> dict[int, Finished]:
        return {done.round: done for done in self._samples.get((instance, sample), ())}

    def __len__(self) -> int:
        return sum(map(len, self._samples.values()))

    def owed_round(
        self,
        instance: str,
        sample: int,
        *,
        rounds: int,
        stop_on_pass: bool,
        retried: Collection[Outcome] = frozenset({"error"}),
    ) -> int | None:
        """The round that a sample owes next, None where it is finished.

        rounds: most rounds of a sample.
        retried: outcomes whose attempt is made again.
        """
        done = self._rounds(instance, sample)
        for number in range(1, rounds + 1):
            finished = done.get(number)
            if finished is None or finished.outcome in retried:
                return number
            if stop_on_pass and finished.passed:
                return None
        return None

    def answers(self, instance: str, sample: int, number: int) -> int:
        """How often a round of a sample was answered."""
        found = self._rounds(instance, sample).get(number)
        return found.answers if found else 0

    def rounds(self, instance: str, sample: int, before: int) -> list[Attempt]:
        """The recorded attempts of a sample's rounds 1, 2, … up to, not including, ``before``."""
        done = self._rounds(instance, sample)
        if before == 1:
            return []
        with (
            self._path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view,
        ):
            found = []
            for number in range(1, before):
                view.seek(done[number].offset)
                try:
                    found.append(msgspec.json.decode(view.readline(), type=Attempt))
                except _UNREADABLE as error:
                    where = f"the line of {instance!r}, sample {sample}, round {number}"
                    raise _invalid(self._path, where, error) from None
        return found


_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _invalid(path: Path, where: str, error: Exception) -> DataInvalid:
    return DataInvalid(
        f"{path}, {where} is no attempt ({error}).",
        "Remove that line, and its attempt will be owed again.",
    )
