"""The data of the live page about some runs: overview, grid of cases, and entries."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.json import decode
from msgspec.structs import replace

from harness.analysis.failures import FailedLine, read_without_advisory_scores
from harness.config.settings import Settings
from harness.errors import HarnessError
from harness.plugins.comparisons.run_comparison import ComparisonOptions
from harness.plugins.report.archive import snippet
from harness.plugins.report.entries import (
    RecordedTask,
    entry,
    judges_of,
    read_texts,
    reasons_told,
    task_of,
)
from harness.plugins.report.figures import figures
from harness.plugins.report.overview import overview, score_kind
from harness.plugins.report.page import drawable
from harness.plugins.report.parts import Headline, Overview
from harness.plugins.report.runs import report_on, run_title
from harness.plugins.view.cases import (
    MISSING,
    CaseFilter,
    CaseTable,
    Findings,
    FoundCases,
    Ints,
    TextSearch,
)
from harness.plugins.view.runs import FILES, Followed, in_thread, stamp, timed, why_ended
from harness.plugins.view.status import read_status
from harness.records import OUTCOMES
from harness.report.runs import common_prefix
from harness.store.attempt_lines import ATTEMPT
from harness.store.columns import NOT_JUDGED, Values, name_digest
from harness.store.index import AttemptIndex
from harness.store.json_lines import decode_lines_at
from harness.store.run_folder import RunFolder

MOST_TEXTS = 200_000  # attempts up to which reasons, constraints and costs are computed
QUICK_TEXTS = 5_000  # attempts up to which the first overview has everything
SHARE = 0.05  # of a processor's time, for computing the overview again while a run works
PATIENCE_S = 0.7  # until a page shows that its overview is still being computed
SEARCH_S = 0.4  # of searching before a request is answered
_FIELDS = Overview.__struct_fields__


class _Computed(NamedTuple):
    overview: Overview
    findings: Findings
    kinds: Mapping[str, str]  # of scores
    round: int | None  # that was compared
    changes: list[dict[str, object]]
    quick: bool  # without what takes long


@dataclass(frozen=True, slots=True)
class _Run:
    folder: RunFolder
    name: str  # without the common prefix
    index: AttemptIndex


class _Line(FailedLine, kw_only=True, gc=False):
    groups: dict[str, str]


class LiveOverview(Overview, frozen=True, kw_only=True):
    """The overview of a live page."""

    indexed: float  # share of the runs' files that is indexed, 0 to 1


class Chosen:
    """The runs of one page, in the order in which they were named."""

    def __init__(self, followed: Sequence[Followed], settings: Settings) -> None:
        self.followed = followed
        self._settings = settings
        names = [run.folder.name for run in followed]
        self._prefix = common_prefix(names)
        self._names = [name.removeprefix(self._prefix) for name in names]
        self._title = run_title(names)
        self._table: CaseTable | None = None
        self._table_of: tuple[int, ...] = ()
        self._computed: _Computed | None = None
        self._computed_of: tuple[int, ...] = ()
        self._computing: asyncio.Task[None] | None = None
        self._first = asyncio.Event()  # set when there is an overview
        self._computed_n = 0
        self._rest_until = 0.0
        self._problem = ""
        self._searches: dict[tuple[str, str], TextSearch] = {}

    @property
    def version(self) -> tuple[int, ...]:
        """A value that changes whenever the page should request its data again."""
        return (self._computed_n, *self._versions)

    @property
    def _versions(self) -> tuple[int, ...]:
        return tuple(run.version for run in self.followed)

    @property
    def _partly(self) -> bool:
        """Whether a part of the files still waits to be indexed."""
        return any(run.behind for run in self.followed)

    async def changes(self, seen: object) -> tuple[object, object] | None:
        """Return the current state and an event's data, or None if the state is still ``seen``."""
        self._refresh()
        paths: list[Path] = []
        for run in self.followed:
            paths += [run.folder.path / name for name in FILES]
        stamps = await in_thread(lambda: list(map(stamp, paths)))
        state = (self.version, self._indexed, stamps)
        if seen == state:
            return None
        return state, {"version": self.version, "indexed": self._indexed}

    async def ready(self) -> None:
        """Wait until the first part of each run is indexed."""
        for run in self.followed:
            await run.ready.wait()

    async def overview(self) -> LiveOverview:
        """Return the latest overview. An outdated one is renewed in the background."""
        await self.ready()
        self._refresh()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._first.wait(), PATIENCE_S)
        indexed = self._indexed
        latest = self._computed.overview if self._computed else self._nothing(indexed)
        works = self.works
        warnings = [*latest.warnings]
        for name, run in zip(self._names, self.followed, strict=True):
            problem = run.problem
            if not problem and not works:
                problem = why_ended(run.folder.read_manifest())
            if problem:
                warnings.append(f"{name}: {problem}")
        if self._problem:
            warnings.append(self._problem)
        fields = {name: getattr(latest, name) for name in _FIELDS}
        fields |= {"warnings": warnings, "live": works}
        return LiveOverview(**fields, indexed=indexed)

    def _nothing(self, indexed: float) -> Overview:
        """Return what is shown until there is an overview."""
        text = "No attempts yet."
        if indexed < 1 or any(len(run.index) for run in self.followed):
            text = "The attempts are being read."
        now = datetime.now(UTC)
        answer = Headline(text, [])
        return Overview(title=self._title, made_at=now, live=True, digits=0, answer=answer)

    @property
    def _indexed(self) -> float:
        if not self._partly:
            return 1.0
        indexed = sum(run.indexed for run in self.followed)
        return indexed / sum(run.size for run in self.followed)

    @property
    def works(self) -> bool:
        """Whether a session of one of the runs is in progress."""
        for run in self.followed:
            status = read_status(run.folder.path)
            if status is not None and status.works():
                return True
        return False

    def _refresh(self) -> None:
        """Start computing a new overview if the latest one is outdated."""
        if self._computing is not None and not self._computing.done():
            return
        partly = self._partly
        if (partly or self.works) and time.monotonic() < self._rest_until:
            return
        versions = self._versions
        unfinished = not partly and self._computed is not None and self._computed.quick
        if versions != self._computed_of or unfinished:
            self._computed_of = versions
            self._computing = asyncio.create_task(self._compute(partly))

    async def _compute(self, partly: bool) -> None:
        took = 0.0
        runs = []
        for name, followed in zip(self._names, self.followed, strict=True):
            runs.append(_Run(followed.folder, name, followed.index))
        n = sum(len(run.index) for run in runs)
        quick = partly or (self._computed is None and n > QUICK_TEXTS)
        try:
            if n:
                drawn = not quick and not self.works
                work = partial(_computed, runs, self._title, drawn, quick)
                self._computed, took = await in_thread(partial(timed, work), yielding=True)
                self._first.set()
            self._problem = ""
        except HarnessError as error:
            self._problem = error.message
        except Exception as error:  # must not end the page, which shows it
            self._problem = f"The overview failed: {type(error).__name__}: {error}"
        self._rest_until = time.monotonic() + max(1.0, took / SHARE)
        self._computed_n += 1

    async def _cases(self) -> CaseTable:
        await self.ready()
        indexes = [run.index for run in self.followed]
        versions = self._versions
        if self._table is None or versions != self._table_of:
            self._table = await in_thread(lambda: CaseTable(self._names, indexes))
            self._table_of = versions
        return self._table

    async def index(self) -> dict[str, object]:
        """Return the columns of the grid of cases, and its filters with their choices."""
        await self.ready()
        groups: dict[str, set[str]] = {}  # by label
        scores: dict[str, Values] = {}
        rounds = 0
        samples = 0
        for run in self.followed:
            table = run.index.attempts
            for grouping in table.instances.groupings:
                for label, group in grouping.items():
                    groups.setdefault(label, set()).add(group)
            scores |= table.scores
            rounds = max(rounds, table.max_round)
            samples = max(samples, int(table.sample.max(initial=-1)) + 1)
        computed = self._computed
        kinds = computed.kinds if computed else {}
        score_choices = []
        for name, values in scores.items():
            is_verdict = values.dtype == np.int8
            score_choices.append({"name": name, "kind": kinds.get(name, ""), "verdict": is_verdict})
        return {
            "runs": self._columns(),
            "outcomes": OUTCOMES,
            "labels": [{"name": label, "groups": sorted(groups[label])} for label in groups],
            "scores": score_choices,
            "reasons": [{"text": text} for text in computed.findings.reasons] if computed else [],
            "rounds": rounds,
            "samples": samples,
            "changes": computed.changes if computed else [],
            "compared": {"round": computed.round} if computed else None,
        }

    def _columns(self) -> list[dict[str, object]]:
        marks: dict[str, Sequence[str]] = {}
        if self._computed is not None:
            marks = {run.name: run.marks for run in self._computed.overview.runs}
        columns: list[dict[str, object]] = []
        for name, run in zip(self._names, self.followed, strict=True):
            column = {"name": name, "marks": marks.get(name, []), "recorded": run.recorded}
            columns.append({**column, "judges": judges_of(run.index)})
        return columns

    async def cases(self, filters: CaseFilter, start: int, end: int) -> dict[str, object]:
        """Return the cases ``start`` to ``end`` (exclusive) that a filter selects, at most 1,000.

        The result also has the numbers of selected cases and instances, and the share of the files
        that has been searched.
        """
        table = await self._cases()
        findings = Findings()
        compared = None
        if self._computed is not None:
            findings = self._computed.findings
            compared = self._computed.round
        searched = 1.0
        if filters.q:
            hits, searched = await self._search(filters.q, table.indexes)
            findings = Findings(findings.reasons, findings.changes, hits)
        selected = await in_thread(lambda: table.find(filters, findings, compared))
        places = slice(max(0, start), max(0, min(end, start + 1000)))
        return {
            "cases": len(selected),
            "instances": selected.instances,
            "done": searched,
            "page": _page(table, selected, places, findings),
        }

    async def _search(self, query: str, indexes: Sequence[AttemptIndex]) -> tuple[Any, float]:
        """Continue a search briefly. Return the offsets by run, and the share searched."""
        until = time.monotonic() + SEARCH_S
        hits = []
        searched = 0
        total = 0
        for run, index in zip(self.followed, indexes, strict=True):
            key = (run.folder.name, query)
            if key not in self._searches and len(self._searches) > 20:
                self._searches.clear()
            search = self._searches.setdefault(key, TextSearch(index.path, query))
            size = run.indexed
            if search.size < size:
                await in_thread(partial(search.search_on, size, until), yielding=True)
            hits.append(search.hits)
            searched += min(search.size, size)
            total += size
        return hits, searched / max(1, total)

    @cached_property
    def _answers(self) -> list[RecordedTask | None]:
        return [task_of(run.folder, self._settings) for run in self.followed]

    async def entry(self, instance: str) -> dict[str, object] | None:
        """Return all attempts on an instance with their texts, or None if there are none."""
        table = await self._cases()
        attempts = []
        for run, index in enumerate(table.indexes):
            rows = np.array(index.find_rows(instance), np.intp)
            for line, row in zip(read_texts(index, rows), rows, strict=True):
                attempts.append((run, line, row))
        if not attempts:
            return None
        attempts.sort(key=lambda attempt: (attempt[1].sample, attempt[0], attempt[1].round))
        shown_entry = await in_thread(lambda: entry(attempts, answers=self._answers))
        for record, (run, line, _) in zip(shown_entry["attempts"], attempts, strict=True):
            record["run"] = run
            record["sample"] = line.sample
            record["round"] = line.round
            record["verdict"] = NOT_JUDGED if line.passed is None else int(line.passed)
            record["outcome"] = OUTCOMES.index(line.outcome)
        groups = attempts[0][1].groups
        return shown_entry | {"groups": [groups.get(label) for label in table.labels]}

    async def line(
        self, run: str, instance: str, sample: int, round_: int
    ) -> dict[str, object] | None:
        """Return an attempt's line in the run's file, or None."""
        await self.ready()
        if run not in self._names:
            return None
        index = self.followed[self._names.index(run)].index
        rows = index.find_rows(instance, sample)
        round_rows = [row for row in rows if index.attempts.round[row] == round_]
        offsets = index.offset[round_rows].tolist()
        lines = decode_lines_at(
            index.path, offsets, partial(decode, type=dict[str, object]), ATTEMPT
        )
        return await in_thread(lambda: next(lines, None))


def _page(
    table: CaseTable, selected: FoundCases, places: slice, findings: Findings
) -> list[dict[str, Any]]:
    """Return the cases at some places of a selection, with a cell for each run."""
    cases: dict[int, dict[str, Any]] = {}  # by place on the page
    for run, index in enumerate(table.indexes):
        rows = selected.cells[run, places]
        has = np.flatnonzero(rows != MISSING)
        lines = read_without_advisory_scores(index, _Line, rows[has].astype(np.intp))
        for place, row, line in zip(has.tolist(), rows[has].tolist(), lines, strict=True):
            if place not in cases:
                digest = name_digest(line.instance)
                cases[place] = {
                    "instance": line.instance,
                    "sample": line.sample,
                    "groups": [line.groups.get(label) for label in table.labels],
                    "cells": [None] * len(table.names),
                    "changes": [_change(findings, name, digest) for name in table.names],
                }
            values = selected.values[run]
            value = None
            if values is not None and not np.isnan(values[row]):
                value = float(values[row])
            failed = index.attempts.passed[row] == 0
            cases[place]["cells"][run] = {
                "round": line.round,
                "verdict": int(selected.verdicts[run][row]),
                "outcome": OUTCOMES.index(line.outcome),
                "value": value,
                "snippet": snippet(line.text, line.error),
                "told": reasons_told(line, index) if failed else [],
                "match": bool(selected.matches[run][row]),
            }
    return [cases[place] for place in sorted(cases)]


def _change(findings: Findings, run: str, digest: int) -> str | None:
    """Return whether a run is better or worse than the baseline on an instance, if it is."""
    for kind in ("better", "worse"):
        if digest in findings.changes.get(f"{kind}:{run}", ()):
            return kind
    return None


def _computed(runs: Sequence[_Run], title: str, drawn: bool, quick: bool) -> _Computed:
    started = [run for run in runs if len(run.index)]
    folders = [run.folder for run in started]
    indexes = [run.index for run in started]
    few = sum(map(len, indexes)) <= MOST_TEXTS
    options = ComparisonOptions(score="")
    reported = report_on(folders, options, indexes=indexes, texts=few, quick=quick)
    pictures = figures(*reported[:4]) if drawn else ()
    page = overview(reported, title, datetime.now(UTC), figures=pictures)
    if not few:
        limit = f"With more than {MOST_TEXTS:,} attempts, this page leaves out reasons, "
        page = replace(page, warnings=[*page.warnings, f"{limit}constraints, tokens and panels."])
    numbers = {run.folder.name: number for number, run in enumerate(runs)}
    kinds: dict[str, str] = {}
    offsets: dict[str, dict[int, list[int]]] = {}  # of failures with a reason, by run
    for folder, run in zip(folders, reported.runs, strict=True):
        number = numbers[folder.name]
        for name in run.attempts.scores:
            kinds[name] = score_kind(run, name)
        for row, places in run.failures.of.items():
            offset = int(run.index.offset[row])
            for reason in set(map(run.failures.reasons.__getitem__, places)):
                offsets.setdefault(reason, {}).setdefault(number, []).append(offset)
    reasons: dict[str, list[Ints]] = {}
    for reason, by_run in offsets.items():
        reasons[reason] = [np.array(by_run.get(n, ()), np.int64) for n in range(len(runs))]
    digests: dict[str, frozenset[int]] = {}
    changes: list[dict[str, object]] = []
    compared = None
    comparison = reported.comparison
    if comparison is not None:
        compared = comparison.asked.round
        baseline = numbers[comparison.baseline]
        for against in comparison.others:
            number = numbers[against.run]
            better = frozenset(against.better_digests)
            worse = frozenset(against.worse_digests)
            digests |= {f"better:{runs[number].name}": better, f"worse:{runs[number].name}": worse}
            sizes = {"better": len(better), "worse": len(worse)}
            changes.append({"run": number, "baseline": baseline, **sizes})
    return _Computed(drawable(page), Findings(reasons, digests), kinds, compared, changes, quick)
