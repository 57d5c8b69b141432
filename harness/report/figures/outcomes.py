"""What became of the attempts: the six outcomes."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from harness.records import OUTCOMES
from harness.report.figure import Figure
from harness.report.figures.dots import STEP
from harness.report.figures.names import counted, on_axis
from harness.report.figures.runs import Runs, name_axis, specification


def outcome_figures(runs: Runs) -> Iterator[Figure]:
    """Bars of shares; none where no run has an attempt."""
    begun = [run for run in runs.every if run.metrics.n_attempts]
    if not begun:
        return
    names = [runs.shown(run) for run in begun]
    axis = on_axis(names, runs.short)
    rows, values = [], []
    for run in begun:
        start = 0.0
        for outcome in OUTCOMES:
            count = run.metrics.outcomes.get(outcome, 0)
            share = count / run.metrics.n_attempts
            name = runs.shown(run)
            rows.append([name, outcome, f"{count:,}", f"{share:.1%}"])
            values.append(
                {"row": axis[name], "run": name, "outcome": outcome, "start": start}
                | {"end": start + share, "count": f"{count:,}", "share": f"{share:.1%}"}
            )
            start += share
    headings = ["run", "outcome", "attempts", "share"]
    fields = ["run", "outcome", "count", "share"]
    chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar(height={"band": 0.7})
        .encode(
            x=alt.X(
                "start:Q",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(title="share of attempts", format=".0%", tickCount=5),
            ),
            x2="end:Q",
            y=alt.Y(
                "row:N",
                scale=alt.Scale(domain=list(axis.values())),
                axis=name_axis(),
            ),
            color=alt.Color(
                "outcome:N",
                scale=alt.Scale(domain=list(OUTCOMES), range="ordinal"),
                legend=alt.Legend(title=None, columns=3, symbolType="square"),
            ),
            tooltip=[
                alt.Tooltip(f"{field}:N", title=title)
                for field, title in zip(fields, headings, strict=True)
            ],
        )
        .properties(width="container", height=alt.Step(step=STEP + 6))
    )
    n = {runs.shown(run): run.metrics.n_attempts for run in begun}
    later = " of all rounds" if runs.several_rounds else ""
    yield runs.figure(
        "outcomes",
        "Outcomes of attempts",
        f"Bars: share of attempts{later} by outcome. An error is the infrastructure's and has no "
        "verdict; a refused, empty or unparseable answer fails. The unit is the attempt. "
        + counted(n, "attempts"),
        specification(chart),
        headings,
        rows,
        names,
        section="outcomes",
    )
