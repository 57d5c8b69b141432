"""A run's attempts as NumPy columns, built line by line.

An attempt takes tens of bytes, because texts are omitted and names become 64-bit digests.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from math import nan
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.config.run_file import MAX_SAMPLES
from harness.config.sections import MAX_ROUNDS
from harness.records import MAX_MAGNITUDE, OUTCOMES, OUTCOMES_WITHOUT_REPLY, Outcome

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Values = NDArray[np.float64] | NDArray[np.int8]
"""The values of a score: numbers (NaN if missing), or verdicts (1, 0 or `NOT_JUDGED`)."""

NOT_JUDGED = -1  # a missing verdict, which is not a failure
MAX_SCORE_NAMES = 200  # in a run: each has a column as long as the run
_TOO_MANY_NAMES = f"more than {MAX_SCORE_NAMES} score names"

_OUTCOME_CODE = {outcome: code for code, outcome in enumerate(OUTCOMES)}


@lru_cache(maxsize=4096)  # names repeat, and a larger cache would take too much memory
def name_digest(name: str) -> int:
    """Hash the name of an instance or cluster to 64 bits, identically in every process."""
    digest = blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def natural_sort_key(name: str) -> list[tuple[int, int, str]]:
    """Return the key that sorts names naturally: numbers in names are ordered by value."""
    key = []
    for part in re.findall(r"[0-9]{1,18}|[^0-9]+", name):
        key.append((0, int(part), "") if part.isdecimal() else (1, 0, part))
    return key


@dataclass(frozen=True, slots=True)
class InstanceTable:
    """A run's m instances, with the data that their attempts share."""

    digest: NDArray[np.int64]  # (m,) `name_digest` of the names, ascending
    cluster: Ints  # (m,) index of the statistical unit, from 0
    grouping: Ints  # (m,) index into ``groupings``
    groupings: tuple[Mapping[str, str], ...]  # the distinct mappings of label to group


@dataclass(frozen=True, slots=True)
class AttemptTable:
    """Attempts as columns of length n, sorted by instance, sample and round."""

    instance: Ints  # row in ``instances``
    sample: Ints
    round: Ints
    outcome: NDArray[np.int8]  # index into `harness.records.OUTCOMES`
    passed: NDArray[Any]  # 1, 0 or `NOT_JUDGED`; for a measure over k samples, its values
    scores: Mapping[str, Values]  # by name
    instances: InstanceTable  # every selection of attempts shares the whole table
    turns: AttemptTable | None = None  # in scripted conversations: each turn's verdict and scores
    # Whether a numeric score is a share, by name, for scores that declare it (`Score.share`).
    shares: Mapping[str, bool] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.instance)

    @property
    def cluster(self) -> Ints:
        """The (n,) index of each attempt's statistical unit."""
        return self.instances.cluster[self.instance]

    @property
    def has_verdict(self) -> Bools:
        """An (n,) mask of the attempts that have a verdict."""
        return np.asarray(self.passed != NOT_JUDGED)

    @property
    def has_reply(self) -> Bools:
        """An (n,) mask of the attempts whose call returned a reply."""
        codes = list(map(OUTCOMES.index, OUTCOMES_WITHOUT_REPLY))
        return np.isin(self.outcome, codes, invert=True)

    def has_score(self, name: str) -> Bools:
        """Return an (n,) mask of the attempts that have a value of the named score."""
        values = self.scores[name]
        return np.not_equal(values, NOT_JUDGED) if values.dtype == np.int8 else ~np.isnan(values)

    def take(self, rows: Bools | Ints) -> AttemptTable:
        """Return the selected attempts. ``rows`` is an (n,) mask, or ascending row indices."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        names = ("instance", "sample", "round", "outcome", "passed")
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in names}
        scores = {name: values[rows] for name, values in self.scores.items()}
        turns = None if self.turns is None else self.turns.take(rows)
        return replace(self, **columns, scores=scores, turns=turns)

    def sample_starts(self) -> Bools:
        """Return an (n,) mask of the first row of each sample."""
        return change_mask(self.instance) | change_mask(self.sample)

    def is_last_round(self, round_: int | None = None) -> Bools:
        """Return an (n,) mask of the last round of each sample.

        Rounds after ``round_`` do not count (None: all count), unless rounds are turns.
        """
        round_ = None if self.turns is not None else round_
        in_range = np.ones(len(self), np.bool_) if round_ is None else self.round <= round_
        # The row after a sample's last one belongs to another sample or a later round.
        ends = np.append(self.sample_starts()[1:] | ~in_range[1:], True)[: len(self)]
        return np.asarray(in_range & ends)

    @property
    def max_round(self) -> int:
        """The highest round of any attempt, or 0 without attempts. All turns count as round 1."""
        highest = int(self.round.max(initial=0))
        return highest if self.turns is None else min(highest, 1)

    def last_rounds(self, round_: int | None = None) -> AttemptTable:
        """Return the last attempt of each sample. ``round_`` is as in `is_last_round`."""
        return self.take(self.is_last_round(round_))

    def labels(self) -> list[str]:
        """Return the labels of the instances' groups, in order of first appearance."""
        labels: dict[str, str] = {}
        for groups in self.instances.groupings:
            labels |= groups
        return list(labels)

    def split_by(self, label: str) -> Iterator[tuple[str, AttemptTable]]:
        """Yield the name and the attempts of each non-empty group of a label, sorted by name."""
        groups = [grouping.get(label) for grouping in self.instances.groupings]
        names = sorted({group for group in groups if group is not None})
        code_of: dict[str | None, int] = {name: code for code, name in enumerate(names)}
        grouping_codes = np.array([code_of.get(group, -1) for group in groups], np.intp)
        codes = grouping_codes[self.instances.grouping[self.instance]]
        for code, rows in group_rows(codes, len(names)):
            yield names[code], self.take(rows)


def group_rows(codes: NDArray[np.integer], n_groups: int) -> Iterator[tuple[int, Ints]]:
    """Yield the code and the rows of each non-empty group.

    ``codes`` has each row's group, from 0 to ``n_groups`` - 1 (-1: none).
    """
    # One stable sort instead of a mask per group: labels may have thousands of groups.
    order = np.argsort(codes, kind="stable").astype(np.int32)
    starts = np.searchsorted(codes[order], np.arange(n_groups + 1))
    for code in range(n_groups):
        rows = order[starts[code] : starts[code + 1]]
        if len(rows):
            yield code, rows


class LineKey(msgspec.Struct, gc=False):
    """The fields that identify a line of attempts or judgements."""

    v: int
    instance: str
    sample: Annotated[int, msgspec.Meta(ge=0, lt=MAX_SAMPLES)]
    round: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROUNDS)]


class ScoreValue(msgspec.Struct, gc=False):
    """The fields of a score that the columns need."""

    value: bool | Annotated[float, msgspec.Meta(ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE)] | None
    share: bool | None = None


class _Draw(msgspec.Struct, frozen=True, gc=False):
    redraw: Annotated[int, msgspec.Meta(ge=0, lt=2**15)] = 0


class TableLine(LineKey, gc=False):
    """The fields of an attempt that the columns need."""

    groups: msgspec.Raw  # decoded once for each distinct mapping
    cluster: str
    outcome: Outcome
    passed: bool | None = None
    scores: dict[str, ScoreValue] = {}
    turns: Annotated[int, msgspec.Meta(ge=0, lt=2**15)] = 0
    request: _Draw = _Draw()


class TableBuilder:
    """A builder of an `AttemptTable`, line by line."""

    def __init__(self) -> None:
        self._rows = NumericRows(
            digest="q", cluster="q", grouping="i", sample="i", round="i", outcome="b", passed="b"
        )
        self._groupings: dict[bytes, int] = {}  # index of each distinct ``groups`` in JSON
        self._scores = ScoreColumns()

    def add(self, line: TableLine) -> None:
        """Add an attempt's line.

        Raises:
            MsgspecError: If the line's groups are not a mapping of strings to strings.
            OverflowError: If the run has too many distinct score names.
            struct.error: If a number does not fit into its column.
        """
        groups = bytes(line.groups)
        if groups not in self._groupings:
            _decode_groups(groups)  # raises if invalid
            self._groupings[groups] = len(self._groupings)
        passed = NOT_JUDGED if line.passed is None else line.passed
        self._rows.append(
            name_digest(line.instance),
            name_digest(line.cluster),
            self._groupings[groups],
            line.sample,
            line.round,
            _OUTCOME_CODE[line.outcome],
            passed,
        )
        self._scores.add(line.scores)

    def extend(self, builder: TableBuilder) -> None:
        """Append the lines of another builder.

        Raises:
            OverflowError: If there would be too many distinct score names. Nothing is then added.
        """
        self._scores.extend(builder._scores)
        known_indices = self._groupings
        indices = []
        for groups in builder._groupings:
            indices.append(known_indices.setdefault(groups, len(known_indices)))
        columns = {name: builder._rows.column(name) for name in builder._rows.formats}
        columns["grouping"] = np.array(indices, np.int32)[columns["grouping"]]
        self._rows.extend(columns)

    def build(self) -> tuple[AttemptTable, Ints]:
        """Return the table of all lines, and each row's line number (from 0).

        Rows are sorted, so that the same attempts give the same metrics to the last bit, in
        whatever order they finish.
        """
        column = self._rows.column
        digest = column("digest")
        # The sort is stable: lines of one key keep the order of the file.
        lines = np.lexsort((column("round"), column("sample"), digest)).astype(np.int32)
        digest = digest[lines]
        is_new_instance = change_mask(digest)
        table = AttemptTable(
            np.cumsum(is_new_instance, dtype=np.int32) - np.int32(1),
            column("sample")[lines],
            column("round")[lines],
            column("outcome")[lines],
            column("passed")[lines],
            self._scores.take(lines),
            self._build_instances(digest[is_new_instance], lines[is_new_instance]),
            shares=self._scores.shares,
        )
        return table, lines

    def _build_instances(self, digest: NDArray[np.int64], first_lines: Ints) -> InstanceTable:
        """Return the table of instances, from their digests and first lines."""
        _, cluster = np.unique(self._rows.column("cluster")[first_lines], return_inverse=True)
        # Groupings are numbered in the order of the instances, since the file's order varies.
        file_indices = self._rows.column("grouping")[first_lines]
        distinct, first_rows = np.unique(file_indices, return_index=True)
        distinct = distinct[np.argsort(first_rows)]
        table_index = np.zeros(len(self._groupings), np.int32)
        table_index[distinct] = np.arange(len(distinct), dtype=np.int32)
        texts = list(self._groupings)
        groupings = tuple(_decode_groups(texts[index]) for index in distinct)
        grouping = table_index[file_indices]
        return InstanceTable(digest, cluster.astype(np.int32), grouping, groupings)


def _decode_groups(groups: bytes) -> dict[str, str]:
    return msgspec.json.decode(groups, type=dict[str, str])


class ScoreColumns:
    """The scores of lines as columns, built line by line."""

    def __init__(self) -> None:
        self.shares: dict[str, bool] = {}  # by name, as in `AttemptTable`
        self._n_lines = 0  # lines
        # By name, up to the last line with a value: verdicts ("b") or, if any is no verdict,
        # numbers ("d").
        self._columns: dict[str, array[Any]] = {}
        self._positions: dict[str, int] = {}  # by name, the lowest index of the score in any line

    def add(self, scores: Mapping[str, ScoreValue]) -> int:
        """Add the scores of a line, and return the line's index.

        Raises:
            OverflowError: If the run has too many distinct score names.
        """
        line = self._n_lines
        for position, (name, score) in enumerate(scores.items()):
            if position < self._positions.get(name, MAX_SCORE_NAMES):
                self._positions[name] = position
            column = self._columns.get(name)
            if column is None:
                column = self._add_column(name)
            value = score.value
            if value is None:
                continue
            if not isinstance(value, bool):
                if column.typecode == "b":
                    column = self._columns[name] = _verdicts_to_numbers(column)
                if score.share is not None:
                    self.shares[name] = score.share and self.shares.get(name, True)
            _pad(column, line)
            column.append(value)
        self._n_lines += 1
        return line

    def _add_column(self, name: str) -> array[Any]:
        if len(self._columns) == MAX_SCORE_NAMES:
            raise OverflowError(_TOO_MANY_NAMES)
        column: array[Any] = array("b")
        self._columns[name] = column
        return column

    def extend(self, scores: ScoreColumns) -> None:
        """Append the lines of another object.

        Raises:
            OverflowError: If there would be too many distinct score names. Nothing is then added.
        """
        if len(self._columns.keys() | scores._columns.keys()) > MAX_SCORE_NAMES:
            raise OverflowError(_TOO_MANY_NAMES)
        for name, added in scores._columns.items():
            column: array[Any] = self._columns.get(name, array("b"))
            if added.typecode != column.typecode:
                column = column if column.typecode == "d" else _verdicts_to_numbers(column)
                added = added if added.typecode == "d" else _verdicts_to_numbers(added)
            _pad(column, self._n_lines)
            column.extend(added)
            self._columns[name] = column
            position = scores._positions[name]
            self._positions[name] = min(position, self._positions.get(name, position))
        for name, share in scores.shares.items():
            self.shares[name] = share and self.shares.get(name, True)
        self._n_lines += scores._n_lines

    def take(self, lines: Ints) -> dict[str, Values]:
        """Return the scores of the selected lines, by name. Line -1 has no scores.

        The names are in the same order, whichever line came first.
        """
        values: dict[str, Values] = {}
        for name in sorted(self._columns, key=lambda name: (self._positions[name], name)):
            column = self._columns[name]
            _pad(column, self._n_lines + 1)
            values[name] = np.frombuffer(column, column.typecode)[lines]
            del column[self._n_lines :]
        return values


def _pad(column: array[Any], length: int) -> None:
    """Extend a column of scores to ``length`` with missing values."""
    n_missing = length - len(column)
    if n_missing > 0:
        missing = NOT_JUDGED if column.typecode == "b" else nan
        column.extend(array(column.typecode, [missing]) * n_missing)


def _verdicts_to_numbers(verdicts: array[Any]) -> array[Any]:
    numbers = array("d", verdicts)
    for index, verdict in enumerate(verdicts):
        if verdict == NOT_JUDGED:
            numbers[index] = nan
    return numbers


def change_mask(values: NDArray[Any]) -> Bools:
    """Return an (n,) mask that is true at the first value and wherever a value changes."""
    is_change = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_change[1:])
    return is_change


class NumericRows:
    """A growing table of numbers. ``formats`` has each column's format character of `struct`."""

    def __init__(self, **formats: str) -> None:
        self.formats = formats
        self._format = "=" + "".join(formats.values())
        self._dtype = np.dtype([(name, "=" + code) for name, code in formats.items()])
        self._records = bytearray()

    def append(self, *row: float) -> None:
        """Append a row.

        Raises:
            struct.error: If a number does not fit into its column.
        """
        self._records += struct.pack(self._format, *row)

    def extend(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Append rows. ``columns`` has their values, of the same types as in this table."""
        lengths = [len(column) for column in columns.values()]
        records = np.empty(lengths[0], self._dtype)
        for name, column in columns.items():
            records[name] = column
        self._records += records.tobytes()

    def column(self, name: str) -> NDArray[Any]:
        """Return a column. No row may be added while it is in use."""
        return np.frombuffer(self._records, self._dtype)[name]
