"""What judges say, as columns beside the attempts': found by attempt and judged text.

Owns the matching, and what it costs in memory: an attempt and a judgement each are a few
numbers. A run without judges never comes here.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.errors import DataInvalid
from harness.records import OUTCOMES
from harness.store.columns import NOT_JUDGED, AttemptTable, Bools, Ints, Values
from harness.store.gathering import Rows, Scores, Value
from harness.store.json_lines import lines
from harness.store.judgement_places import key_of
from harness.store.judgements import (
    FAILED,
    UNREADABLE,
    Judgement,
    JudgementOutcome,
    Register,
    lines_of,
    not_a_judgement,
    read_register,
    text_hash,
    unreadable,
)
from harness.store.reader import LARGEST
from harness.store.run_folder import JUDGEMENTS

JUDGEMENT_OUTCOMES: tuple[JudgementOutcome, ...] = get_args(JudgementOutcome)

GIVES_NONE = 2
"""Of a judgement's verdict: its scores were made, and none of them gives one."""


def with_scores(path: Path, table: AttemptTable, lines_: Ints) -> AttemptTable:
    """The attempts with the judges' scores, passed by the rules and the judges that decide.

    path: of the attempts; lines_: (n,) the number of each one's line, from 0.

    Raises: DataInvalid, StoreFailed.
    """
    register = read_register(path.parent)
    found = _Judgements(path.parent, register)
    keys, neutral = _keys(path)
    keys, neutral = keys[lines_], neutral[lines_]
    put_before = _put_before_judges(table, register)
    scores: dict[str, Values] = dict(table.scores)
    says_true, says_any, unknown = (np.zeros(len(table), np.bool_) for _ in range(3))
    says_true |= table.passed == 1
    says_any |= (table.passed != NOT_JUDGED) | ~put_before
    unknown |= (table.passed == NOT_JUDGED) & ~(neutral & put_before)
    for name, judge in register.judges.items():
        rows = np.where(put_before, found.match(name, keys), -1)
        for score, values in found.scores(name).items():
            scores[score] = _aligned(values, rows)
        if not judge.decides:
            continue
        verdict = np.where(rows >= 0, found.verdict[rows], NOT_JUDGED) if len(found) else None
        if verdict is None:
            unknown |= put_before
            continue
        unknown |= put_before & (verdict == NOT_JUDGED)
        given = put_before & (verdict != NOT_JUDGED) & (verdict != GIVES_NONE)
        says_true = np.where(given, (verdict == 1) & (says_true | ~says_any), says_true)
        says_any |= given
    passed = np.where(says_any & ~unknown, says_true, NOT_JUDGED).astype(np.int8)
    return replace(table, passed=passed, scores=scores)


@dataclass(frozen=True, slots=True)
class Owed:
    """An attempt that judges have not judged, or could not.

    offset: of its line, in bytes.
    judges: by their names, how often each has answered before.
    """

    offset: int
    judges: Mapping[str, int]


def owed(
    path: Path,
    table: AttemptTable,
    lines_: Ints,
    names: tuple[str, ...],
    retried: Collection[JudgementOutcome],
) -> dict[str, list[Owed]]:
    """What the judges of these names owe, by instance.

    path, table, lines_: as of `with_scores`.
    retried: outcomes of judgements that are made again.

    Raises: as `with_scores`.
    """
    register = read_register(path.parent)
    found = _Judgements(path.parent, register)
    keys = _keys(path)[0][lines_]
    put_before = _put_before_judges(table, register)
    missing: dict[str, Bools] = {}
    answers: dict[str, Ints] = {}
    again = [JUDGEMENT_OUTCOMES.index(outcome) for outcome in retried]
    for name in names:
        rows = found.match(name, keys)
        done = rows >= 0
        if len(found):
            done &= ~np.isin(found.outcome[rows], again)
        if name in register.judges:
            for member in register.judges[name].members:  # what it says anew is the panel's, too
                later = found.match(member, keys)
                done &= (later <= rows) | found.failed(later)
        missing[name] = put_before & ~done
        answers[name] = found.answers(name, keys)
    any_missing = np.logical_or.reduce(list(missing.values()))
    offsets = np.fromiter((offset for offset, _ in lines(path)), np.int64)[lines_]
    by_instance: dict[str, list[Owed]] = {}
    decode = msgspec.json.Decoder(_Instance).decode
    try:
        with path.open("rb") as file:
            for row in np.flatnonzero(any_missing).tolist():
                file.seek(int(offsets[row]))
                instance = decode(file.readline()).instance
                judges = {name: int(answers[name][row]) for name in names if missing[name][row]}
                by_instance.setdefault(instance, []).append(Owed(int(offsets[row]), judges))
    except OSError as error:
        raise unreadable(path, error) from None
    return by_instance


def read_judge_calls(folder: Path) -> Iterator[Judgement]:
    """Every judgement of a run's folder, for the sake of its calls.

    Raises: as `with_scores`.
    """
    path = folder / JUDGEMENTS
    for number, _, line in lines_of(path, msgspec.json.Decoder(Judgement).decode):
        for name, call in line.each_call():
            counts = () if call.usage is None else msgspec.structs.astuple(call.usage)
            if not 0 <= (call.cost_usd or 0.0) <= LARGEST or not all(
                0 <= count < 2**31 for count in counts
            ):
                raise not_a_judgement(path, number, ValueError(f"usage or cost of call {name}"))
        yield line


class _Judgements:
    """The judgements of a run as columns of length m, in the order of the file.

    verdict: (m,) 1, 0, `NOT_JUDGED` where none could be made, `GIVES_NONE`.
    outcome: (m,) index into `JUDGEMENT_OUTCOMES`.
    """

    def __init__(self, folder: Path, register: Register) -> None:
        codes = {name: code for code, name in enumerate(register.judges)}
        rows = Rows(key="q", judge="h", verdict="b", outcome="b", scoring="h")
        self._gathered: dict[str, Scores] = {name: Scores() for name in codes}
        path = folder / JUDGEMENTS
        for number, _, line in lines_of(path, msgspec.json.Decoder(_Line).decode):
            if line.judge not in codes:  # of a register that was removed
                continue
            scores: Mapping[str, Value] = {name: s.value for name, s in line.scores.items()}
            try:
                rows.append(
                    key_of(line.instance, line.sample, line.round, line.attempt),
                    codes[line.judge],
                    _verdict(line),
                    JUDGEMENT_OUTCOMES.index(line.outcome),
                    self._gathered[line.judge].add(scores),
                )
            except (OverflowError, struct.error) as error:
                raise not_a_judgement(path, number, error) from None
        self._key = rows.column("key")
        judges = rows.column("judge")
        self._scoring = rows.column("scoring")
        self._of: dict[str, NDArray[np.intp]] = {
            name: np.flatnonzero(judges == code) for name, code in codes.items()
        }
        self.verdict: NDArray[np.int8] = rows.column("verdict")
        self.outcome: NDArray[np.int8] = rows.column("outcome")

    def __len__(self) -> int:
        return len(self._key)

    def match(self, judge: str, keys: NDArray[np.int64]) -> NDArray[np.intp]:
        """(n,) the row of what a judge said last of each attempt, -1 for nothing."""
        own = self._of.get(judge)
        if own is None or not len(own):
            return np.full(len(keys), -1, np.intp)
        order = own[np.argsort(self._key[own], kind="stable")]
        at = np.searchsorted(self._key[order], keys, side="right") - 1
        found = order[np.maximum(at, 0)]
        return np.where((at >= 0) & (self._key[found] == keys), found, -1)

    def failed(self, rows: NDArray[np.intp]) -> Bools:
        """(n,) which of some rows are failed calls; -1 is none."""
        codes = [JUDGEMENT_OUTCOMES.index(outcome) for outcome in FAILED]
        if not len(self):
            return np.zeros(len(rows), np.bool_)
        found: Bools = (rows >= 0) & np.isin(self.outcome[rows], codes)
        return found

    def answers(self, judge: str, keys: NDArray[np.int64]) -> Ints:
        """(n,) how often a judge has answered of each attempt: failed calls are no answers."""
        own = self._of.get(judge, np.empty(0, np.intp))
        failed = [JUDGEMENT_OUTCOMES.index(outcome) for outcome in FAILED]
        answered = np.sort(self._key[own[~np.isin(self.outcome[own], failed)]])
        first, last = (np.searchsorted(answered, keys, side) for side in ("left", "right"))
        return (last - first).astype(np.int32)

    def scores(self, judge: str) -> dict[str, Values]:
        """(m,) the values of each of a judge's scores; none in the rows of the others."""
        own = self._of[judge]
        every = np.arange(len(own), dtype=np.int32)
        spread: dict[str, Values] = {}
        for name, values in self._gathered[judge].columns(self._scoring[own], every).items():
            spread[name] = _nothing(len(self), values)
            spread[name][own] = values
        return spread


def _nothing(n: int, like: Values) -> Values:
    return np.full(n, NOT_JUDGED, np.int8) if like.dtype == np.int8 else np.full(n, np.nan)


def _aligned(values: Values, rows: NDArray[np.intp]) -> Values:
    """(n,) the values of some rows; none for -1."""
    aligned = _nothing(len(rows), values)
    there = rows >= 0
    aligned[there] = values[rows[there]]
    return aligned


def _put_before_judges(table: AttemptTable, register: Register) -> Bools:
    """(n,) which attempts are put before the judges."""
    judged = np.array([OUTCOMES.index(outcome) for outcome in register.judged], np.int8)
    found: Bools = np.isin(table.outcome, judged)
    return found


class _Instance(msgspec.Struct, gc=False):
    instance: str


class _Value(msgspec.Struct, gc=False):
    value: bool | Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)] | None
    passed: bool | None = None


class _Line(msgspec.Struct, gc=False):
    """What is needed of a judgement."""

    v: int
    judge: str
    instance: str
    sample: int
    round: int
    attempt: str
    outcome: JudgementOutcome
    scores: dict[str, _Value] = {}


class _Text(msgspec.Struct, gc=False):
    """What is needed of an attempt."""

    instance: str
    sample: int
    round: int
    text: str | None = None
    passed: bool | None = None
    scores: dict[str, _Value] = {}


def _verdict(line: _Line) -> int:
    if line.outcome != "ok" or any(score.value is None for score in line.scores.values()):
        return NOT_JUDGED
    given = [score.passed for score in line.scores.values() if score.passed is not None]
    return all(given) if given else GIVES_NONE


def _keys(path: Path) -> tuple[NDArray[np.int64], Bools]:
    """Of each line of the attempts: its key; whether its rules give no verdict, and made all."""
    rows = Rows(key="q", neutral="b")
    decode = msgspec.json.Decoder(_Text).decode
    try:
        for number, (_, text) in enumerate(lines(path), start=1):
            try:
                line = decode(text)
            except UNREADABLE as error:
                raise DataInvalid(
                    f"{path}, line {number}: not an attempt ({str(error)[:160]}).",
                    "Remove the line and run again: its attempt is then owed again.",
                ) from None
            made = all(score.value is not None for score in line.scores.values())
            key = key_of(line.instance, line.sample, line.round, text_hash(line.text or ""))
            rows.append(key, line.passed is None and made)
    except OSError as error:
        raise unreadable(path, error) from None
    return rows.column("key"), rows.column("neutral") != 0
