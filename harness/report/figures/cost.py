"""What a run took: time, tokens, and money against what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from harness.report.figure import Figure
from harness.report.figures.dots import STEP
from harness.report.figures.names import counted, interval, number, on_axis
from harness.report.figures.rates import units
from harness.report.figures.runs import Runs, name_axis, specification
from harness.report.figures.scales import number_axis, number_scale
from harness.report.text import usd

PERCENTILES = (0, 1, *range(5, 100, 5), 99, 100)
"""Those that are drawn."""


def cost_figures(runs: Runs) -> Iterator[Figure]:
    """Those of latency, tokens and cost of which there is anything to show."""
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
    values, rows = [], []
    for run, latencies in timed.items():
        for percentile in PERCENTILES:
            seconds = latencies.quantiles[percentile]
            texts = {"at": f"{percentile}", "took": number(seconds)}
            values.append(
                {"name": run, "key": runs.keys[run], "seconds": seconds}
                | {"share": percentile / 100, **texts}
            )
            rows.append([run, *texts.values()])
    headings = ["run", "percentile", "seconds"]
    seconds = [one["seconds"] for one in values]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("seconds:Q", scale=number_scale(seconds), axis=number_axis(seconds, "seconds")),
        y=alt.Y(
            "share:Q",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(title="share of calls", format=".0%", tickCount=5),
        ),
        color=runs.colour(timed),
        order="share:Q",
        tooltip=_tooltip(["name", "at", "took"], headings),
    )
    line = base.mark_line(strokeWidth=2)
    mark = base.mark_point(filled=True, size=25, opacity=1).encode(shape=runs.shape(timed))
    n = {run: latencies.n for run, latencies in timed.items()}
    yield runs.figure(
        "latency",
        "How long calls took",
        "Lines: share of calls that took no longer; points: percentiles, joined by straight "
        "lines. Each call once, without those from the cache and failed ones. The unit is the "
        f"call. {counted(n, 'calls')}{_left_out(runs, 'timed')}",
        specification(alt.layer(line, mark).properties(width="container", height=220)),
        headings,
        rows,
        timed,
        section="cost",
    )


def _tokens(runs: Runs) -> Iterator[Figure]:
    counted = {
        runs.shown(run): run.metrics
        for run in runs.every
        if run.metrics.usage and run.metrics.n_calls
    }
    if not counted:
        return
    axis = on_axis(counted, runs.short)
    values, rows = [], []
    for run, metrics in counted.items():
        assert metrics.usage is not None
        of = metrics.n_calls - metrics.n_calls_without_usage
        for kind, tokens in (
            ("input", metrics.usage.input_tokens),
            ("output", metrics.usage.output_tokens),
        ):
            texts = {"count": f"{tokens:,}", "calls": f"{of:,} of {metrics.n_calls:,}"}
            values.append(
                {"row": axis[run], "run": run, "key": runs.keys[run], "kind": kind}
                | {"tokens": tokens, **texts}
            )
            rows.append([run, kind, *texts.values()])
    headings = ["run", "tokens", "count", "calls counted"]
    chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar(height={"band": 0.8})
        .encode(
            x=alt.X("tokens:Q", axis=alt.Axis(title="tokens", format="~s", tickCount=4)),
            y=alt.Y(
                "row:N",
                scale=alt.Scale(domain=list(axis.values())),
                axis=name_axis(),
            ),
            yOffset=alt.YOffset("kind:N", scale=alt.Scale(domain=["input", "output"])),
            color=runs.colour([]).legend(None),
            opacity=alt.Opacity(
                "kind:O",
                scale=alt.Scale(domain=["input", "output"], range=[0.5, 1]),
                legend=alt.Legend(title=None, symbolType="square", symbolFillColor="#808080"),
            ),
            tooltip=_tooltip(["run", "kind", "count", "calls"], headings),
        )
        .properties(width="container", height=alt.Step(step=STEP + 10, **{"for": "position"}))
    )
    yield runs.figure(
        "tokens",
        "Tokens",
        "Bars: tokens as the provider counted them, the pale ones of input; each call once, "
        "shared ones too, those from the cache included. Calls that were not counted are not in "
        "them. The unit is the call.",
        specification(chart),
        headings,
        rows,
        counted,
        section="cost",
    )


def _cost(runs: Runs) -> Iterator[Figure]:
    priced = [run for run in runs.every if run.metrics.cost_usd and not run.recorded]
    if len(priced) < 2:
        return
    values: list[dict[str, Any]] = []
    rows = []
    for run in priced:
        cost = run.metrics.cost_usd or 0.0
        part = runs.measured(run, last=True).get(())
        if part is None or part.mean is None:
            continue
        name = runs.shown(run)
        texts = [usd(cost), number(part.mean), interval(part.ci95), f"{part.n:,}"]
        low, high = part.ci95 or (None, None)
        values.append(
            {"name": name, "key": runs.keys[name], "cost": cost}
            | {"value": part.mean, "low": low, "high": high}
            | dict(zip(("sum", "figure", "between", "n"), texts, strict=True))
        )
        rows.append([name, *texts])
    if len(values) < 2:
        return
    value = f"{runs.what} of last rounds" if runs.several_rounds else runs.what
    headings = ["run", "cost", value, "95% interval", "samples"]
    costs = [one["cost"] for one in values]
    present = [one["name"] for one in values]
    fractions = all(0 <= one["value"] <= 1 for one in values)
    scale = alt.Scale(domain=[0, 1]) if fractions else alt.Scale(zero=False)
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("cost:Q", scale=number_scale(costs), axis=number_axis(costs, "cost, US dollars")),
        color=runs.colour(present),
        tooltip=_tooltip(["name", "sum", "figure", "between", "n"], headings),
    )
    bar = (
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.25)
        .encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    )
    mark = base.mark_point(filled=True, size=80, opacity=1).encode(
        y=alt.Y("value:Q", scale=scale, axis=alt.Axis(title=value, tickCount=5)),
        shape=runs.shape(present),
    )
    yield runs.figure(
        "cost_rate",
        f"Cost against {value}",
        f"Points: {value}, and what all calls of the run cost, each "
        f"once. Bars: 95% interval. {units()}{_left_out(runs, 'paid for')}",
        specification(alt.layer(bar, mark).properties(width="container", height=220)),
        headings,
        rows,
        present,
        section="cost",
    )


def _left_out(runs: Runs, of: str) -> str:
    recorded = [runs.shown(run) for run in runs.every if run.recorded]
    return f" Without {', '.join(recorded)}: recorded answers were not {of}." if recorded else ""


def _tooltip(fields: Sequence[str], titles: Sequence[str]) -> list[Any]:
    return [
        alt.Tooltip(f"{name}:N", title=title) for name, title in zip(fields, titles, strict=True)
    ]
