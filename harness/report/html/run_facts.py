"""The page's tables of the runs: their results, what they differ in, how they were made."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from harness.analysis.metrics import Metrics
from harness.analysis.self_preference import notes
from harness.config.run_file import flatten
from harness.records import OUTCOMES
from harness.report import gold_figures
from harness.report.cells import UNKNOWN, figure, interval_text, measure_of, usd, with_error
from harness.report.html.table import Cell, Table, table
from harness.report.reported_run import ReportedRun

NOTHING = "-"
"""In a cell that a run has nothing for."""
RECORDED = "recorded"
"""In place of what a run would have taken, had it not been recorded."""

_TIMES = ("started_at", "ended_at")
_OWN_PLACE = ("run", "sessions", "packages", "host.name", "variant")
"""Of a manifest: shown elsewhere, or nobody's business."""


def headline(runs: Sequence[ReportedRun], full: Mapping[str, str] | None = None) -> Table:
    """A row for each run; a column that says something of no run is left out.

    full: a run's name to what it is short for.
    """
    full = full or {}
    columns: dict[str, Callable[[ReportedRun], str]] = {
        "model": lambda run: run.metrics.model or "",
        "instances": lambda run: f"{run.metrics.n_instances:,}",
        "clusters": lambda run: f"{run.metrics.n_clusters:,}",
        _rate_heading(runs): _rate,
        "95%": _interval,
        **{f"pass@{k}": partial(_at, _pass_at_k, k) for k in _last(runs, _pass_at_k)},
        **{f"pass^{k}": partial(_at, _pass_hat_k, k) for k in _last(runs, _pass_hat_k)},
        **_any_round(runs),
        "not judged": _not_judged,
        "not ok": lambda run: _not_ok(run.metrics),
        "median latency": _latency,
        "cost": lambda run: RECORDED if run.recorded else usd(run.metrics.cost_usd),
        "per solved": _per_solved,
    }
    cells = {heading: [tell(run) for run in runs] for heading, tell in columns.items()}
    shown = [heading for heading, column in cells.items() if any(column)]
    rows = [
        [
            Cell(run.name, notes=tuple(run.marks), whole=full.get(run.name, "")),
            *(Cell(cells[heading][at] or NOTHING) for heading in shown),
        ]
        for at, run in enumerate(runs)
    ]
    return Table("Results of each run", ("run", *shown), rows, names=2 if "model" in shown else 1)


def differences(runs: Sequence[ReportedRun]) -> Table | None:
    """The settings that are not the same in all runs; None where there are none."""
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    rows = [
        [key, *(_shown(run.settings.get(key)) for run in runs)]
        for key in keys
        if any(run.settings.get(key) != runs[0].settings.get(key) for run in runs)
    ]
    if not rows:
        return None
    return table(
        "Settings that differ", ("setting", *(run.name for run in runs)), rows, 1 + len(runs)
    )


def self_preferences(runs: Sequence[ReportedRun]) -> list[tuple[str, str]]:
    """Of each run, on its judges that are of the model's own family."""
    return [(run.name, note) for run in runs for note in notes(run.metrics)]


def golds(runs: Sequence[ReportedRun]) -> Table | None:
    """What judges say of the gold answers, beside each run's own; None where they have none."""
    rows = [
        [run.name, name, *gold_figures.cells(gold)]
        for run in runs
        for name, gold in run.metrics.references.items()
    ]
    headings = ("run", "score", *gold_figures.HEADINGS)
    return table("Gold answers, and each run's own", headings, rows, 2) if rows else None


def settings(runs: Sequence[ReportedRun]) -> Table:
    """Every setting of every run that is not empty."""
    return _by_key("Settings of each run", "setting", runs, [run.settings for run in runs])


def origins(runs: Sequence[ReportedRun]) -> Table:
    """When and of what the runs were made."""
    told = [
        {
            key: _time(value) if key in _TIMES else value
            for key, value in flatten(dict(run.manifest)).items()
            if not any(key == own or key.startswith(f"{own}.") for own in _OWN_PLACE)
        }
        for run in runs
    ]
    return _by_key("How the runs were made", "", runs, told)


def packages(runs: Sequence[ReportedRun]) -> Table:
    """Versions of the packages."""
    told = [run.manifest.get("packages", {}) for run in runs]
    return _by_key("Versions of packages", "package", runs, told)


def _by_key(
    label: str, heading: str, runs: Sequence[ReportedRun], told: Sequence[Mapping[str, Any]]
) -> Table:
    keys = dict.fromkeys(key for one in told for key in one)
    rows = [[key, *(_shown(one.get(key)) for one in told)] for key in keys]
    shown = [row for row in rows if any(row[1:])]
    return table(label, (heading, *(run.name for run in runs)), shown, 1 + len(runs))


def _rate_heading(runs: Sequence[ReportedRun]) -> str:
    measures = {run.metrics.measure or "pass rate" for run in runs}
    measure = measures.pop() if len(measures) == 1 else "measure"
    return f"{measure}{', last round' if _last(runs, _any_of_first) else ''} ± s.e."


def _rate(run: ReportedRun) -> str:
    metrics = run.metrics
    if not metrics.measure:
        return with_error(metrics.overall.pass_rate, metrics.overall.stderr)
    mean = measure_of(metrics, metrics.scores)
    return with_error(mean.mean, mean.stderr) if mean else UNKNOWN


def _interval(run: ReportedRun) -> str:
    metrics = run.metrics
    estimate = measure_of(metrics, metrics.scores) if metrics.measure else metrics.overall
    return interval_text(estimate)


def _not_judged(run: ReportedRun) -> str:
    metrics = run.metrics
    mean = measure_of(metrics, metrics.scores)
    return f"{mean.not_measured if mean else metrics.overall.not_judged:,}"


_Series = Callable[[ReportedRun], Mapping[int, float | None]]
"""A figure of a run by k."""


def _pass_at_k(run: ReportedRun) -> Mapping[int, float | None]:
    return run.metrics.pass_at_k


def _pass_hat_k(run: ReportedRun) -> Mapping[int, float | None]:
    return run.metrics.pass_hat_k


def _any_of_first(run: ReportedRun) -> Mapping[int, float | None]:
    return run.metrics.rounds.any_of_first_k


def _last(runs: Sequence[ReportedRun], series: _Series) -> list[int]:
    """The last k of each run, ascending; 1 is none: it is the pass rate."""
    return sorted({max(series(run), default=1) for run in runs} - {1})


def _at(series: _Series, k: int, run: ReportedRun) -> str:
    found = series(run)
    return figure(found[k]) if k in found else ""


def _any_round(runs: Sequence[ReportedRun]) -> dict[str, Callable[[ReportedRun], str]]:
    """The column of passing in any round; k is beside each figure where it is not the same."""
    last = {max(_any_of_first(run), default=1) for run in runs}
    if len(last) == 1:
        k = last.pop()
        return {f"in any of {k:,} rounds": partial(_at, _any_of_first, k)} if k > 1 else {}

    def tell(run: ReportedRun) -> str:
        k = max(_any_of_first(run), default=1)
        return f"{_at(_any_of_first, k, run)} (of {k:,})" if k > 1 else ""

    return {"in any round": tell}


def _latency(run: ReportedRun) -> str:
    if run.recorded:
        return RECORDED
    return f"{run.latencies.median:.2f} s" if run.latencies else ""


def _not_ok(metrics: Metrics) -> str:
    counts = {name: metrics.outcomes.get(name, 0) for name in OUTCOMES if name != "ok"}
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "0"


def _per_solved(run: ReportedRun) -> str:
    cost = run.metrics.cost_per_solved_usd
    return usd(cost) if cost and not run.recorded else ""


def _shown(value: Any) -> str:
    if value in (None, "", [], {}, ()):
        return ""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _time(value: Any) -> str:
    if not isinstance(value, int | float):
        return _shown(value)
    try:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return _shown(value)
