"""The timeline of a run's session: figures per time bin, and the slowest and failed calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from harness.store.columns import NOT_JUDGED
from harness.store.index import AttemptIndex
from harness.store.run_folder import RunFolder
from harness.store.run_status import RunStatus, read_status

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
    at = range(len(sessions))[session] if -len(sessions) <= session < len(sessions) else -1
    ended_at = index.calls["ended_at"]
    start = sessions[at].get("started_at") or 0.0
    end = sessions[at].get("ended_at") or np.inf
    rows = np.flatnonzero((ended_at >= start) & (ended_at <= end + 1))
    latency = index.calls["latency_s"][rows]
    slow = rows[np.argsort(-np.nan_to_num(latency, nan=-1.0), kind="stable")[:MOST_LISTED]]
    slow = slow[~np.isnan(index.calls["latency_s"][slow])]
    failed = rows[~index.attempts.replied[rows]]
    failed = failed[np.argsort(-ended_at[failed])[:MOST_LISTED]]
    return Timeline(
        run=folder.name,
        sessions=sessions,
        session=at % len(sessions),
        bins=_bins(index, rows) if len(rows) else None,
        slowest=list(index.read(ListedCall, slow, judged=False)),
        failed=list(index.read(ListedCall, failed, judged=False)),
        status=read_status(folder.path),
    )


def _bins(index: AttemptIndex, rows: NDArray[np.intp]) -> TimelineBins:
    ended_at, table = index.calls["ended_at"][rows], index.attempts
    start, end = float(np.floor(ended_at.min())), float(ended_at.max())
    fitting = (step for step in STEPS_S if (end - start) / step < MOST_BINS)
    step = float(next(fitting, (end - start) / MOST_BINS + 1))
    places = ((ended_at - start) // step).astype(np.intp)
    n = int(places.max()) + 1

    def total(values: NDArray[Any]) -> NDArray[Any]:
        return np.bincount(places, values, minlength=n)

    passed, judged = _of_samples(index, rows)
    medians, p95s = _quantiles(places, index.calls["latency_s"][rows], n)
    return TimelineBins(
        start=start,
        step_s=step,
        attempts=np.bincount(places, minlength=n).tolist(),
        errors=_whole(total(~table.replied[rows])),
        judged=_whole(total(judged)),
        passed=_whole(total(passed)),
        cost_usd=total(index.calls["cost_usd"][rows]).tolist(),
        tokens=_whole(total(index.calls["tokens"][rows])),
        median_s=medians,
        p95_s=p95s,
    )


def _of_samples(
    index: AttemptIndex, rows: NDArray[np.intp]
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return by how much each attempt changes the numbers of passed and of judged samples."""
    table = index.attempts
    follows = np.append(False, (rows[1:] == rows[:-1] + 1) & ~table.sample_starts()[rows[1:]])
    found = []
    for counts in (table.passed[rows] == 1, table.passed[rows] != NOT_JUDGED):
        before = np.append(False, counts[:-1]) & follows
        found.append(counts.astype(np.int8) - before.astype(np.int8))
    return found[0], found[1]


def _whole(values: NDArray[Any]) -> list[int]:
    found: list[int] = values.astype(np.int64).tolist()
    return found


def _quantiles(
    places: NDArray[np.intp], values: NDArray[Any], n: int
) -> tuple[list[float | None], list[float | None]]:
    """Return the medians and the 95th percentiles of the values in ``n`` bins."""
    known = ~np.isnan(values)
    places, values = places[known], values[known]
    order = np.lexsort((values, places))
    ends = np.searchsorted(places[order], np.arange(n + 1))
    found: list[list[float | None]] = [[], []]
    for bin_ in range(n):
        own = values[order[ends[bin_] : ends[bin_ + 1]]]
        for share, column in zip((0.5, 0.95), found, strict=True):
            column.append(float(own[int(share * (len(own) - 1))]) if len(own) else None)
    return found[0], found[1]
