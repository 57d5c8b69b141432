"""The lines of a run's file gathered into columns.

Owns what that costs in memory. A row is packed into tens of bytes, and rows
into blocks so small that they fit between what the run has left in its memory:
a run of many prompts ends with hardly more of it than a run of few.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from math import fsum
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.records import OUTCOMES, Outcome, Usage
from harness.store.columns import (
    NOT_JUDGED,
    AttemptTable,
    Bools,
    CallTotals,
    InstanceTable,
    Ints,
    Values,
    name_digest,
)

Value = bool | float | None
"""Of a score."""

BLOCK_BYTES = 1 << 14

MOST_SCORES = 200
"""Names of scores: each has a column as long as the run, which no data set shall make many of."""

_OUTCOME_CODE = {outcome: code for code, outcome in enumerate(OUTCOMES)}
_TOKENS: tuple[str, ...] = Usage.__struct_fields__
_UNKNOWN = -1
_NOT_COUNTED = (_UNKNOWN,) * len(_TOKENS)


class Rows:
    """Rows of numbers, gathered one by one, read by column.

    fields: the code of `struct` for each column.
    """

    def __init__(self, **fields: str) -> None:
        packing = struct.Struct("=" + "".join(fields.values()))
        self._dtype = np.dtype([(name, "=" + code) for name, code in fields.items()])
        self._pack: Callable[..., bytes] = packing.pack
        self._blocks: list[bytearray] = [bytearray()]

    def append(self, *row: float) -> None:
        """Raises: struct.error where a number does not fit its column."""
        block = self._blocks[-1]
        block += self._pack(*row)
        if len(block) >= BLOCK_BYTES:
            self._blocks.append(bytearray())

    def column(self, name: str) -> NDArray[Any]:
        """(n,) a copy of one column."""
        return np.concatenate([np.frombuffer(b, self._dtype)[name] for b in self._blocks])


class Attempts:
    """Gathers an `AttemptTable`."""

    def __init__(self) -> None:
        self._rows = Rows(
            **dict.fromkeys(("digest", "cluster"), "q"),
            **dict.fromkeys(("grouping", "sample", "round"), "i"),
            scoring="h",
            **dict.fromkeys(("outcome", "passed"), "b"),
        )
        self._groupings: dict[bytes, int] = {}
        self._scores = Scores()

    def add(
        self,
        instance: str,
        sample: int,
        round_: int,
        *,
        groups: bytes,
        cluster: str,
        outcome: Outcome,
        passed: bool | None,
        scores: Mapping[str, Value],
    ) -> None:
        """Add a line.

        groups: in JSON, decoded once for each distinct text.
        scores: name to value.

        Raises: msgspec.MsgspecError where groups is no mapping of label to group;
            OverflowError for too many names of scores.
        """
        grouping = self._groupings.get(groups)
        if grouping is None:
            _decoded(groups)  # or raise
            grouping = self._groupings[groups] = len(self._groupings)
        self._rows.append(
            name_digest(instance),
            name_digest(cluster),
            grouping,
            sample,
            round_,
            self._scores.add(scores),
            _OUTCOME_CODE[outcome],
            NOT_JUDGED if passed is None else passed,
        )

    def table(self) -> tuple[AttemptTable, Ints]:
        """All lines sorted by key and, for one key, as in the file; (n,) where each was in it.

        Instances are in an order that is the same in every process, because
        attempts finish in another order every time, and the same attempts shall
        give the same figures to the last bit.
        """
        digest = self._rows.column("digest")
        sample, round_ = self._rows.column("sample"), self._rows.column("round")
        # The sort is stable: lines of one key keep the order of the file.
        lines = np.lexsort((round_, sample, digest)).astype(np.int32)
        digest, sample, round_ = digest[lines], sample[lines], round_[lines]
        new = _changes(digest)
        table = AttemptTable(
            np.cumsum(new, dtype=np.int32) - np.int32(1),
            sample,
            round_,
            self._rows.column("outcome")[lines],
            self._rows.column("passed")[lines],
            self._scores.columns(self._rows.column("scoring"), lines),
            self._instances(digest[new], lines[new]),
        )
        return table, lines

    def _instances(self, digest: NDArray[np.int64], first: Ints) -> InstanceTable:
        """digest: (m,); first: (m,) a line of each."""
        clusters = self._rows.column("cluster")[first]
        order = np.argsort(clusters).astype(np.int32)
        cluster = np.empty_like(order)
        cluster[order] = np.cumsum(_changes(clusters[order]), dtype=np.int32) - np.int32(1)
        del clusters, order
        # Numbered anew, in the order of the instances: the file's is another every time.
        old = self._rows.column("grouping")[first]
        seen, at = np.unique(old, return_index=True)
        seen = seen[np.argsort(at)]
        number = np.zeros(len(self._groupings), dtype=np.int32)
        number[seen] = np.arange(len(seen), dtype=np.int32)
        groupings = list(self._groupings)
        return InstanceTable(
            digest, cluster, number[old], tuple(_decoded(groupings[one]) for one in seen)
        )


def _decoded(groups: bytes) -> dict[str, str]:
    return msgspec.json.decode(groups, type=dict[str, str])


class Scores:
    """Gathers the scores of attempts.

    Attempts of one run mostly have the same scores. Those with the same names, of
    the same kinds, make a table of their own: a byte for a verdict, eight for a number.
    """

    def __init__(self) -> None:
        self._tables: dict[tuple[tuple[str, bool], ...], tuple[int, Rows]] = {}
        self._names: set[str] = set()

    def add(self, scores: Mapping[str, Value]) -> int:
        """Add an attempt's scores; which table they went to.

        Raises: OverflowError for too many names.
        """
        kinds = tuple(
            (name, value is not None and not isinstance(value, bool))
            for name, value in scores.items()
        )
        if kinds not in self._tables:
            self._names |= scores.keys()
            if len(self._names) > MOST_SCORES:
                raise OverflowError(f"more than {MOST_SCORES} names of scores")
            codes = {str(place): "d" if number else "b" for place, (_, number) in enumerate(kinds)}
            self._tables[kinds] = len(self._tables), Rows(**codes)
        table, rows = self._tables[kinds]
        if kinds:
            rows.append(*(NOT_JUDGED if value is None else value for value in scores.values()))
        return table

    def columns(self, table: Ints, lines: Ints) -> dict[str, Values]:
        """(n,) the values of each score.

        table: (n,) what `add` gave, line by line.
        lines: (n,) the lines in the order wanted.
        """
        numbers: dict[str, bool] = {}
        first: dict[str, int] = {}
        for kinds in self._tables:
            for place, (name, number) in enumerate(kinds):
                numbers[name] = number or numbers.get(name, False)
                first[name] = min(place, first.get(name, place))
        # In an order that is the same whichever attempt came first.
        values: dict[str, Values] = {
            name: np.full(len(table), np.nan)
            if numbers[name]
            else np.full(len(table), NOT_JUDGED, np.int8)
            for name in sorted(numbers, key=lambda name: (first[name], name))
        }
        for kinds, (code, rows) in self._tables.items():
            alone = len(self._tables) == 1
            here = slice(None) if alone else np.flatnonzero(table == code)
            for place, (name, number) in enumerate(kinds):
                column = rows.column(str(place))
                if numbers[name] and not number:
                    column = np.where(column == NOT_JUDGED, np.nan, column)
                values[name][here] = column
        for name in values:
            values[name] = values[name][lines]
        return values


class Calls:
    """Gathers `CallTotals` from the lines that name a call.

    Lines of one call may differ in what they know (one was paid for, another
    came from the cache): the largest figure is the call's, and it was paid for
    by this run where any line says so.
    """

    def __init__(self) -> None:
        # Names are held as 64-bit hashes, 8 bytes instead of 200: among a
        # million calls, the odds that any two are taken for one are 1 in 10^7.
        self._rows = Rows(name="q", cost="d", paid="b", **dict.fromkeys(_TOKENS, "i"))

    def add(self, name: str, usage: Usage | None, cost_usd: float | None, *, paid: bool) -> None:
        """Raises: struct.error where a count is no number of tokens."""
        cost = float("nan") if cost_usd is None else cost_usd
        counts = _NOT_COUNTED if usage is None else msgspec.structs.astuple(usage)
        self._rows.append(hash(name), cost, paid, *counts)

    def totals(self) -> CallTotals:
        """Of all calls."""
        names = self._rows.column("name")
        order = np.argsort(names).astype(np.int32)
        starts = np.flatnonzero(_changes(names[order])).astype(np.int32)
        del names

        def largest(column: str) -> NDArray[Any]:
            # Of the numbers: what is not a number is not known.
            found: NDArray[Any] = np.fmax.reduceat(self._rows.column(column)[order], starts)
            return found

        counted = np.ones(len(starts), dtype=np.bool_)
        for kind in _TOKENS:
            counted &= largest(kind) != _UNKNOWN
        n_counted = int(counted.sum())
        tokens = (largest(kind).sum(where=counted, dtype=np.int64) for kind in _TOKENS)
        cost_usd = largest("cost")
        priced = ~np.isnan(cost_usd)
        paid = largest("paid") != 0
        return CallTotals(
            n=len(starts),
            usage=Usage(*map(int, tokens)) if n_counted or not len(starts) else None,
            n_without_usage=len(starts) - n_counted,
            # Exact, because calls come in no particular order.
            known_cost_usd=fsum(cost_usd[priced]),
            paid_usd=fsum(cost_usd[priced & paid]),
            n_without_cost=len(starts) - int(priced.sum()),
        )


def _changes(values: NDArray[Any]) -> Bools:
    """(n,) true where a value differs from the one before it, and at the first."""
    new = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new
