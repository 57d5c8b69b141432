"""All figures of a report, and those of outcomes, time and money."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from harness.plugins.comparisons.pair_matrix import InducedRankings, PairMatrix
from harness.plugins.comparisons.run_comparison import RunComparison
from harness.plugins.report.figure import Figure, distinct, number, sample_sizes
from harness.plugins.report.figures import plot, rates
from harness.plugins.report.figures.constraints import constraint_figures
from harness.plugins.report.figures.heat_map import heat_map_figures, pair_figure, ranking_figure
from harness.plugins.report.figures.plot import Plan, Point, Runs, Sheet
from harness.plugins.report.runs import ReportedRun
from harness.records import OUTCOMES
from harness.report.text import usd


def figures(
    reported: Sequence[ReportedRun],
    comparison: RunComparison | None,
    matrix: PairMatrix | None = None,
    rankings: InducedRankings | None = None,
) -> list[Figure]:
    """Return all figures of the runs, and of their comparisons if these are given."""
    runs = Runs.of(reported, comparison)
    every = [
        *rates.rate_figures(runs),
        *rates.any_round_figures(runs),
        *rates.round_figures(runs),
        *rates.sample_figures(runs),
        *rates.effect_figures(runs),
        *rates.position_figures(runs),
        *heat_map_figures(runs),
        *rates.comparison_figures(runs, comparison),
        *rates.ablation_figures(runs, comparison),
        *(
            replace(figure, section=name)
            for run in reported
            for name, section in run.added
            for figure in section.figures()
        ),
        *([pair_figure(runs, matrix)] if matrix and len(reported) > 2 else ()),
        *([ranking_figure(runs, rankings)] if rankings else ()),
        *constraint_figures(runs, comparison),
        *outcome_figures(runs),
        *latency_figures(runs),
        *cost_figures(runs),
    ]
    names = distinct((figure.name for figure in every), "{}_{}")  # labels may yield equal names
    return [replace(figure, name=name) for figure, name in zip(every, names, strict=True)]


PERCENTILES = (0, 1, *range(5, 100, 5), 99, 100)  # percentiles of latency to draw


def outcome_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the share of each run's attempts with each outcome."""
    n = {runs.name_of(run): run.metrics.n_attempts for run in runs.every if run.metrics.n_attempts}
    if not n:
        return
    sheet = Sheet(runs, "run", "outcome", "attempts", "share")
    for run in runs.every:
        name = runs.name_of(run)
        for order, outcome in enumerate(OUTCOMES if name in n else ()):
            count = run.metrics.outcomes.get(outcome, 0)
            texts = [name, outcome, f"{count:,}", f"{count / n[name]:.1%}"]
            sheet.add(name, texts, part=outcome, amount=count / n[name], order=order)
    caption = (
        "An error is an infrastructure failure and has no verdict; a refused, empty or unparseable "
        f"answer fails. {sample_sizes(n, 'attempts')}"
    )
    chart = sheet.chart("outcomes", outcomes=OUTCOMES)
    yield sheet.figure("outcomes", "Outcomes of attempts", caption, chart, "outcomes")


def latency_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the distribution of each run's call latencies, in seconds."""
    timed = {
        runs.name_of(run): run.latencies for run in runs.every if run.latencies and not run.recorded
    }
    if not timed:
        return
    sheet = Sheet(runs, "run", "percentile", "seconds")
    for run, latencies in timed.items():
        for percentile in PERCENTILES:
            seconds = latencies.quantiles[percentile]
            texts = [run, f"{percentile}", number(seconds)]
            sheet.add(run, texts, at=seconds, value=percentile / 100, low=None)
    at = plot.number_axis([point["at"] for point in sheet.data], "seconds")
    options: dict[str, Any] = {"at": at, "joined": True, "ordered": True}
    chart = plot.points_chart(sheet, "share of calls", runs.rates, **options)
    n = {run: latencies.n for run, latencies in timed.items()}
    caption = (
        "Share of calls that took at most this long, excluding failed calls and those answered "
        f"from the cache. {sample_sizes(n, 'calls')}"
        f"{_recorded(runs, 'timed')}"
    )
    yield sheet.figure("latency", "How long calls took", caption, chart, "cost")


def cost_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the primary metric against the cost of runs, if at least two were paid for."""
    points = []
    for run in runs.every:
        part = runs.measured(run, last=True).get(())
        own_calls = run.metrics.own_calls
        cost = own_calls.cost_usd
        if cost and not run.recorded and part is not None and part.mean is not None:
            paid = usd(cost, computed=own_calls.computed_usd)
            points.append(Point(paid, runs.name_of(run), part, cost))
    if len(points) < 2:
        return
    value = runs.value(plot.LAST_ROUNDS)
    plan = Plan(
        name="cost_rate",
        title=f"Cost against {value}",
        caption="All calls of the run, each counted once. No run is both cheaper and better than "
        f"one on the dashed line.{_others(runs)}{_recorded(runs, 'paid for')}",
        section="cost",
        heading="cost, US dollars",
        value=value,
        unit=runs.unit,
        joined=False,
        frontier=True,
    )
    yield plot.lines(points, plan, runs)


def _others(runs: Runs) -> str:
    others = any(run.metrics.model_calls for run in runs.every)
    return " Without the calls of judges and of a model that plays the user." * others


def _recorded(runs: Runs, action: str) -> str:
    recorded = [runs.name_of(run) for run in runs.every if run.recorded]
    return (
        f" Without {', '.join(recorded)}: recorded answers were not {action}." if recorded else ""
    )
