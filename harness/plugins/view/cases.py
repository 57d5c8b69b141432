"""Selects the cases that the page's filters ask for, by columns and by words in the texts.

A case is one sample of an instance, with a cell for each run. Only `TextSearch` reads texts, which
may be larger than memory; all other filters use columns.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from stringzilla import utf8_uncased_search

from harness.records import OUTCOMES, Message, PlayedTurn
from harness.store.columns import NOT_JUDGED, AttemptTable, Bools, Values, change_mask
from harness.store.files import open_regular_file
from harness.store.index import AttemptIndex

VERDICTS = {"passed": 1, "failed": 0, "not judged": NOT_JUDGED}
MISSING = -1  # the row of a cell that a run does not have
_NO_ROWS = np.empty(0, np.intp)

Ints = NDArray[np.int64]
Cells = NDArray[np.int32]  # the row of a run's attempt in each case, or `MISSING`
Rows = NDArray[np.intp]
Verdicts = NDArray[np.int8]
Numbers = NDArray[np.float64]


class CaseFilter(msgspec.Struct, frozen=True):
    """The filters in the URL of the page's grid. A filter that is not set is empty."""

    run: tuple[str, ...] = ()  # the columns that are shown
    where: str = ""
    score: str = ""
    verdict: str = ""
    outcome: str = ""
    round: str = ""
    reason: str = ""
    change: str = ""
    differ: str = ""
    q: str = ""
    sort: str = ""
    groups: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, query: Mapping[str, Sequence[str]]) -> CaseFilter:
        """Return the filters in a request's query."""
        filters: dict[str, object] = {"run": query.get("run", [])}
        groups = []
        for name, values in query.items():
            if name.startswith("in."):
                groups.append((name.removeprefix("in."), values[-1]))
            elif name in cls.__struct_fields__ and name not in ("run", "groups"):
                filters[name] = values[-1]
        return msgspec.convert(filters | {"groups": groups}, cls)


@dataclass(frozen=True, slots=True)
class Findings:
    """Facts about the runs' attempts that are not in their columns.

    ``reasons`` and ``hits`` have the byte offsets of attempts' lines, and ``changes`` has the
    digests of instances.
    """

    reasons: Mapping[str, Sequence[Ints]] = field(default_factory=dict)  # of failures, by run
    changes: Mapping[str, Collection[int]] = field(default_factory=dict)  # "better:RUN": digests
    hits: Sequence[Ints] | None = None  # attempts with the text that is searched for, by run


@dataclass(frozen=True, slots=True)
class FoundCases:
    """The cases that a filter selects, in the order in which they are shown.

    ``cells`` holds, for each run and case, the row of the run's attempt, or `MISSING`.
    """

    cells: Cells  # (runs, n)
    matches: Sequence[Bools]  # by run and row
    verdicts: Sequence[Verdicts]  # by run and row
    values: Sequence[Values | None]  # by run and row, if a number is shown
    instances: int

    def __len__(self) -> int:
        return int(self.cells.shape[1])


class CaseTable:
    """The cases of some runs: those of the first run in file order, then others of later runs."""

    def __init__(self, names: Sequence[str], indexes: Sequence[AttemptIndex]) -> None:
        self.names = names
        self.indexes = indexes
        self.labels = dict.fromkeys(label for run in indexes for label in run.attempts.labels())
        digests = [index.attempts.instances.digest for index in indexes]
        every = _distinct(digests)
        first = np.full(len(every), np.iinfo(np.int64).max)
        places = [np.searchsorted(every, digests_of_run) for digests_of_run in digests]
        for number, index in reversed(list(enumerate(indexes))):
            if len(index):
                starts = np.flatnonzero(change_mask(index.attempts.instance))
                # The runs' offsets one after another: the first run that has an instance counts.
                first[places[number]] = np.minimum.reduceat(index.offset, starts) + (number << 50)
        rank = np.empty(len(every), np.int64)
        rank[np.argsort(first)] = np.arange(len(every))
        keys = []
        for place, index in zip(places, indexes, strict=True):
            instance_rank = rank[place][index.attempts.instance]
            keys.append((instance_rank << 31) | index.attempts.sample)
        self.cases, every_place = _numbered(keys)
        ends = np.cumsum([len(index) for index in indexes])
        self._places = np.split(every_place, ends[:-1])
        self._last: dict[int | None, Cells] = {}

    def find(
        self, filters: CaseFilter, findings: Findings, default_round: int | None
    ) -> FoundCases:
        """Return the cases that a filter selects.

        ``default_round`` is shown if the filter names no round (None: the last).
        """
        verdicts = []
        values = []
        matches = []
        counted: dict[int, Bools] = {}
        is_shown = np.ones(len(self.names), np.bool_)
        for run, name in enumerate(self.names):
            run_verdicts, run_values = self._scored(run, filters.score)
            verdicts.append(run_verdicts)
            values.append(run_values)
            matches.append(self._matches(run, filters, findings, run_verdicts))
            is_shown[run] = not filters.run or name in filters.run
            if is_shown[run] and filters.where in ("", name):
                counted[run] = matches[run]
        cells = self._cells(filters.round or str(default_round or "last"), matches)
        chosen = _any(cells, counted)
        for label, group in filters.groups:
            in_group = [_in_group(index.attempts, label, group) for index in self.indexes]
            chosen &= _any(cells, dict(enumerate(in_group)))
        if filters.change:
            digests = np.fromiter(findings.changes.get(filters.change, ()), np.int64)
            has_changed = [_is_of(index.attempts, digests) for index in self.indexes]
            chosen &= _any(cells, dict(enumerate(has_changed)))
        cell_values = np.empty((0, cells.shape[1]))
        if filters.differ or filters.sort:
            cell_values = np.array(list(map(_cell_values, cells, verdicts, values)))
        if filters.differ and is_shown.any():
            highest = np.nanmax(cell_values[is_shown], 0, initial=-np.inf)
            lowest = np.nanmin(cell_values[is_shown], 0, initial=np.inf)
            chosen &= highest != lowest
        selected = np.flatnonzero(chosen)
        instances = int(change_mask(self.cases[selected] >> 31).sum())
        if filters.sort:
            order = self._order(filters.sort, cell_values[:, selected], is_shown)
            selected = selected[order]
        return FoundCases(cells[:, selected], matches, verdicts, values, instances)

    def _scored(self, run: int, score: str) -> tuple[Verdicts, Values | None]:
        table = self.indexes[run].attempts
        if not score:
            return table.passed, None
        values = table.scores.get(score)
        if values is not None and values.dtype == np.int8:
            return values.astype(np.int8), None
        return np.full(len(table), NOT_JUDGED, np.int8), values

    def _matches(
        self, run: int, filters: CaseFilter, findings: Findings, verdicts: Verdicts
    ) -> Bools:
        index = self.indexes[run]
        mask = np.ones(len(index), np.bool_)
        if filters.verdict:
            mask &= verdicts == VERDICTS.get(filters.verdict, 9)
        if filters.outcome:
            codes: dict[str, int] = {name: code for code, name in enumerate(OUTCOMES)}
            mask &= index.attempts.outcome == codes.get(filters.outcome, 99)
        if filters.reason:
            having = findings.reasons.get(filters.reason)
            mask &= np.isin(index.offset, _NO_ROWS if having is None else having[run])
        if filters.score:
            is_recorded = any(filters.score in table.attempts.scores for table in self.indexes)
            mask &= is_recorded
        if findings.hits is not None:
            mask &= np.isin(index.offset, findings.hits[run])
        return mask

    def _cells(self, wanted_round: str, matches: Sequence[Bools]) -> Cells:
        """Return, for each run and case, the row of the attempt to show, or `MISSING`.

        ``wanted_round`` is "last", a number (the last round up to it), or "any" (the first in
        ``matches``, or else the last round).
        """
        if wanted_round != "any":
            up_to = int(wanted_round) if wanted_round.isdigit() else None
            if up_to not in self._last:
                masks = [index.attempts.is_last_round(up_to) for index in self.indexes]
                self._last = {up_to: self._placed(list(map(np.flatnonzero, masks)))}
            return self._last[up_to]
        rows = []
        for mask in matches:
            every = np.arange(len(mask))
            # Later assignments win: the first matching round, else the last round.
            rows.append(np.append(every, every[mask][::-1]))
        return self._placed(rows)

    def _placed(self, rows: Sequence[Rows]) -> Cells:
        cells = np.full((len(self.names), len(self.cases)), MISSING, np.int32)
        for run, run_rows in enumerate(rows):
            cells[run, self._places[run][run_rows]] = run_rows
        return cells

    def _order(self, sort: str, values: Numbers, is_shown: Bools) -> Rows:
        """Return the indices that sort the cases.

        ``sort`` is a run's name (by its values) or "fails" (most failures first). A leading "-"
        reverses the order.
        """
        by = sort.removeprefix("-")
        if by in self.names:
            key = values[self.names.index(by)].copy()
            key[key == NOT_JUDGED] = 2.0
            key[np.isnan(key)] = np.inf
        elif by == "fails":
            n_failures = (values[is_shown] == 0).sum(axis=0)
            key = -n_failures.astype(np.float64)
        else:
            return np.arange(values.shape[1])
        return np.argsort(-key if sort.startswith("-") else key, kind="stable")


def _in_group(table: AttemptTable, label: str, group: str) -> Bools:
    """Return an (n,) mask of the attempts on the instances of a group."""
    in_group = [grouping.get(label) == group for grouping in table.instances.groupings]
    return np.array(in_group, np.bool_)[table.instances.grouping[table.instance]]


def _is_of(table: AttemptTable, digests: Ints) -> Bools:
    """Return an (n,) mask of the attempts on instances with one of the digests."""
    return np.isin(table.instances.digest[table.instance], digests)


def _any(cells: Cells, masks: Mapping[int, Bools]) -> Bools:
    """Return an (n,) mask of the cases whose row of any run is in the run's mask."""
    cases = np.zeros(cells.shape[1], np.bool_)
    for run, mask in masks.items():
        has = cells[run] != MISSING
        cases[has] |= mask[cells[run][has]]
    return cases


def _cell_values(rows: Cells, verdicts: Verdicts, values: Values | None) -> Numbers:
    """Return the values in a run's cells: numbers or else verdicts, and NaN where missing."""
    cells = np.full(len(rows), np.nan)
    has = rows != MISSING
    present_rows = rows[has]
    numbers = verdicts[present_rows].astype(np.float64)
    if values is not None:
        numbers = np.where(np.isnan(values[present_rows]), numbers, values[present_rows])
    cells[has] = numbers
    return cells


def _numbered(columns: Sequence[Ints]) -> tuple[Ints, Cells]:
    """Return the sorted distinct values, and for each original value its index among them."""
    values = np.concatenate([np.zeros(0, np.int64), *columns])
    order = np.argsort(values)
    values = values[order]
    new = change_mask(values)
    place = np.empty(len(values), np.int32)
    place[order] = np.cumsum(new, dtype=np.int32) - np.int32(1)
    return values[new], place


def _distinct(columns: Sequence[Ints]) -> Ints:
    """Return all columns' distinct values, sorted (`numpy.unique`, which hashes, is slower)."""
    values = np.sort(np.concatenate([np.zeros(0, np.int64), *columns]))
    return values[change_mask(values)]


BLOCK_BYTES = 1 << 20


class _Asked(msgspec.Struct, gc=False):
    messages: list[Message] = []


class _Said(msgspec.Struct, gc=False):
    reason: str = ""


class _Searched(msgspec.Struct, gc=False):
    instance: str
    request: _Asked
    round: int
    text: str | None = None
    reasoning: str | None = None
    feedback: str | None = None
    error: str | None = None
    user: tuple[PlayedTurn, ...] = ()
    scores: dict[str, _Said] = {}

    def texts(self) -> str:
        """Return the texts that a search covers, casefolded.

        Of the prompt, only the user's last message of round 1 and the messages after it are
        covered.
        """
        messages = self.request.messages
        # Every round has one message of the user, but only answers that are not blank have one.
        user_turns = [place for place, turn in enumerate(messages) if turn.role == "user"]
        own_turns = user_turns[-self.round :]
        first = own_turns[0] if own_turns else -1
        texts = [self.instance, self.text, self.reasoning, self.feedback, self.error]
        texts += [turn.ends for turn in self.user]
        texts += [message.content for message in messages[first:]]
        texts += [score.reason for score in self.scores.values()]
        return "\n".join(filter(None, texts)).casefold()


class TextSearch:
    """A search of a file for attempts that contain all given words, in any case.

    Words between double quotes are one phrase.
    """

    def __init__(self, path: Path, query: str) -> None:
        self._path = path
        parts = re.findall(r'"([^"]+)"|([^\s"]+)', query.casefold())
        self._words = [phrase or word for phrase, word in parts]
        # Most lines need not be decoded: their JSON does not contain the longest word.
        in_json = (json.dumps(word, ensure_ascii=False)[1:-1] for word in self._words)
        self._longest = max(in_json, key=len, default="")
        self._decode = msgspec.json.Decoder(_Searched).decode
        self._offsets: list[int] = []
        self.size = 0  # bytes that were searched

    @property
    def hits(self) -> Ints:
        """The byte offsets of the lines found so far."""
        return np.array(self._offsets, np.int64)

    def search_on(self, end: int, until: float = math.inf) -> None:
        """Search on up to the byte offset ``end``, or until `time.monotonic` reaches ``until``."""
        with open_regular_file(self._path) as file:
            file.seek(self.size)
            while self.size < end and time.monotonic() < until:
                block = file.read(min(BLOCK_BYTES, end - self.size))
                if not block:  # the file is shorter than ``end``
                    return
                if not block.endswith(b"\n"):
                    block += file.readline()
                for start in self._candidates(block):
                    texts = self._decode(block[start : block.find(b"\n", start)]).texts()
                    if all(word in texts for word in self._words):
                        self._offsets.append(self.size + start)
                self.size += len(block)

    def _candidates(self, block: bytes) -> Iterator[int]:
        """Yield the offset in ``block`` of each line with the longest word."""
        start = utf8_uncased_search(block, self._longest)
        while 0 <= start < len(block):
            yield block.rfind(b"\n", 0, start) + 1
            end = block.find(b"\n", start)
            start = -1 if end < 0 else utf8_uncased_search(block, self._longest, end + 1)
