"""The runs of the live page: the list of all runs, a run that is in progress, and its timeline."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from harness.analysis.summary import read_metrics
from harness.errors import HarnessError
from harness.plugins.view.status import STATUS, RunStatus, read_status
from harness.store.attempt_lines import AttemptLines
from harness.store.columns import NOT_JUDGED
from harness.store.index import AttemptIndex
from harness.store.run_folder import ATTEMPTS, JUDGEMENTS, JUDGES, RunFolder
from harness.store.runs import all_runs

FILES = ("manifest.json", "metrics.json", ATTEMPTS, JUDGEMENTS, JUDGES, STATUS)
SCAN_S = 0.5  # between two looks at all folders

State = Literal["running", "stopping", "complete", "interrupted", "failed", "unreadable"]


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run's entry in the list of runs."""

    name: str
    task: str = ""
    model: str = ""
    tags: list[str] = []  # backend, variant, SIMULATED
    state: State = "complete"
    rate: float | None = None  # so far, of the samples begun
    low: float | None = None
    high: float | None = None
    n: int = 0  # samples with a verdict
    not_judged: int = 0  # samples begun without one: a call or a judge failed
    measure: str = "pass rate"
    done: int | None = None  # samples
    planned: int | None = None
    cost_usd: float | None = None  # paid by the run, in all its sessions
    started_at: float | None = None  # times in epoch seconds
    line_at: float | None = None  # when the last attempt was written
    eta_s: float | None = None
    limited_by: list[str] = []
    problem: str = ""
    revision: int = 0  # of the list, when this entry changed


class RunList:
    """The runs in some folders, of which `look` reads only those that have changed."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self._roots = list(dict.fromkeys(roots))
        self._known: dict[str, tuple[object, RunStatus | None]] = {}
        self._looked_at = float("-inf")
        self._lock = Lock()
        self.folders: dict[str, RunFolder] = {}
        self.summaries: dict[str, RunSummary] = {}
        self.revision = 0

    def look(self) -> None:
        """Look for changes at most once every `SCAN_S` seconds. Thread-safe."""
        with self._lock:
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < SCAN_S:
            return
        runs = [run for root in reversed(self._roots) for run in all_runs(root)]
        folders = {run.name: run for run in runs}
        if folders.keys() != self.folders.keys():
            self.revision += 1
        for name in self.folders.keys() - folders.keys():
            del self._known[name], self.summaries[name]
        self.folders = folders
        for name, folder in folders.items():
            self._look_at(name, folder)
        self._looked_at = time.monotonic()

    def _look_at(self, name: str, folder: RunFolder) -> None:
        seen = {file_name: stamp(folder.path / file_name) for file_name in FILES}
        before, status = self._known.get(name, (None, None))
        works = status is not None and status.works()
        if before == (seen, works):
            return
        status = read_status(folder.path)
        works = status is not None and status.works()
        self._known[name] = (seen, works), status
        self.revision += 1
        line = seen[ATTEMPTS]
        line_at = line[0] / 1e9 if line else None
        try:
            entry = summary(folder, status, line_at, self.revision)
        except HarnessError as error:
            entry = RunSummary(
                name=name, state="unreadable", problem=error.message, revision=self.revision
            )
        self.summaries[name] = entry


def summary(
    folder: RunFolder, status: RunStatus | None, line_at: float | None, revision: int = 0
) -> RunSummary:
    """Return a run's entry in the list of runs, given the status of its latest session, if any."""
    manifest = folder.read_manifest()
    works = status is not None and status.works()
    if not manifest and not works:  # nothing says how many attempts there should be
        return RunSummary(
            name=folder.name,
            state="unreadable",
            problem="The run has no manifest.json.",
            line_at=line_at,
            revision=revision,
        )
    figures: dict[str, Any] = {}
    planned = manifest.get("samples")
    remaining = folder.count_unfinished()
    done = None if planned is None or remaining is None else planned - remaining
    state: State = _state(manifest)
    metrics = read_metrics(folder, manifest)
    if metrics is not None:
        primary = metrics.primary()
        low, high = primary.ci95 or (None, None)
        figures = {"rate": primary.mean, "low": low, "high": high, "n": primary.n}
        figures["not_judged"] = primary.missing
        figures["measure"] = metrics.measure or "pass rate"
        if not metrics.n_calls_without_cost:
            figures["cost_usd"] = metrics.paid_usd
        if not metrics.complete and state == "complete":
            state = "interrupted"
            done = (metrics.n_planned or 0) - (metrics.n_owed or 0)
    # During a session and after a kill, only the status has figures.
    if status is not None and (works or done is None):
        done = status.done
        planned = status.planned
        figures = {"n": status.judged, "cost_usd": status.cost_usd}
        figures["not_judged"] = status.outcomes.get("error", 0)
        if status.judged:
            figures["rate"] = status.passed / status.judged
    if status is not None and works:
        state = "stopping" if status.stopping else "running"
        figures["eta_s"] = status.eta_s
        figures["limited_by"] = [*status.limited_by, *status.notices]
    tags = [manifest.get("backend"), manifest.get("variant")]
    if manifest.get("simulated"):
        tags.append("SIMULATED")
    return RunSummary(
        name=folder.name,
        task=manifest.get("task", ""),
        model=manifest.get("model") or "",
        tags=list(map(str, filter(None, tags))),
        state=state,
        done=done,
        planned=planned,
        problem="" if works else why_ended(manifest),
        started_at=manifest.get("started_at"),
        line_at=line_at,
        revision=revision,
        **figures,
    )


def _state(manifest: Mapping[str, Any]) -> State:
    ended = "finished"
    if manifest.get("sessions"):
        ended = manifest["sessions"][-1].get("ended")
    if ended == "finished" and not manifest.get("owed"):
        return "complete"
    return "failed" if ended == "failed" else "interrupted"


def why_ended(manifest: Mapping[str, Any]) -> str:
    """Return why the latest session ended early, or "" if it did not or the user stopped it."""
    session = (manifest.get("sessions") or [{}])[-1]
    match session.get("ended"):
        case "failed":
            return str(session.get("problem") or "The session failed.")
        case "killed":
            return "The session's process was killed, or its machine stopped."
        case "budget":
            return "The budget is used up."
    return ""


def stamp(path: Path) -> tuple[int, int] | None:
    """Return a file's modification time (ns) and size (bytes), or None if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


T = TypeVar("T")
Rows = NDArray[np.intp]  # of an index

POLL_S = 0.5  # between looks at a file
PART_BYTES = 16 << 20  # of a file, read at a time
NICE = 10  # priority of work in the background: a tenth of a run's share of a busy processor
SHARE = 0.1  # of a processor's time, for indexing what is new


async def in_thread(work: Callable[[], T], *, yielding: bool = False) -> T:
    """Return the result of a function that runs in a daemon thread.

    If ``yielding``, the thread has a lower priority (on Linux), to spare the run that is followed.
    """
    future: Future[T] = Future()

    def call() -> None:
        if not future.set_running_or_notify_cancel():
            return
        if yielding and sys.platform == "linux":  # elsewhere, it takes no thread's id
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, name="view", daemon=True).start()
    return await asyncio.wrap_future(future)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return a function's result and the processor time, in seconds, that its thread used."""
    began = time.thread_time()
    return work(), time.thread_time() - began


class Followed:
    """A run whose file of attempts is read while it grows.

    ``version`` counts the replacements of ``index``.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        lines = AttemptLines(folder.attempts, "followed")  # none so far
        self.index = AttemptIndex(folder.attempts, lines=lines, partial=True)
        self.recorded = folder.read_manifest().get("backend") == "replay"
        self.version = 0
        self.size = 0  # of the file
        self.behind = False  # whether more of the file waits to be read
        self.problem = ""
        self.ready = asyncio.Event()  # set after the first look at the file
        self._lines: AttemptLines | None = None
        self._state: tuple[object, ...] = ()
        self._rest_until = 0.0
        self._task = asyncio.create_task(self._follow())

    @property
    def indexed(self) -> int:
        """The size in bytes of the part of the file that is indexed."""
        return 0 if self._lines is None else self._lines.size

    async def _follow(self) -> None:
        while True:
            try:
                await self._look()
                self.problem = ""
            except (HarnessError, OSError) as error:
                self.behind = False
                self.problem = str(error)
                self._lines = None
            self.ready.set()
            await asyncio.sleep(0 if self.behind else POLL_S)

    async def _look(self) -> None:
        """Read the next part of the file, and update the index if it is due."""
        path = self.folder.attempts
        self.size = path.stat().st_size if path.exists() else 0
        judgements = self.folder.path / JUDGEMENTS
        judged = judgements.stat().st_size if judgements.exists() else 0
        if self._lines is None or self.size < self._lines.size:
            self._lines = AttemptLines(path, "followed")
        lines = self._lines
        before = lines.size
        if self.size > before:
            await in_thread(lambda: lines.read_more(PART_BYTES), yielding=True)
        behind = lines.size > before and self.size > lines.size
        state = (lines.size, judged)
        at_end = self.behind and not behind
        if state != self._state and (at_end or time.monotonic() >= self._rest_until):
            work = partial(AttemptIndex, path, lines=lines)
            self.index, took = await in_thread(partial(timed, work), yielding=True)
            self._rest_until = time.monotonic() + max(POLL_S, took / SHARE)
            self._state = state
            self.version += 1
        self.behind = behind


MOST_BINS = 240
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
MOST_LISTED = 10  # of the slowest, and of the latest failed calls


class TimelineBins(Struct, frozen=True, kw_only=True):
    """The figures of a timeline: one list per figure, with a value for each time bin.

    The first bin begins at ``start`` (epoch seconds); a bin is ``step_s`` seconds long.
    """

    start: float
    step_s: float
    attempts: list[int]
    errors: list[int]
    judged: list[int]  # change in the number of samples whose latest round has a verdict
    passed: list[int]  # change in the number of samples whose latest round passes
    cost_usd: list[float]
    tokens: list[int]
    median_s: list[float | None]  # latency of the calls that ended in the bin
    p95_s: list[float | None]


class ListedCall(Struct, frozen=True):
    """A slow or failed attempt."""

    instance: str
    sample: int
    round: int
    latency_s: float | None = None
    error: str | None = None
    ended_at: float | None = None


class Timeline(Struct, frozen=True, kw_only=True):
    """The timeline of a run's session."""

    run: str
    sessions: list[Mapping[str, Any]]  # of the manifest
    session: int  # the one that is shown
    bins: TimelineBins | None
    slowest: list[ListedCall]
    failed: list[ListedCall]
    status: RunStatus | None  # of the latest session


def timeline(folder: RunFolder, index: AttemptIndex, session: int = -1) -> Timeline:
    """Return the timeline of a session of a run.

    ``session`` is its index. If there is no such session, the latest one is used.
    """
    sessions = list(folder.read_manifest().get("sessions") or [{}])
    place = session if -len(sessions) <= session < len(sessions) else -1
    ended_at = index.call_columns["ended_at"]
    start = sessions[place].get("started_at") or 0.0
    end = sessions[place].get("ended_at") or np.inf
    rows = np.flatnonzero((ended_at >= start) & (ended_at <= end + 1))
    latency = index.call_columns["latency_s"][rows]
    slow = rows[np.argsort(-np.nan_to_num(latency, nan=-1.0), kind="stable")[:MOST_LISTED]]
    slow = slow[~np.isnan(index.call_columns["latency_s"][slow])]
    failed = rows[~index.attempts.has_reply[rows]]
    failed = failed[np.argsort(-ended_at[failed])[:MOST_LISTED]]
    return Timeline(
        run=folder.name,
        sessions=sessions,
        session=place % len(sessions),
        bins=_bins(index, rows) if len(rows) else None,
        slowest=list(index.read(ListedCall, slow, judged=False)),
        failed=list(index.read(ListedCall, failed, judged=False)),
        status=read_status(folder.path),
    )


def _bins(index: AttemptIndex, rows: Rows) -> TimelineBins:
    ended_at = index.call_columns["ended_at"][rows]
    table = index.attempts
    start = float(np.floor(ended_at.min()))
    end = float(ended_at.max())
    fitting = (step for step in STEPS_S if (end - start) / step < MOST_BINS)
    step = float(next(fitting, (end - start) / MOST_BINS + 1))
    places = ((ended_at - start) // step).astype(np.intp)
    n = int(places.max()) + 1

    def total(values: NDArray[Any]) -> NDArray[Any]:
        return np.bincount(places, values, minlength=n)

    passed, judged = _of_samples(index, rows)
    medians, p95s = _quantiles(places, index.call_columns["latency_s"][rows], n)
    return TimelineBins(
        start=start,
        step_s=step,
        attempts=np.bincount(places, minlength=n).tolist(),
        errors=_whole(total(~table.has_reply[rows])),
        judged=_whole(total(judged)),
        passed=_whole(total(passed)),
        cost_usd=total(index.call_columns["cost_usd"][rows]).tolist(),
        tokens=_whole(total(index.call_columns["tokens"][rows])),
        median_s=medians,
        p95_s=p95s,
    )


def _of_samples(index: AttemptIndex, rows: Rows) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return by how much each attempt changes the numbers of passed and of judged samples."""
    table = index.attempts
    is_next = rows[1:] == rows[:-1] + 1
    is_same_sample = ~table.sample_starts()[rows[1:]]
    follows = np.append(False, is_next & is_same_sample)
    deltas = []
    for counts in (table.passed[rows] == 1, table.passed[rows] != NOT_JUDGED):
        before = np.append(False, counts[:-1]) & follows
        deltas.append(counts.astype(np.int8) - before.astype(np.int8))
    return deltas[0], deltas[1]


def _whole(values: NDArray[Any]) -> list[int]:
    numbers: list[int] = values.astype(np.int64).tolist()
    return numbers


def _quantiles(places: Rows, values: NDArray[Any], n: int) -> list[list[float | None]]:
    """Return the medians and the 95th percentiles of the values in ``n`` bins."""
    measured = ~np.isnan(values)
    places = places[measured]
    values = values[measured]
    ordered = values[np.lexsort((values, places))]
    counts = np.bincount(places, minlength=n)
    starts = np.cumsum(counts) - counts
    quantiles = []
    for share in (0.5, 0.95):
        picks = starts + (share * (counts - 1)).astype(np.intp)
        column: list[float | None] = [None] * n
        for bin_ in np.flatnonzero(counts).tolist():
            column[bin_] = float(ordered[picks[bin_]])
        quantiles.append(column)
    return quantiles
