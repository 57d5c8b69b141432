"""What a run has already: read from its attempts when it is continued.

Holds about 500 bytes per finished attempt and no text: the texts of an unfinished
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
from harness.store.attempts import lines


class Finished(NamedTuple):
    """One finished attempt: how it went, and where in the file its line begins."""

    outcome: Outcome
    passed: bool | None
    offset: int


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
        self._samples: dict[tuple[str, int], dict[int, Finished]] = {}
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
                rounds = self._samples.setdefault((found.instance, found.sample), {})
                if found.round in rounds:
                    for later in [later for later in rounds if later > found.round]:
                        del rounds[later]
                rounds[found.round] = Finished(found.outcome, found.passed, offset)
        except OSError as error:
            raise StoreFailed(
                f"Cannot read {path}: {error.strerror}.", "Mend its permissions, then run again."
            ) from None

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
        done = self._samples.get((instance, sample), {})
        for number in range(1, rounds + 1):
            finished = done.get(number)
            if finished is None or finished.outcome in retried:
                return number
            if stop_on_pass and finished.passed:
                return None
        return None

    def rounds(self, instance: str, sample: int, before: int) -> list[Attempt]:
        """The recorded attempts of a sample's rounds 1, 2, … up to, not including, ``before``."""
        done = self._samples.get((instance, sample), {})
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
