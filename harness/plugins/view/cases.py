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
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from stringzilla import utf8_uncased_search

from harness.records import OUTCOMES, Message, PlayedTurn
from harness.store.columns import NOT_JUDGED, Bools, Values, changes
from harness.store.files import open_file
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
        names = set(cls.__struct_fields__) - {"run", "groups"}
        texts = {name: query[name][-1] for name in names if name in query}
        groups = [(name[3:], values[-1]) for name, values in query.items() if name[:3] == "in."]
        return msgspec.convert(texts | {"run": query.get("run", []), "groups": groups}, cls)


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
                starts = np.flatnonzero(changes(index.attempts.instance))
                # The runs' offsets one after another: the first run that has an instance counts.
                first[places[number]] = np.minimum.reduceat(index.offset, starts) + (number << 50)
        rank = np.empty(len(every), np.int64)
        rank[np.argsort(first)] = np.arange(len(every))
        keys = [
            (rank[place][index.attempts.instance] << 31) | index.attempts.sample
            for place, index in zip(places, indexes, strict=True)
        ]
        self.cases, every_place = _numbered(keys)
        self._places = np.split(every_place, np.cumsum([len(index) for index in indexes])[:-1])
        self._last: dict[int | None, Cells] = {}

    def find(
        self, filters: CaseFilter, findings: Findings, default_round: int | None
    ) -> FoundCases:
        """Return the cases that a filter selects.

        ``default_round`` is shown if the filter names no round (None: the last).
        """
        runs = range(len(self.names))
        is_shown = [not filters.run or name in filters.run for name in self.names]
        scored = [self._scored(run, filters.score) for run in runs]
        verdicts = [pair[0] for pair in scored]
        values = [pair[1] for pair in scored]
        matches = [self._matches(run, filters, findings, verdicts[run]) for run in runs]
        cells = self._cells(filters.round or str(default_round or "last"), matches)
        has = cells != MISSING
        matching = np.zeros(cells.shape, np.bool_)
        for run in runs:
            matching[run, has[run]] = matches[run][cells[run][has[run]]]
        counts = [is_shown[run] and filters.where in ("", self.names[run]) for run in runs]
        chosen = matching[counts].any(axis=0) & self._in_groups(cells, filters.groups)
        if filters.differ and any(is_shown):
            seen = (run for run in runs if is_shown[run])
            compared = np.array(
                [_cell_values(cells[run], verdicts[run], values[run]) for run in seen]
            )
            highest = np.nanmax(compared, 0, initial=-np.inf)
            chosen &= highest != np.nanmin(compared, 0, initial=np.inf)
        if filters.change:
            digests = np.fromiter(findings.changes.get(filters.change, ()), np.int64)
            chosen &= self._any(cells, lambda run: np.isin(self._digests(run), digests))
        selected = np.flatnonzero(chosen)
        instances = int(changes(self.cases[selected] >> 31).sum())
        if filters.sort:
            compared = np.array(
                [_cell_values(cells[run, selected], verdicts[run], values[run]) for run in runs]
            )
            selected = selected[self._order(filters.sort, compared, is_shown)]
        return FoundCases(cells[:, selected], matches, verdicts, values, instances)

    def _scored(self, run: int, score: str) -> tuple[Verdicts, Values | None]:
        table = self.indexes[run].attempts
        if not score:
            return table.passed, None
        values = table.scores.get(score)
        none = np.full(len(table), NOT_JUDGED, np.int8)
        if values is None:
            return none, None
        return (values.astype(np.int8), None) if values.dtype == np.int8 else (none, values)

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
        if filters.score and not any(
            filters.score in index_of_run.attempts.scores for index_of_run in self.indexes
        ):
            mask[:] = False
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
                self._last = {up_to: self._placed([np.flatnonzero(mask) for mask in masks])}
            return self._last[up_to]
        every = [np.arange(len(mask)) for mask in matches]
        # Later assignments win: the first matching round, else the last round.
        return self._placed(
            [np.append(rows, rows[mask][::-1]) for rows, mask in zip(every, matches, strict=True)]
        )

    def _placed(self, rows: Sequence[Rows]) -> Cells:
        cells = np.full((len(self.names), len(self.cases)), MISSING, np.int32)
        for run, run_rows in enumerate(rows):
            cells[run, self._places[run][run_rows]] = run_rows
        return cells

    def _digests(self, run: int) -> Ints:
        table = self.indexes[run].attempts
        return table.instances.digest[table.instance]

    def _any(self, cells: Cells, test: Any) -> Bools:
        """Return an (n,) mask of the cases in which the row of any run passes a test."""
        mask = np.zeros(cells.shape[1], np.bool_)
        for run, run_cells in enumerate(cells):
            has = run_cells != MISSING
            mask[has] |= test(run)[run_cells[has]]
        return mask

    def _in_groups(self, cells: Cells, groups: Sequence[tuple[str, str]]) -> Bools:
        mask = np.ones(cells.shape[1], np.bool_)
        for label, group in groups:

            def inside(run: int, label: str = label, group: str = group) -> Bools:
                table = self.indexes[run].attempts
                in_group = [grouping.get(label) == group for grouping in table.instances.groupings]
                return np.array(in_group, np.bool_)[table.instances.grouping[table.instance]]

            mask &= self._any(cells, inside)
        return mask

    def _order(self, sort: str, values: Numbers, is_shown: Sequence[bool]) -> Rows:
        """Return the indices that sort the cases.

        ``sort`` is a run's name (by its values) or "fails" (most failures first). A leading "-"
        reverses the order.
        """
        by = sort.removeprefix("-")
        if by in self.names:
            key = values[self.names.index(by)]
            key = np.where(np.isnan(key), np.inf, np.where(key == NOT_JUDGED, 2.0, key))
        elif by == "fails":
            key = -(values[np.array(is_shown)] == 0).sum(axis=0).astype(np.float64)
        else:
            return np.arange(values.shape[1])
        return np.argsort(-key if sort.startswith("-") else key, kind="stable")


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
    new = changes(values)
    place = np.empty(len(values), np.int32)
    place[order] = np.cumsum(new, dtype=np.int32) - np.int32(1)
    return values[new], place


def _distinct(columns: Sequence[Ints]) -> Ints:
    """Return all columns' distinct values, sorted (`numpy.unique`, which hashes, is slower)."""
    values = np.sort(np.concatenate([np.zeros(0, np.int64), *columns]))
    return values[changes(values)]


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
        user_turns = [
            position for position, message in enumerate(messages) if message.role == "user"
        ][-self.round :]
        last_messages = messages[user_turns[0] if user_turns else -1 :]
        endings = (turn.ends for turn in self.user)
        texts = (self.instance, self.text, self.reasoning, self.feedback, self.error, *endings)
        more = (message.content for message in last_messages)
        reasons = (score.reason for score in self.scores.values())
        return "\n".join(text for text in (*texts, *more, *reasons) if text).casefold()


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
        with open_file(self._path) as file:
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
