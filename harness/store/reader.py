"""Reading a run's `attempts.jsonl`: as columns for analysis, whole for showing.

Owns what a reader must decide: the last line of a key (instance, sample,
round) counts, a torn last line is no attempt, a line of another schema version
is refused. Columns keep a million attempts small: texts, requests, feedback
and the reasons of scores are skipped, not held. Where a run has judges, what they
say is read with the attempts (`harness.store.judged`).

>>> attempts, calls = read_columns(Path("runs/none/attempts.jsonl"))
>>> len(attempts), calls.n
(0, 0)
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.errors import DataInvalid, StoreFailed
from harness.records import SCHEMA_VERSION, Attempt, Outcome, Rewriting, Usage
from harness.store.columns import AttemptTable, CallTotals, Ints, name_digest
from harness.store.gathering import Attempts, Calls
from harness.store.json_lines import lines
from harness.store.run_folder import GOLD, JUDGES

if TYPE_CHECKING:
    from harness.store.judged import Owed
    from harness.store.judgements import JudgeCall, JudgementOutcome

L = TypeVar("L", bound="_Name")


def read_columns(path: Path) -> tuple[AttemptTable, CallTotals]:
    """All attempts and calls of a file, superseded lines resolved; empty where there is no file.

    In two passes, so that what is gathered of one is not held beside the other.

    Raises: DataInvalid with file and line, StoreFailed where the file cannot be read.
    """
    calls = read_calls(path)
    return read_attempts(path), calls


def read_attempts(path: Path) -> AttemptTable:
    """The attempts of a file, superseded lines resolved.

    Raises: as `read_columns`.
    """
    return _with_judges(path, *_latest(*_gathered(path, None).table()))


def read_attempts_and_offsets(path: Path) -> tuple[AttemptTable, NDArray[np.int64]]:
    """The attempts, and (n,) where in the file the line of each begins, in bytes.

    Raises: as `read_columns`.
    """
    offsets = array("q")
    table, lines = _latest(*_gathered(path, offsets).table())
    return _with_judges(path, table, lines), np.frombuffer(offsets, np.int64)[lines]


def read_owed_judgements(
    path: Path, names: tuple[str, ...], retried: Collection[JudgementOutcome]
) -> dict[str, list[Owed]]:
    """What the judges of these names have still to judge, or are to judge again, by instance.

    retried: outcomes of judgements that are made again.

    Raises: as `read_columns`.
    """
    from harness.store.judged import owed

    return owed(path, *_latest(*_gathered(path, None).table()), names, retried)


def _judged(path: Path) -> bool:
    """Whether the run has judges, or had."""
    return path.with_name(JUDGES).exists()


def _with_judges(path: Path, table: AttemptTable, lines: Ints) -> AttemptTable:
    """The attempts with the judges' scores and over both verdicts, where there are judges."""
    if not len(table) or not _judged(path):
        return table
    from harness.store.judged import with_scores  # a run without judges spares the import

    return with_scores(path, table, lines)


def _gathered(path: Path, offsets: array[int] | None) -> Attempts:
    """Every line of a file.

    offsets: gets where each line begins, for who asks: the end of a run spares the memory.
    """
    attempts, offset = Attempts(), 0
    for number, text, line in _decoded(path, _Judged):
        if offsets is not None:
            offsets.append(offset)
            offset += len(text)
        try:
            attempts.add(
                line.instance,
                line.sample,
                line.round,
                groups=bytes(line.groups),
                cluster=line.cluster,
                outcome=line.outcome,
                passed=line.passed,
                scores={name: score.value for name, score in line.scores.items()},
            )
        except _UNUSABLE as error:
            raise _invalid(path, number, error) from None
    return attempts


def read_calls(path: Path) -> CallTotals:
    """The calls of a file, those of superseded lines too.

    Raises: as `read_columns`.
    """
    calls = Calls()
    for number, _, line in _decoded(path, _Called):
        try:
            for call in _calls(line):
                if call.call_id is not None:
                    if not 0 <= (call.cost_usd or 0.0) <= LARGEST:
                        raise OverflowError(f"cost_usd is {call.cost_usd}")
                    calls.add(call.call_id, call.usage, call.cost_usd, paid=not call.cached)
        except _UNUSABLE as error:
            raise _invalid(path, number, error) from None
    if not _judged(path):
        return calls.totals()
    model, judges = calls.totals(), dict[str, Calls]()
    for judge, name, judged in _judge_calls(path):
        for gathered in (calls, judges.setdefault(judge, Calls())):
            gathered.add(name, judged.usage, judged.cost_usd, paid=not judged.cached)
    each = {judge: own.totals() for judge, own in judges.items()}
    return replace(calls.totals(), model=model, judges=each)


def _judge_calls(path: Path) -> Iterator[tuple[str, str, JudgeCall]]:
    """The calls of the run's judges, for golds too: the judge's name, the call's id, the call."""
    if _judged(path):
        from harness.store.judged import read_judge_calls

        for folder in (path.parent, path.parent / GOLD):
            for judgement in read_judge_calls(folder):
                for name, call in judgement.each_call():
                    yield judgement.judge, name, call


_UNUSABLE = (
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
    OverflowError,
    struct.error,
)
"""What a line raises whose content cannot be read, or held."""


def read_payments(path: Path) -> dict[bytes, float]:
    """What a run has paid for its calls in US dollars, by the call's key, as far as it is known.

    Raises: as `read_columns`.
    """
    paid: dict[bytes, float] = {}
    for number, _, line in _decoded(path, _Called):
        for call in _calls(line):
            if call.call_id is None or call.cached or call.cost_usd is None:
                continue
            try:
                paid[bytes.fromhex(call.call_id)] = call.cost_usd
            except ValueError as error:
                raise _invalid(path, number, error) from None
    for _, name, judged in _judge_calls(path):
        if not judged.cached and judged.cost_usd is not None:
            paid[bytes.fromhex(name)] = judged.cost_usd
    return paid


def read_names(path: Path) -> dict[int, str]:
    """The names of a run's instances by their digests (`harness.store.columns.name_digest`).

    Raises: as `read_columns`.
    """
    names: dict[int, str] = {}
    before = ""
    for _, _, line in _decoded(path, _Name):
        if line.instance != before:
            before = line.instance
            names[name_digest(before)] = before
    return names


def read_instance(path: Path, instance: str) -> list[Attempt]:
    """The whole attempts of one instance, in order of sample and round.

    Where the run has judges, those that are put before them are
    `harness.store.judgements.JudgedAttempt`. Empty where the file has none.

    Raises: as `read_columns`.
    """
    latest: dict[tuple[int, int], Attempt] = {}
    seen: set[tuple[int, int]] = set()
    decode = msgspec.json.Decoder(Attempt).decode
    for number, text, name in _decoded(path, _Name):
        if name.instance == instance:
            anew = (name.sample, name.round) in seen
            seen.add((name.sample, name.round))
            try:
                latest[name.sample, name.round] = decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise _invalid(path, number, error) from None
            for sample, later in list(latest):
                if anew and sample == name.sample and later > name.round:
                    del latest[sample, later]
    attempts = [latest[key] for key in sorted(latest)]
    if _judged(path):
        from harness.store.judgements import with_judgements

        return with_judgements(path.parent, attempts)
    return attempts


LARGEST = 1e100
"""Of a score or a cost: the squares of a million of them can still be added."""

# Columns are 32 bits wide.
_Sample = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_Round = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]


class _Version(msgspec.Struct):
    v: int


class _Name(_Version, gc=False):
    """What every line must say; keys that a later version adds are ignored."""

    instance: str
    sample: _Sample
    round: _Round


class _Value(msgspec.Struct, gc=False):
    """What analysis needs of a score."""

    value: bool | Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)] | None


class _Judged(_Name, gc=False):
    """What analysis needs of an attempt."""

    groups: msgspec.Raw  # decoded once for each distinct mapping
    cluster: str
    outcome: Outcome
    passed: bool | None = None
    scores: dict[str, _Value] = {}


class _Called(_Name, gc=False):
    """What is known of the calls of a line."""

    call_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    polish: tuple[Rewriting, ...] = ()


def _calls(line: _Called) -> tuple[_Called | Rewriting, ...]:
    """What names a call in a line: itself and its rewritings."""
    return (line, *line.polish) if line.polish else (line,)


def _decoded(path: Path, shape: type[L]) -> Iterator[tuple[int, bytes, L]]:
    """Number, from 1, text and content of each complete line."""
    decode = msgspec.json.Decoder(shape).decode
    try:
        for number, (_, text) in enumerate(lines(path), start=1):
            try:
                line = decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                # Another version may well differ in shape: say so rather than what differs.
                _refuse_other_version(path, number, _version(text))
                raise _invalid(path, number, error) from None
            if line.v != SCHEMA_VERSION:
                _refuse_other_version(path, number, line.v)
            yield number, text, line
    except OSError as error:
        raise StoreFailed(
            f"Cannot read {path}: {error.strerror}.", "Mend its permissions, then try again."
        ) from None


def _version(text: bytes) -> int:
    try:
        return msgspec.json.decode(text, type=_Version).v
    except (msgspec.MsgspecError, RecursionError):
        return SCHEMA_VERSION


def _refuse_other_version(path: Path, number: int, version: int) -> None:
    if version != SCHEMA_VERSION:
        raise DataInvalid(
            f"{path}, line {number}: schema version {version}, this harness reads"
            f" version {SCHEMA_VERSION}.",
            "Read the run with the harness that wrote it.",
        )


def _invalid(path: Path, number: int, error: Exception) -> DataInvalid:
    # The error may quote the line, which may be long.
    return DataInvalid(
        f"{path}, line {number}: not an attempt ({str(error)[:160]}).",
        "Remove the line and run again: its attempt is then owed again.",
    )


def _latest(table: AttemptTable, lines: Ints) -> tuple[AttemptTable, Ints]:
    """The last of the lines of each key, and which these are.

    A round that was written anew ends its sample: later rounds in earlier
    lines followed another answer (the ledger owes them again, too).

    table, lines: from `Attempts.table`.
    """
    again = (
        (np.diff(table.instance) == 0) & (np.diff(table.sample) == 0) & (np.diff(table.round) == 0)
    )
    if not again.any():
        return table, lines
    last = np.append(~again, True)
    table, lines, anew = table.take(last), lines[last], np.append(False, again)[last]
    # Each sample's lines are lifted above those of the samples before it, so that
    # one running maximum tells the latest rewriting so far in every sample.
    floor = np.cumsum(table.sample_starts()) * len(last) * 2
    lifted = floor + lines
    kept = lifted >= np.maximum.accumulate(np.where(anew, lifted, floor))
    return table.take(kept), lines[kept]
