"""What more samples bring: pass@k, and what is left of them if all must pass: pass^k."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from harness.analysis.clustered import Estimate, clustered_mean
from harness.report.figure import Figure
from harness.report.figures.curves import BANDS, Point, chart, table
from harness.report.figures.names import counted
from harness.report.figures.rates import units
from harness.report.figures.runs import Runs
from harness.report.reported_run import ReportedRun

AT = "any of k (pass@k)"
HAT = "all of k (pass^k)"

_EVERY = 20
_FURTHER = 20


def sample_figures(runs: Runs) -> Iterator[Figure]:
    """The picture, of the runs that have several samples of every instance."""
    several = [run for run in runs.every if max(run.metrics.pass_at_k, default=1) > 1]
    if not several:
        return
    points = [point for run in several for point in _points(runs, run)]
    n = {runs.shown(run): run.metrics.pass_at_k_instances for run in several}
    later = " of last rounds" if runs.several_rounds else ""
    yield runs.figure(
        "pass_at_k",
        runs.titled("any of k samples passes (pass@k), and all of them (pass^k)", "last rounds"),
        f"Solid: the chance that any of k samples{later} passes, dashed: that all do; unbiased, "
        f"mean over instances. {BANDS} {counted(n, 'instances')} {units()}",
        chart(points, (AT, HAT), "k", "chance", "instances", runs),
        *table(points, "k", "chance", "instances"),
        present=[runs.shown(run) for run in several],
    )


def chosen(most: int) -> list[int]:
    """The k that are drawn: the first ones, then ever fewer.

    >>> chosen(3)
    [1, 2, 3]
    """
    further = [round(_EVERY * (most / _EVERY) ** (i / _FURTHER)) for i in range(1, _FURTHER + 1)]
    return sorted({*range(1, min(most, _EVERY) + 1), *(k for k in further if _EVERY < k <= most)})


def _points(runs: Runs, run: ReportedRun) -> Iterator[Point]:
    metrics = run.metrics
    lines: tuple[tuple[str, Mapping[int, float], Mapping[int, float | None]], ...] = (
        (AT, metrics.pass_at_k, metrics.pass_at_k_stderr),
        (HAT, metrics.pass_hat_k, metrics.pass_hat_k_stderr),
    )
    of = _units(run)
    for kind, means, stderrs in lines:
        for k in chosen(max(means, default=0)):
            estimate = replace(of, mean=means[k], stderr=stderrs.get(k))
            yield Point(
                kind, runs.shown(run), k, means[k], estimate.stderr, estimate.ci95, estimate.n
            )


def _units(run: ReportedRun) -> Estimate:
    """An estimate over the instances that have a judged sample: how many, in which clusters."""
    last = run.attempts.last_rounds()
    judged = np.unique(last.instance[last.judged])
    return clustered_mean(np.zeros(len(judged)), run.attempts.instances.cluster[judged])
