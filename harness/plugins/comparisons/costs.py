"""The calls, tokens, latencies and costs of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from harness.analysis.metrics import Metrics
from harness.records import (
    CONSTRAINT_REFUSED,
    NO_ANSWER_IN_TIME,
    OUTCOMES_WITHOUT_REPLY,
    Outcome,
    Usage,
)
from harness.report.table import Table, table
from harness.report.text import COMPUTED_NOTE, format_usd
from harness.store.index import AttemptIndex


class TimedLine(msgspec.Struct, gc=False):
    """The fields of an attempt that say how long its call took, and its tokens."""

    outcome: Outcome
    latency_s: float | None = None
    call_id: str | None = None
    cached: bool = False
    finish_reason: str | None = None
    usage: Usage | None = None
    exception: str = ""

    @property
    def duration(self) -> float | None:
        """The call's duration in seconds, even if cached, or None if unknown.

        It is also None if the call failed, unless it is a crash, or if it refused the constraint.
        """
        if self.outcome == "error" or self.finish_reason == CONSTRAINT_REFUSED:
            return None
        return self.latency_s

    @property
    def seconds(self) -> float | None:
        """The call's `duration`, or None if the call was cached."""
        return None if self.cached else self.duration


def read_latencies(index: AttemptIndex) -> Iterator[float]:
    """Yield the durations, in seconds, of the calls that `timed_calls` selects."""
    return (call.seconds for call in timed_calls(index))


class TimedCall(NamedTuple):
    """The duration of a call, in the row of its attempt."""

    row: int
    seconds: float
    timed_out: bool  # the application would have taken longer


def timed_calls(index: AttemptIndex) -> Iterator[TimedCall]:
    """Yield each call that was sent and timed, and has been answered or has crashed."""
    seen: set[str | None] = set()
    rows = index.ordered_rows()
    for row, line in zip(rows.tolist(), index.read(TimedLine, rows), strict=True):
        if line.seconds is None:
            continue
        if line.call_id is None or line.call_id not in seen:
            seen.add(line.call_id)
            yield TimedCall(row, line.seconds, line.exception == NO_ANSWER_IN_TIME)


class Latencies(Struct, frozen=True, kw_only=True):
    """The percentiles 0, 1, … 100 of the latencies of n calls, in seconds."""

    n: int
    quantiles: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median latency, in seconds."""
        return self.quantiles[50]


def latencies(seconds: Iterable[float]) -> Latencies | None:
    """Return percentiles of the latencies of calls, in seconds, or None if there are no calls.

    >>> latencies([1.0, 3.0]).median
    2.0
    """
    values = np.fromiter(seconds, np.float64)
    if not len(values):
        return None
    quantiles = np.percentile(values, np.arange(101))
    return Latencies(n=len(values), quantiles=tuple(quantiles.tolist()))


def cost_table(runs: Sequence[tuple[Metrics, Latencies | None]]) -> Table:
    """Build a table of runs' calls, tokens, latencies (s) and costs."""
    rows = []
    cached = False
    played = False
    judged = False
    computed = False
    for metrics, seconds in runs:
        rows.append(_cost_cells(metrics, seconds))
        cached |= metrics.main_model_calls.n_cached_calls > 0
        played |= metrics.user_calls is not None
        judged |= any(judge.n_calls for judge in metrics.judges.values())
        computed |= metrics.main_model_calls.computed_usd > 0
    notes = [
        "Each call counts once, even if attempts share it. cached: calls made by other runs, at "
        "the cost that these paid. Seconds: median and 95th percentile of "
        "calls that were answered or crashed, excluding answers from the cache. failed: attempts "
        "without an answer."
    ]
    if computed:
        notes.append(COMPUTED_NOTE)
    if played or judged:
        notes.append("calls, failed, tokens, seconds and cost: of the run's own model alone.")
    columns = [
        "run",
        "calls",
        "cached" if cached else None,
        "failed",
        "tokens in, out",
        "out a call",
        "median, 95% s",
        "cost",
        "user's cost" if played else None,
        "judges' cost" if judged else None,
    ]
    return table(columns, rows, notes=notes)


def _cost_cells(metrics: Metrics, seconds: Latencies | None) -> list[object]:
    calls = metrics.main_model_calls
    tokens = None
    tokens_per_call = None
    if calls.usage:
        tokens = f"{calls.usage.input_tokens:,}, {calls.usage.output_tokens:,}"
        n_counted = calls.n_calls - calls.n_calls_without_usage
        if n_counted:
            tokens_per_call = f"{calls.usage.output_tokens / n_counted:,.1f}"
    times = None
    if seconds is not None:
        times = f"{seconds.median:.2f}, {seconds.quantiles[95]:.2f}"
    cost = None
    if calls.cost_usd is not None:
        cost = format_usd(calls.cost_usd, computed=calls.computed_usd)
    user_cost = None
    if metrics.user_calls is not None:
        user_cost = format_usd(metrics.user_calls.cost_usd)
    return [
        metrics.run,
        calls.n_calls + calls.n_crashed_calls,
        calls.n_cached_calls,
        sum(metrics.outcomes.get(outcome, 0) for outcome in OUTCOMES_WITHOUT_REPLY),
        tokens,
        tokens_per_call,
        times,
        cost,
        user_cost,
        format_usd(metrics.judging_usd),
    ]
