"""Figures of attempts' outcomes, and of their cost: time, tokens and money."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.plugins.report.figure import Figure, number, sample_sizes
from harness.plugins.report.figures import plot
from harness.plugins.report.figures.plot import Plan, Point, Runs, Sheet, alt
from harness.records import OUTCOMES
from harness.report.text import usd

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
    axis = alt.Axis(title="share of attempts", format=".0%", tickCount=5)
    chart = _stacked(sheet, OUTCOMES, axis)
    yield sheet.figure("outcomes", "Outcomes of attempts", caption, chart, "outcomes")


def _stacked(sheet: Sheet, parts: Sequence[str], axis: alt.Axis) -> Mapping[str, Any]:
    scale = alt.Scale(domain=list(parts), range="ordinal")
    legend = alt.Legend(title=None, columns=3, symbolType="square")
    bars = sheet.base().mark_bar(height={"band": 0.7})
    chart = bars.encode(
        x=alt.X("amount:Q", axis=axis),
        y=alt.Y("key:N", sort=None, axis=plot.name_axis()),
        color=alt.Color("part:N", scale=scale, legend=legend),
        order=alt.Order("order:Q"),
    )
    return plot.specification(sheet, chart, height=alt.Step(step=plot.STEP + 4))


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
    x = plot.number_x([one["at"] for one in sheet.data], "seconds")
    base = sheet.base().encode(x=x, order=alt.Order("value:Q"))
    upright = {"upright": True, "joined": True}
    layers = plot.interval_layers(sheet, base, "share of calls", runs.rates, **upright)
    caption = (
        "Share of calls that took at most this long, excluding failed calls and those answered "
        f"from the cache. {sample_sizes({run: one.n for run, one in timed.items()}, 'calls')}"
        f"{_recorded(runs, 'timed')}"
    )
    chart = plot.specification(sheet, *layers, height=plot.HEIGHT)
    yield sheet.figure("latency", "How long calls took", caption, chart, "cost")


def token_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the input and output tokens of each run's calls."""
    sheet = Sheet(runs, "run", "tokens", "count", "calls counted")
    for run in runs.every:
        name, own = runs.name_of(run), run.metrics.own_calls
        if not (usage := own.usage) or not own.n_calls:
            continue
        calls = f"{own.n_calls - own.n_calls_without_usage:,} of {own.n_calls:,}"
        for order, part in enumerate(("input", "output")):
            tokens = (usage.input_tokens, usage.output_tokens)[order]
            texts = [name, part, f"{tokens:,}", calls]
            sheet.add(name, texts, part=part, amount=tokens, order=order)
    if not sheet.rows:
        return
    caption = (
        "As counted by the provider. Each call counts once, shared or cached calls "
        f"included; calls without a count are excluded.{_others(runs)}"
    )
    axis = alt.Axis(title="tokens", format="~s", tickCount=4)
    chart = _stacked(sheet, ("input", "output"), axis)
    yield sheet.figure("tokens", "Tokens", caption, chart, "cost")


def cost_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the primary metric against the cost of runs, if at least two were paid for."""
    points = []
    for run in runs.every:
        part = runs.measured(run, last=True).get(())
        own = run.metrics.own_calls
        cost = own.cost_usd
        if cost and not run.recorded and part is not None and part.mean is not None:
            paid = usd(cost, computed=own.computed_usd)
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


def _recorded(runs: Runs, of: str) -> str:
    recorded = [runs.name_of(run) for run in runs.every if run.recorded]
    return f" Without {', '.join(recorded)}: recorded answers were not {of}." if recorded else ""
