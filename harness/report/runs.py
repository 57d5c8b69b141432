"""The runs of a report, and several runs side by side: `harness ls`, cost, the HTML page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from msgspec.structs import replace as replaced

from harness.analysis.constraints import ConstraintKind
from harness.analysis.metrics import Metrics
from harness.analysis.run_comparison import RunComparison
from harness.analysis.self_preference import notes
from harness.analysis.summary import Latencies
from harness.config.run_file import flatten
from harness.ports import Effect
from harness.records import OUTCOMES
from harness.report.judges import REFERENCE_COLUMNS, reference_cells
from harness.report.run_tables import measure_of
from harness.report.table import Cell, Column, Row, Table, names, text_table
from harness.report.text import UNKNOWN, interval, number, usd, with_error
from harness.store.columns import AttemptTable
from harness.store.index import AttemptIndex

NOTHING = "-"
"""Shown in a cell that does not apply to a run."""
RECORDED = "recorded"
"""Shown in place of the cost and time of a run whose answers were recorded before."""

_TIMES = ("started_at", "ended_at")
_ELSEWHERE = ("run", "sessions", "packages", "host.name", "variant")
"""Keys of a manifest that are shown elsewhere or are private."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """A run in a report.

    Attributes:
        name: The name of its folder, unique within a report.
        marks: Warnings in every table and figure (SIMULATED, INCOMPLETE).
        index: Index of its attempts: which lines count, and where each one is.
        settings: Its run file by dotted key, for the table of what runs differ in.
        manifest: When, and with which versions and data, it was made.
        latencies: None if no call was timed.
        constraints: How often each kind of base constraint was met, if the task has any.
        effects: The figures of the task's paper (`harness.ports.Pictured`).
        without_constraints: Samples whose scores list no constraint, if others do.
    """

    name: str
    metrics: Metrics
    marks: Sequence[str]
    index: AttemptIndex
    settings: Mapping[str, Any]
    manifest: Mapping[str, Any]
    latencies: Latencies | None
    constraints: Sequence[ConstraintKind]
    effects: Sequence[Effect]
    without_constraints: int = 0

    @property
    def attempts(self) -> AttemptTable:
        """Its attempts as columns."""
        return self.index.attempts

    @property
    def recorded(self) -> bool:
        """Return whether the answers were recorded earlier: nothing was timed or paid for."""
        return self.manifest.get("backend") == "replay"

    @property
    def last_round(self) -> int:
        """Return the number of rounds; 0 without attempts."""
        return int(self.attempts.round.max(initial=0))


def common_start(names: Iterable[str]) -> str:
    """Return the common prefix of several names up to a dot, such as their run file's name.

    Something is left of each name without it, and the dot of a number does not count: "gpt-4.1" and
    "gpt-4.5" share nothing. Empty for fewer than two names.

    >>> common_start(["collie.four", "collie.zero"])
    'collie.'
    """
    every = list(names)
    if len(every) < 2:
        return ""
    for dot in reversed(list(re.finditer(r"\.", every[0]))):
        start = every[0][: dot.end()]
        rests = [name[dot.end() :].strip() for name in every if name.startswith(start)]
        in_number = start[-2:-1].isdigit() and any(rest[:1].isdigit() for rest in rests)
        if len(rests) == len(every) and all(rests) and not in_number:
            return start
    return ""


def shortened(
    runs: Sequence[ReportedRun], comparison: RunComparison | None = None
) -> tuple[list[ReportedRun], RunComparison | None]:
    """Return runs and their comparison, with their common prefix dropped from the names."""
    prefix = common_start([run.name for run in runs])
    short = [replace(run, name=run.name.removeprefix(prefix)) for run in runs]
    if comparison is None or not prefix:
        return short, comparison
    others = [replaced(one, run=one.run.removeprefix(prefix)) for one in comparison.others]
    baseline = comparison.baseline.removeprefix(prefix)
    return short, replaced(comparison, baseline=baseline, others=others)


def runs_table(runs: Mapping[str, Metrics | None]) -> Table:
    """Build a table with a row for each run; metrics are None for a run without any.

    A run of several samples or rounds also shows how often any of them passed: its rate is that of
    one sample, which is not what was paid for.
    """
    columns = names(
        "run",
        Column("task", text=True, hide=1),
        Column("model", text=True),
        Column("n"),
        Column("rate ± s.e."),
        Column("any of", hide=3),
        Column("not judged"),
        Column("cost", hide=2),
    )
    rows = [[name, *_run_cells(metrics)] for name, metrics in runs.items()]
    kept = range(len(columns)) if any(row[5] for row in rows) else (0, 1, 2, 3, 4, 6, 7)
    incomplete = any(metrics and not metrics.complete for metrics in runs.values())
    return Table(
        columns=[columns[at] for at in kept],
        rows=[Row([row[at] for at in kept]) for row in rows],
        notes=["INCOMPLETE where n is a part: the rest may differ."] if incomplete else [],
        fold=False,
        name_width=14,
    )


def _run_cells(metrics: Metrics | None) -> list[object]:
    if metrics is None:
        return ["", "", "", Cell("no metrics", style="dim"), "", "", ""]
    rate, measure = metrics.overall, measure_of(metrics, metrics.scores)
    shown = with_error(rate.pass_rate, rate.stderr)
    if measure:
        shown = f"{metrics.measure} {with_error(measure.mean, measure.stderr)}"
    n: object = measure.n if measure else rate.n
    if not metrics.complete:
        whole = "?" if metrics.n_planned is None else f"{metrics.n_planned:,}"
        n = Cell(f"{metrics.n_samples:,} of {whole}", style="yellow")
    simulated = ["SIMULATED"] if metrics.simulated else []
    model = " ".join([*simulated, metrics.model or ""]).strip()
    return [
        metrics.task,
        # Where there is no room for both, the mark matters more than the model.
        Cell(model, style="bold yellow" if simulated else ""),
        n,
        shown,
        _any_passed(metrics),
        measure.not_measured if measure else rate.not_judged,
        usd(metrics.cost_usd),
    ]


def _any_passed(metrics: Metrics) -> str:
    """Return how often any of several samples or rounds passed; empty for a run of one."""
    rounds, k = metrics.rounds.any_of_first_k, max(metrics.pass_at_k, default=1)
    if k > 1:
        return f"{metrics.pass_at_k[k]:.3f} of {k:,}"
    if len(rounds) > 1:
        last = max(rounds)
        return f"{rounds[last]:.3f} of {last:,}"
    return ""


def cost_table(runs: Sequence[tuple[Metrics, Latencies | None]]) -> Table:
    """Build a table of what runs cost: calls, tokens, seconds, money."""
    columns = names(
        "run",
        *(Column(name) for name in ("calls", "failed", "tokens in, out", "out a call")),
        *(Column(name) for name in ("median, 95% s", "cost")),
    )
    rows = []
    for metrics, took in runs:
        usage, counted = metrics.usage, metrics.n_calls - metrics.n_calls_without_usage
        rows.append(
            Row(
                [
                    metrics.run,
                    metrics.n_calls,
                    metrics.outcomes["error"],
                    f"{usage.input_tokens:,}, {usage.output_tokens:,}" if usage else None,
                    f"{usage.output_tokens / counted:,.1f}" if usage and counted else None,
                    f"{took.median:.2f}, {took.quantiles[95]:.2f}" if took else None,
                    usd(metrics.cost_usd) if metrics.cost_usd is not None else None,
                ]
            )
        )
    note = (
        "Each call once, however many attempts share it. Seconds: median and 95th percentile of "
        "the calls that were made and answered, without answers from the cache. failed: attempts "
        "without an answer."
    )
    return Table(columns=columns, rows=rows, notes=[note])


def headline(runs: Sequence[ReportedRun], full: Mapping[str, str] | None = None) -> Table:
    """Build the results table; a column that applies to no run is omitted.

    Args:
        runs: A row for each.
        full: Maps an abbreviated run name to the full one.
    """
    full = full or {}
    columns: dict[str, Callable[[ReportedRun], str]] = {
        "model": lambda run: run.metrics.model or "",
        "instances": lambda run: f"{run.metrics.n_instances:,}",
        "clusters": lambda run: f"{run.metrics.n_clusters:,}",
        _rate_heading(runs): _rate,
        "95%": _interval,
        **{
            f"{name}{k}": partial(_at, series, k)
            for name, series in _PASS_K.items()
            for k in _last(runs, series)
        },
        **_any_round(runs),
        "not judged": _not_judged,
        "not ok": _not_ok,
        "median latency": _latency,
        "cost": lambda run: RECORDED if run.recorded else usd(run.metrics.cost_usd),
        "per solved": _per_solved,
    }
    cells = {heading: [tell(run) for run in runs] for heading, tell in columns.items()}
    shown = {heading: column for heading, column in cells.items() if any(column)}
    rows = [
        Row(
            [
                Cell(run.name, title=full.get(run.name, "")),
                *(column[at] or NOTHING for column in shown.values()),
            ],
            run.marks,
        )
        for at, run in enumerate(runs)
    ]
    headings = ("run", *shown)
    return text_table("Results of each run", headings, rows, 2 if "model" in shown else 1)


def references(runs: Sequence[ReportedRun]) -> Table | None:
    """Build a table of judges' scores of reference answers beside each run's own; None without
    any.
    """
    rows = [
        Row([run.name, name, *reference_cells(found)])
        for run in runs
        for name, found in run.metrics.references.items()
    ]
    columns = [Column("run", text=True), Column("score", text=True), *REFERENCE_COLUMNS]
    title = "Reference answers, and each run's own"
    return Table(title=title, columns=columns, rows=rows, names=2) if rows else None


def self_preferences(runs: Sequence[ReportedRun]) -> list[tuple[str, str]]:
    """Return, for each run, which of its judges are of its model's own family."""
    return [(run.name, note) for run in runs for note in notes(run.metrics)]


def differences(runs: Sequence[ReportedRun]) -> Table | None:
    """Build a table of the settings that differ between runs; None if all are the same."""
    first = runs[0].settings if runs else {}
    keys = {
        key
        for run in runs
        for key in {**run.settings, **first}
        if run.settings.get(key) != first.get(key)
    }
    found = [{k: v for k, v in run.settings.items() if k in keys} for run in runs]
    return _by_key("Settings that differ", "setting", runs, found) if keys else None


def settings(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of every setting of every run that is not empty."""
    return _by_key("Settings of each run", "setting", runs, [run.settings for run in runs])


def origins(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of when and from what the runs were made."""
    told = [
        {
            key: _time(value) if key in _TIMES else value
            for key, value in flatten(dict(run.manifest)).items()
            if not any(key == other or key.startswith(f"{other}.") for other in _ELSEWHERE)
        }
        for run in runs
    ]
    return _by_key("How the runs were made", "", runs, told)


def packages(runs: Sequence[ReportedRun]) -> Table:
    """Build a table of package versions."""
    told = [run.manifest.get("packages", {}) for run in runs]
    return _by_key("Versions of packages", "package", runs, told)


def _by_key(
    title: str, heading: str, runs: Sequence[ReportedRun], told: Sequence[Mapping[str, Any]]
) -> Table:
    keys = dict.fromkeys(key for one in told for key in one)
    rows = [[key, *(_shown(one.get(key)) for one in told)] for key in keys]
    shown = [row for row in rows if any(row[1:])]
    return text_table(title, (heading, *(run.name for run in runs)), shown, 1 + len(runs))


def _rate_heading(runs: Sequence[ReportedRun]) -> str:
    measures = {run.metrics.measure or "pass rate" for run in runs}
    measure = measures.pop() if len(measures) == 1 else "primary metric"
    return f"{measure}{', last round' if _last(runs, _any_of_first) else ''} ± s.e."


def _rate(run: ReportedRun) -> str:
    metrics = run.metrics
    if not metrics.measure:
        return with_error(metrics.overall.pass_rate, metrics.overall.stderr)
    mean = measure_of(metrics, metrics.scores)
    return with_error(mean.mean, mean.stderr) if mean else UNKNOWN


def _interval(run: ReportedRun) -> str:
    metrics = run.metrics
    found = measure_of(metrics, metrics.scores) if metrics.measure else metrics.overall
    return interval(found.ci95 if found else None)


def _not_judged(run: ReportedRun) -> str:
    metrics = run.metrics
    mean = measure_of(metrics, metrics.scores)
    return f"{mean.not_measured if mean else metrics.overall.not_judged:,}"


_Series = Callable[[ReportedRun], Mapping[int, float | None]]
"""A figure of a run by k."""

_PASS_K: Mapping[str, _Series] = {
    "pass@": lambda run: run.metrics.pass_at_k,
    "pass^": lambda run: run.metrics.pass_hat_k,
}


def _any_of_first(run: ReportedRun) -> Mapping[int, float | None]:
    return run.metrics.rounds.any_of_first_k


def _last(runs: Sequence[ReportedRun], series: _Series) -> list[int]:
    """Return the largest k of each run, ascending, without 1, which is the pass rate."""
    return sorted({max(series(run), default=1) for run in runs} - {1})


def _at(series: _Series, k: int, run: ReportedRun) -> str:
    found = series(run)
    return number(found[k]) if k in found else ""


def _any_round(runs: Sequence[ReportedRun]) -> dict[str, Callable[[ReportedRun], str]]:
    """Return the column of passing in any round; k is beside each value if it differs by run."""
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


def _not_ok(run: ReportedRun) -> str:
    counts = {name: run.metrics.outcomes.get(name, 0) for name in OUTCOMES if name != "ok"}
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
