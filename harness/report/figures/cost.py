"""Figures of attempts' outcomes, and of their cost: time, tokens and money."""

from __future__ import annotations

from collections.abc import Iterator

from harness.records import OUTCOMES
from harness.report.figure import Figure
from harness.report.figures.names import counted, number, on_axis
from harness.report.figures.plot import (
    HEIGHT,
    STEP,
    UNIT,
    UNITS,
    Runs,
    Sheet,
    alt,
    name_axis,
    number_x,
    share_axis,
    specification,
)
from harness.report.figures.points import LINE_BARS, Plan, Point, are_fractions, lines
from harness.report.text import usd

PERCENTILES = (0, 1, *range(5, 100, 5), 99, 100)
"""Percentiles of latency that are drawn."""


def outcome_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the share of attempts with each of the six outcomes."""
    n = {runs.shown(run): run.metrics.n_attempts for run in runs.every if run.metrics.n_attempts}
    if not n:
        return
    axis = on_axis(n, runs.short)
    sheet = Sheet(runs, "run", "outcome", "attempts", "share")
    for run in runs.every:
        name, start = runs.shown(run), 0.0
        for outcome in OUTCOMES if name in n else ():
            count = run.metrics.outcomes.get(outcome, 0)
            end = start + count / n[name]
            texts = [name, outcome, f"{count:,}", f"{count / n[name]:.1%}"]
            sheet.add(name, texts, row=axis[name], outcome=outcome, start=start, end=end)
            start = end
    colour = alt.Color(
        "outcome:N",
        scale=alt.Scale(domain=list(OUTCOMES), range="ordinal"),
        legend=alt.Legend(title=None, columns=3, symbolType="square"),
    )
    chart = sheet.base().encode(
        x=alt.X("start:Q", scale=UNIT, axis=share_axis("share of attempts")),
        x2="end:Q",
        y=alt.Y("row:N", scale=alt.Scale(domain=list(axis.values())), axis=name_axis()),
        color=colour,
    )
    later = " of all rounds" if runs.several_rounds else ""
    caption = (
        f"Bars: share of attempts{later} by outcome. An error is the infrastructure's and has no "
        "verdict; a refused, empty or unparseable answer fails. The unit is the attempt. "
        + counted(n, "attempts")
    )
    drawn = specification(chart.mark_bar(height={"band": 0.7}), height=alt.Step(step=STEP + 6))
    yield sheet.figure("outcomes", "Outcomes of attempts", caption, drawn, "outcomes")


def latency_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the distribution of the calls' latency."""
    timed = {
        runs.shown(run): run.latencies for run in runs.every if run.latencies and not run.recorded
    }
    if not timed:
        return
    sheet = Sheet(runs, "run", "percentile", "seconds")
    for run, latencies in timed.items():
        for percentile in PERCENTILES:
            seconds = latencies.quantiles[percentile]
            texts = [run, f"{percentile}", number(seconds)]
            sheet.add(run, texts, name=run, seconds=seconds, share=percentile / 100)
    base = sheet.base().encode(
        x=number_x("seconds", [one["seconds"] for one in sheet.data], "seconds"),
        y=alt.Y("share:Q", scale=UNIT, axis=share_axis("share of calls")),
        color=sheet.colour(),
        order="share:Q",
    )
    mark = base.mark_point(filled=True, size=25, opacity=1).encode(shape=sheet.shape())
    chart = specification(base.mark_line(strokeWidth=2), mark, height=HEIGHT)
    n = {run: latencies.n for run, latencies in timed.items()}
    caption = (
        "Lines: share of calls that took no longer; points: percentiles, joined by straight "
        "lines. Each call once, without calls answered from the cache and failed ones. The unit "
        f"is the call. {counted(n, 'calls')}{_recorded(runs, 'timed')}"
    )
    yield sheet.figure("latency", "How long calls took", caption, chart, "cost")


def token_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the tokens of all calls."""
    metered = {
        runs.shown(run): (run.metrics, run.metrics.usage)
        for run in runs.every
        if run.metrics.usage and run.metrics.n_calls
    }
    if not metered:
        return
    axis = on_axis(metered, runs.short)
    sheet = Sheet(runs, "run", "tokens", "count", "calls counted")
    for run, (metrics, usage) in metered.items():
        counted_calls = metrics.n_calls - metrics.n_calls_without_usage
        for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            texts = [run, kind, f"{tokens:,}", f"{counted_calls:,} of {metrics.n_calls:,}"]
            sheet.add(run, texts, row=axis[run], kind=kind, tokens=tokens)
    kinds = ["input", "output"]
    legend = alt.Legend(title=None, symbolType="square", symbolFillColor="#808080")
    chart = sheet.base().encode(
        x=alt.X("tokens:Q", axis=alt.Axis(title="tokens", format="~s", tickCount=4)),
        y=alt.Y("row:N", scale=alt.Scale(domain=list(axis.values())), axis=name_axis()),
        yOffset=alt.YOffset("kind:N", scale=alt.Scale(domain=kinds)),
        color=sheet.colour().legend(None),
        opacity=alt.Opacity("kind:O", scale=alt.Scale(domain=kinds, range=[0.5, 1]), legend=legend),
    )
    height = alt.Step(step=STEP + 10, **{"for": "position"})
    drawn = specification(chart.mark_bar(height={"band": 0.8}), height=height)
    caption = (
        "Bars: tokens as the provider counted them, input tokens pale; each call once, including "
        "shared calls and calls answered from the cache. Calls without a count are not included. "
        "The unit is the call."
    )
    yield sheet.figure("tokens", "Tokens", caption, drawn, "cost")


def cost_figures(runs: Runs) -> Iterator[Figure]:
    """Draw each run's primary metric against its cost, if known."""
    points = []
    for run in runs.every:
        part = runs.measured(run, last=True).get(())
        cost = run.metrics.cost_usd
        if cost and not run.recorded and part is not None and part.mean is not None:
            points.append(Point(usd(cost), runs.shown(run), part, cost))
    if len(points) < 2:
        return
    value = f"{runs.what} of last rounds" if runs.several_rounds else runs.what
    plan = Plan(
        name="cost_rate",
        title=f"Cost against {value}",
        caption=f"Points: {value}, and the cost of all calls of the run, each once. {LINE_BARS} "
        f"{UNITS}{_recorded(runs, 'paid for')}",
        section="cost",
        heading="cost, US dollars",
        value=value,
        bounded=are_fractions(points),
        joined=False,
    )
    yield lines(points, plan, runs)


def _recorded(runs: Runs, of: str) -> str:
    recorded = [runs.shown(run) for run in runs.every if run.recorded]
    return f" Without {', '.join(recorded)}: recorded answers were not {of}." if recorded else ""
