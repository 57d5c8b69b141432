"""Reading a run's `attempts.jsonl`: as columns for analysis, whole for showing.

Owns what a reader must decide: the last line of a key (instance, sample,
round) counts, a torn last line is no attempt, a line of another schema version
is refused. Columns keep a million attempts small: texts, requests, feedback
and scores are skipped, not held.

>>> attempts, calls = read_columns(Path("runs/none/attempts.jsonl"))
>>> len(attempts), len(calls)
(0, 0)
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.errors import DataInvalid, StoreFailed
from harness.records import OUTCOMES, SCHEMA_VERSION, Attempt, Outcome, Rewriting, Usage
from harness.store.attempts import lines
from harness.store.columns import (
    NOT_JUDGED,
    TOKENS,
    UNKNOWN_TOKENS,
    AttemptTable,
    CallTable,
    InstanceTable,
    Ints,
)

_NOT_COUNTED = (UNKNOWN_TOKENS,) * len(TOKENS)
_OUTCOME_CODE = {outcome: code for code, outcome in enumerate(OUTCOMES)}

L = TypeVar("L", bound="_Name")
N = TypeVar("N", bound=np.generic)


def read_columns(path: Path) -> tuple[AttemptTable, CallTable]:
    """All attempts and calls of a file, superseded lines resolved; empty where there is no file.

    Raises: DataInvalid with file and line, StoreFailed where the file cannot be read.
    """
    instances, calls = _Instances(), _Calls()
    instance, sample, round_ = array("i"), array("i"), array("i")
    outcome, passed = array("b"), array("b")
    for number, _, line in _decoded(path, _Line):
        try:
            instance.append(instances.number(line))
            calls.add(line)
            for rewriting in line.polish:
                calls.add(rewriting)
        except (msgspec.MsgspecError, UnicodeDecodeError, OverflowError) as error:
            raise _invalid(path, number, error) from None
        sample.append(line.sample)
        round_.append(line.round)
        outcome.append(_OUTCOME_CODE[line.outcome])
        passed.append(NOT_JUDGED if line.passed is None else line.passed)
    instance_table, row_of = instances.table()
    table = AttemptTable(
        row_of[_column(instance, np.int32)],
        _column(sample, np.int32),
        _column(round_, np.int32),
        _column(outcome, np.int8),
        _column(passed, np.int8),
        instance_table,
    )
    return _latest(table), calls.table()


def read_payments(path: Path) -> dict[bytes, float]:
    """What a run has paid for its calls in US dollars, by the call's key, as far as it is known.

    Raises: as `read_columns`.
    """
    paid: dict[bytes, float] = {}
    for number, _, line in _decoded(path, _Line):
        for call in (line, *line.polish):
            assert isinstance(call, _Line | Rewriting)
            if call.call_id is None or call.cached or call.cost_usd is None:
                continue
            try:
                paid[bytes.fromhex(call.call_id)] = call.cost_usd
            except ValueError as error:
                raise _invalid(path, number, error) from None
    return paid


def read_instance(path: Path, instance: str) -> list[Attempt]:
    """The whole attempts of one instance, in order of sample and round.

    Empty where the file has none. Raises: as `read_columns`.
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
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise _invalid(path, number, error) from None
            for sample, later in list(latest):
                if anew and sample == name.sample and later > name.round:
                    del latest[sample, later]
    return [latest[key] for key in sorted(latest)]


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


class _Line(_Name, gc=False):
    """What analysis needs of a line."""

    groups: msgspec.Raw  # decoded once for each distinct mapping
    cluster: str
    outcome: Outcome
    passed: bool | None = None
    call_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    polish: tuple[Rewriting, ...] = ()


def _decoded(path: Path, shape: type[L]) -> Iterator[tuple[int, bytes, L]]:
    """Number, from 1, text and content of each complete line."""
    decode = msgspec.json.Decoder(shape).decode
    try:
        for number, (_, text) in enumerate(lines(path), start=1):
            try:
                line = decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
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
    except msgspec.MsgspecError:
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


def _latest(table: AttemptTable) -> AttemptTable:
    """Sorted by key, the last of the lines of each key.

    A round that was written anew ends its sample: later rounds in earlier
    lines followed another answer (the ledger owes them again, too).
    """
    # The sort is stable: lines of one key keep the order of the file.
    lines = np.lexsort((table.round, table.sample, table.instance))
    table = table.take(lines)
    again = (
        (np.diff(table.instance) == 0) & (np.diff(table.sample) == 0) & (np.diff(table.round) == 0)
    )
    last = np.append(~again, True)[: len(table)]
    anew = np.append(False, again)[: len(table)][last]
    table, lines = table.take(last), lines[last]
    if not anew.any():
        return table
    # Each sample's lines are lifted above those of the samples before it, so that
    # one running maximum tells the latest rewriting so far in every sample.
    floor = np.cumsum(table.sample_starts()) * len(again) * 2
    lifted = floor + lines
    return table.take(lifted >= np.maximum.accumulate(np.where(anew, lifted, floor)))


class _Instances:
    """Gathers an `InstanceTable` from lines, numbering the instances as they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        # Held as 64-bit hashes, as the names of calls are.
        self._cluster = array("q")
        self._grouping = array("i")
        self._groupings: dict[bytes, int] = {}

    def number(self, line: _Line) -> int:
        """Of the line's instance, from 0."""
        number = self._numbers.get(line.instance)
        if number is None:
            groups = bytes(line.groups)
            if groups not in self._groupings:
                msgspec.json.decode(groups, type=dict[str, str])  # or raise
            number = self._numbers[line.instance] = len(self._numbers)
            self._cluster.append(hash(line.cluster))
            self._grouping.append(self._groupings.setdefault(groups, len(self._groupings)))
        return number

    def table(self) -> tuple[InstanceTable, Ints]:
        """The instances sorted by id, and (m,) the row of each number.

        Sorted, because attempts finish in another order every time, and the
        same attempts shall give the same figures to the last bit.
        """
        ids = sorted(self._numbers)
        numbers = np.fromiter((self._numbers[name] for name in ids), np.intp, len(ids))
        self._numbers.clear()  # half of the memory, and no longer needed
        row_of = np.empty(len(ids), dtype=np.int32)
        row_of[numbers] = np.arange(len(ids), dtype=np.int32)
        groupings = list(self._groupings)
        grouping, used = _numbered(_column(self._grouping, np.int32)[numbers])
        table = InstanceTable(
            tuple(ids),
            _numbered(_column(self._cluster, np.int64)[numbers])[0],
            grouping,
            tuple(msgspec.json.decode(groupings[old], type=dict[str, str]) for old in used),
        )
        return table, row_of


def _numbered(values: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """The values numbered in the order in which they come, and the value of each number."""
    distinct, first, rows = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return number[rows], distinct[order]


class _Calls:
    """Gathers a `CallTable` from the lines that name a call.

    Lines of one call may differ in what they know (one was paid for, another
    came from the cache): the largest figure is the call's, and it was paid for
    by this run where any line says so.
    """

    def __init__(self) -> None:
        # Names are held as 64-bit hashes, 8 bytes instead of 200: among a
        # million calls, the odds that any two are taken for one are 1 in 10^7.
        self._name, self._tokens, self._cost = array("q"), array("i"), array("d")
        self._paid = array("b")

    def add(self, call: _Line | Rewriting) -> None:
        """Raises: OverflowError where a count is no number of tokens."""
        if call.call_id is None:
            return
        usage = call.usage
        self._tokens.extend(_NOT_COUNTED if usage is None else msgspec.structs.astuple(usage))
        self._name.append(hash(call.call_id))
        self._paid.append(not call.cached)
        self._cost.append(float("nan") if call.cost_usd is None else call.cost_usd)

    def table(self) -> CallTable:
        names, rows = np.unique(_column(self._name, np.int64), return_inverse=True)
        tokens = np.full((len(names), len(TOKENS)), UNKNOWN_TOKENS, dtype=np.int32)
        counts = _column(self._tokens, np.int32).reshape(-1, len(TOKENS))
        for kind in range(len(TOKENS)):
            np.maximum.at(tokens[:, kind], rows, counts[:, kind])
        cost_usd = np.full(len(names), np.nan)
        np.fmax.at(cost_usd, rows, _column(self._cost, np.float64))
        paid = np.zeros(len(names), dtype=np.bool_)
        np.logical_or.at(paid, rows, _column(self._paid, np.int8) != 0)
        return CallTable(tokens, cost_usd, paid)


def _column(values: array[Any], dtype: type[N]) -> NDArray[N]:
    """The same memory, not a copy."""
    return np.frombuffer(values, dtype=dtype)
