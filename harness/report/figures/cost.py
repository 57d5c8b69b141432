"""Figures of attempts' outcomes, and of their cost: time, tokens and money."""

from __future__ import annotations

from collections.abc import Iterator

from harness.records import OUTCOMES
from harness.report.figures.figure import Figure
from harness.report.figures.groups import UNITS
from harness.report.figures.names import counted, interval, number, on_axis
from harness.report.figures.runs import (
    STEP,
    UNIT,
    Drawn,
    Runs,
    Sheet,
    alt,
    bounds,
    known,
    name_axis,
    number_x,
    share_axis,
    specification,
)
from harness.report.text import usd

PERCENTILES = (0, 1, *range(5, 100, 5), 99, 100)
"""Percentiles of latency that are drawn."""
_HEIGHT = 220


def outcome_figures(runs: Runs) -> Iterator[Figure]:
    """Draw the share of attempts with each of the six outcomes."""
    begun = [run for run in runs.every if run.metrics.n_attempts]
    if not begun:
        return
    names = [runs.shown(run) for run in begun]
    axis = on_axis(names, runs.short)
    sheet = Sheet("run", "outcome", "attempts", "share")
    for name, run in zip(names, begun, strict=True):
        start = 0.0
        for outcome in OUTCOMES:
            count = run.metrics.outcomes.get(outcome, 0)
            share = count / run.metrics.n_attempts
            sheet.add(
                [name, outcome, f"{count:,}", f"{share:.1%}"],
                row=axis[name],
                run=name,
                outcome=outcome,
                start=start,
                end=start + share,
            )
            start += share
    colour = alt.Color(
        "outcome:N",
        scale=alt.Scale(domain=list(OUTCOMES), range="ordinal"),
        legend=alt.Legend(title=None, columns=3, symbolType="square"),
    )
    chart = sheet.base().mark_bar(height={"band": 0.7})
    chart = chart.encode(
        x=alt.X("start:Q", scale=UNIT, axis=share_axis("share of attempts")),
        x2="end:Q",
        y=alt.Y("row:N", scale=alt.Scale(domain=list(axis.values())), axis=name_axis()),
        color=colour,
    )
    n = {runs.shown(run): run.metrics.n_attempts for run in begun}
    later = " of all rounds" if runs.several_rounds else ""
    caption = (
        f"Bars: share of attempts{later} by outcome. An error is the infrastructure's and has no "
        "verdict; a refused, empty or unparseable answer fails. The unit is the attempt. "
        + counted(n, "attempts")
    )
    drawn = specification(chart, height=alt.Step(step=STEP + 6))
    title = "Outcomes of attempts"
    yield runs.figure(Drawn("outcomes", title, caption, drawn, sheet, "outcomes"), names)


def cost_figures(runs: Runs) -> Iterator[Figure]:
    """Draw latency, tokens and cost, where known."""
    yield from _latency(runs)
    yield from _tokens(runs)
    yield from _cost(runs)


def _latency(runs: Runs) -> Iterator[Figure]:
    timed = {
        runs.shown(run): run.latencies
        for run in runs.every
        if run.latencies is not None and not run.recorded
    }
    if not timed:
        return
    sheet = Sheet("run", "percentile", "seconds")
    for run, latencies in timed.items():
        for percentile in PERCENTILES:
            seconds = latencies.quantiles[percentile]
            sheet.add(
                [run, f"{percentile}", number(seconds)],
                name=run,
                key=runs.keys[run],
                seconds=seconds,
                share=percentile / 100,
            )
    base = sheet.base().encode(
        x=number_x("seconds", [one["seconds"] for one in sheet.data], "seconds"),
        y=alt.Y("share:Q", scale=UNIT, axis=share_axis("share of calls")),
        color=runs.colour(timed),
        order="share:Q",
    )
    mark = base.mark_point(filled=True, size=25, opacity=1).encode(shape=runs.shape(timed))
    chart = specification(base.mark_line(strokeWidth=2), mark, height=_HEIGHT)
    n = {run: latencies.n for run, latencies in timed.items()}
    caption = (
        "Lines: share of calls that took no longer; points: percentiles, joined by straight "
        "lines. Each call once, without calls answered from the cache and failed ones. The unit "
        f"is the call. {counted(n, 'calls')}{_recorded(runs, 'timed')}"
    )
    yield runs.figure(Drawn("latency", "How long calls took", caption, chart, sheet, "cost"), timed)


def _tokens(runs: Runs) -> Iterator[Figure]:
    metered = {
        runs.shown(run): (run.metrics, run.metrics.usage)
        for run in runs.every
        if run.metrics.usage and run.metrics.n_calls
    }
    if not metered:
        return
    axis = on_axis(metered, runs.short)
    sheet = Sheet("run", "tokens", "count", "calls counted")
    for run, (metrics, usage) in metered.items():
        of = metrics.n_calls - metrics.n_calls_without_usage
        for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            sheet.add(
                [run, kind, f"{tokens:,}", f"{of:,} of {metrics.n_calls:,}"],
                row=axis[run],
                run=run,
                key=runs.keys[run],
                kind=kind,
                tokens=tokens,
            )
    kinds = ["input", "output"]
    legend = alt.Legend(title=None, symbolType="square", symbolFillColor="#808080")
    chart = sheet.base().mark_bar(height={"band": 0.8})
    chart = chart.encode(
        x=alt.X("tokens:Q", axis=alt.Axis(title="tokens", format="~s", tickCount=4)),
        y=alt.Y("row:N", scale=alt.Scale(domain=list(axis.values())), axis=name_axis()),
        yOffset=alt.YOffset("kind:N", scale=alt.Scale(domain=kinds)),
        color=runs.colour([]).legend(None),
        opacity=alt.Opacity("kind:O", scale=alt.Scale(domain=kinds, range=[0.5, 1]), legend=legend),
    )
    drawn = specification(chart, height=alt.Step(step=STEP + 10, **{"for": "position"}))
    caption = (
        "Bars: tokens as the provider counted them, input tokens pale; each call once, including "
        "shared calls and calls answered from the cache. Calls without a count are not included. "
        "The unit is the call."
    )
    yield runs.figure(Drawn("tokens", "Tokens", caption, drawn, sheet, "cost"), metered)


def _cost(runs: Runs) -> Iterator[Figure]:
    value = f"{runs.what} of last rounds" if runs.several_rounds else runs.what
    sheet = Sheet("run", "cost", value, "95% interval", "samples")
    for run in runs.every:
        part = runs.measured(run, last=True).get(())
        cost = run.metrics.cost_usd
        if not cost or run.recorded or part is None or part.mean is None:
            continue
        name = runs.shown(run)
        sheet.add(
            [name, usd(cost), number(part.mean), interval(part.ci95), f"{part.n:,}"],
            name=name,
            key=runs.keys[name],
            cost=cost,
            value=part.mean,
            **bounds(part.ci95),
        )
    if len(sheet.data) < 2:
        return
    present = [one["name"] for one in sheet.data]
    fractions = all(0 <= one["value"] <= 1 for one in sheet.data)
    scale = UNIT if fractions else alt.Scale(zero=False)
    base = sheet.base().encode(
        x=number_x("cost", [one["cost"] for one in sheet.data], "cost, US dollars"),
        color=runs.colour(present),
    )
    bar = known(base, "low").mark_rule(strokeWidth=1.25)
    mark = base.mark_point(filled=True, size=80, opacity=1).encode(
        y=alt.Y("value:Q", scale=scale, axis=alt.Axis(title=value, tickCount=5)),
        shape=runs.shape(present),
    )
    chart = specification(
        bar.encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"), mark, height=_HEIGHT
    )
    caption = (
        f"Points: {value}, and the cost of all calls of the run, each once. Bars: 95% interval. "
        f"{UNITS}{_recorded(runs, 'paid for')}"
    )
    drawn = Drawn("cost_rate", f"Cost against {value}", caption, chart, sheet, "cost")
    yield runs.figure(drawn, present)


def _recorded(runs: Runs, of: str) -> str:
    recorded = [runs.shown(run) for run in runs.every if run.recorded]
    return f" Without {', '.join(recorded)}: recorded answers were not {of}." if recorded else ""
