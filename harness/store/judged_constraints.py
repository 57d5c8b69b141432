"""What a run's judges say of each constraint: met, not met, or no verdict.

A judge tells of them in a score's ``details.constraints`` in ``judgements.jsonl``: a list of
``constraint`` (its text), ``passed`` (true, false, null) and ``groups`` (its own labels, each with
a group). Of each sample's last round the last judgement of the text that the attempt has counts;
what was said of a superseded answer, and by a judge that the run does not have, does not.

>>> found = read_judged(Path("runs/none/attempts.jsonl"), "yes_no")  # doctest: +SKIP
>>> list(found.table.by("category"))  # doctest: +SKIP
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from harness.records import Outcome
from harness.store.columns import AttemptTable
from harness.store.findings import own_groups
from harness.store.gathering import Attempts
from harness.store.judgements import (
    UNREADABLE,
    lines_of,
    not_a_judgement,
    read_register,
    text_hash,
    unreadable,
)
from harness.store.run_folder import JUDGEMENTS
from harness.store.whole import Places, read_lines, read_places

_LONGEST = 300
"""Characters of a label or group, as in `harness.store.findings`."""


@dataclass(frozen=True, slots=True)
class JudgedConstraints:
    """The constraints of each sample's last round.

    judge: whose verdicts they are.
    table: each constraint of an instance is a row like an instance, by its place in the list;
        ``passed`` whether it was met. Its cluster is the instance's, and so are its groups,
        with labels of its own beside them.
    without: samples of which the judge tells of none, by the outcome of the attempt: refused,
        empty and failed answers are put before nobody; of an ``ok`` one the judge gave no verdict.
    """

    judge: str
    table: AttemptTable
    without: Counter[Outcome]


def read_judged(
    path: Path, judge: str, places: Places | None = None, round_: int | None = None
) -> JudgedConstraints:
    """The constraints that a judge has judged.

    path: of the run's attempts.
    judge: its name in the run.
    places: of the file, where they are known already.
    round_: each sample's last round up to this one counts; None for its last one.

    Raises: DataInvalid, StoreFailed.
    """
    places = places or read_places(path)
    put_before = set(read_register(path.parent).judged)
    judgements = _Judgements(path.parent / JUDGEMENTS, judge)
    gathered, without = Attempts(), Counter[Outcome]()
    for line in read_lines(path, places, _Attempt, places.last_rounds(round_)):
        told: list[_Constraint] = []
        if line.outcome in put_before:
            told = judgements.of(line)
        if not told:
            without[line.outcome] += 1
        for place, found in enumerate(told):
            gathered.add(
                f"{line.instance}\0{place}",
                line.sample,
                1,
                groups=msgspec.json.encode({**line.groups, **own_groups(found.groups)}),
                cluster=line.cluster,
                outcome="ok",
                passed=found.passed,
                scores={},
            )
    judgements.close()
    return JudgedConstraints(judge, gathered.table()[0], without)


def judges_of_constraints(path: Path) -> list[str]:
    """The judges of a run that tell of constraints, in the order of its register.

    path: of the run's attempts. Raises: DataInvalid, StoreFailed.
    """
    known = list(read_register(path.parent).judges)
    found = set[str]()
    for _, _, line in lines_of(path.parent / JUDGEMENTS, _DECODER.decode):
        if line.judge in known and line.judge not in found and _constraints(line.scores):
            found.add(line.judge)
    return [name for name in known if name in found]


class _Judgements:
    """Where in the file a judge's last word on each text is: 64 bits and an offset for each."""

    def __init__(self, path: Path, judge: str) -> None:
        self._path = path
        self._at: dict[int, tuple[int, int]] = {}
        for number, offset, line in lines_of(path, _DECODER.decode):
            if line.judge == judge:
                key = _key(line.instance, line.sample, line.round, line.attempt)
                self._at[key] = offset, number
        self._file = path.open("rb") if self._at else None

    def of(self, line: _Attempt) -> list[_Constraint]:
        """What the judge last said of an attempt's constraints."""
        key = _key(line.instance, line.sample, line.round, text_hash(line.text or ""))
        found = self._at.get(key)
        if found is None or self._file is None:
            return []
        offset, number = found
        try:
            self._file.seek(offset)
            return _constraints(_DECODER.decode(self._file.readline()).scores)
        except OSError as error:
            raise unreadable(self._path, error) from None
        except UNREADABLE as error:
            raise not_a_judgement(self._path, number, error) from None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Attempt(msgspec.Struct, gc=False):
    instance: str
    sample: int
    round: int
    cluster: str
    groups: dict[str, str]
    outcome: Outcome
    text: str | None = None


class _Score(msgspec.Struct, gc=False):
    details: msgspec.Raw = msgspec.Raw(b"{}")


class _Judgement(msgspec.Struct, gc=False):
    v: int
    judge: str
    instance: str
    sample: int
    round: int
    attempt: str
    scores: dict[str, _Score] = {}


class _Constraint(msgspec.Struct, gc=False):
    constraint: str
    passed: bool | None
    groups: Any = None


class _Details(msgspec.Struct, gc=False):
    constraints: list[_Constraint] = []


_DECODER = msgspec.json.Decoder(_Judgement)
_DETAILS = msgspec.json.Decoder(_Details)


def _constraints(scores: dict[str, _Score]) -> list[_Constraint]:
    """Those of the first score that tells of any: several may tell of the same ones."""
    for score in scores.values():
        try:
            details = _DETAILS.decode(score.details)
        except (msgspec.MsgspecError, RecursionError):  # a judge's own details
            continue
        if details.constraints:
            return details.constraints
    return []


def _key(instance: str, sample: int, round_: int, attempt: str) -> int:
    """64 bits for an attempt and its text, as in `harness.store.judged`."""
    name = f"{instance}\0{sample}\0{round_}\0{attempt}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)
