"""Heat maps: runs by groups, and groups of one label by those of another.

A cell without a value is empty: it has an outline and a dash, and no colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.analysis.clustered import SampleStatistic
from harness.report.figure import LIGHT_INK_BELOW, RAMP, Figure
from harness.report.figures.names import counted, interval, natural, number, on_axis, shown, slug
from harness.report.figures.plot import (
    UNITS,
    Runs,
    Sheet,
    alt,
    known,
    name_axis,
    specification,
    unknown,
)
from harness.report.figures.rates import by_group, has_several, labels, largest
from harness.report.text import UNKNOWN, printable

MOST_COLUMNS = 20
"""Columns whose numbers can be read on a small screen."""
MOST_OF_SECOND = 12
MOST_OF_FIRST = 60
_ROOMY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Map:
    """A heat map before it is drawn.

    Attributes:
        labels: What its cells are grouped by, columns first.
        cells: Row, column, run, and the run's value there, if it has samples.
        short: Axis labels that replace row names.
    """

    labels: Sequence[str]
    row: str
    cells: Sequence[tuple[str, str, str, SampleStatistic | None]]
    short: Mapping[str, str] = field(default_factory=dict)
    only: str = ""


def heat_map_figures(runs: Runs) -> Iterator[Figure]:
    """Draw runs by the first label's groups, and these by a second label's if there are few."""
    several = [label for label in labels(runs) if has_several(by_group(runs, label))]
    if several and len(runs.every) > 1:
        label = several[0]
        measured = by_group(runs, label)
        groups, only = largest(measured)
        names = shown(groups)
        cells = [
            (run, names[group], run, found.get(group))
            for run, found in measured.items()
            for group in groups
        ]
        yield _figure(
            runs, _Map(labels=[label], row="run", cells=cells, short=runs.short, only=only)
        )
    if len(several) > 1:
        yield from _by_two(runs, several[0], several[1])


def _by_two(runs: Runs, first: str, second: str) -> Iterator[Figure]:
    measured = {runs.shown(run): runs.measured(run, first, second) for run in runs.every}
    measured = {run: found for run, found in measured.items() if found}
    keys = {key for found in measured.values() for key in found}
    columns, rows = (sorted({key[i] for key in keys}, key=natural) for i in (0, 1))
    if not (1 < len(columns) <= MOST_OF_FIRST and 1 < len(rows) <= MOST_OF_SECOND):
        return
    if len(keys) == max(len(columns), len(rows)):
        return  # one label is only a coarser form of the other
    alone = len(measured) == 1
    of_column, of_row = shown(columns), shown(rows)
    places = [(row, run) for row in rows for run in measured]
    names = shown(of_row[row] if alone else f"{of_row[row]}, {run}" for row, run in places)
    distinct = dict(zip(places, names.values(), strict=True))
    yield _figure(
        runs,
        _Map(
            labels=[first, second],
            row=printable(second) if alone else f"{printable(second)}, run",
            cells=[
                (name, of_column[column], run, measured[run].get((column, row)))
                for (row, run), name in distinct.items()
                for column in columns
            ],
            short={}
            if alone
            else {
                name: f"{of_row[row]}, {runs.short[run]}" for (row, run), name in distinct.items()
            },
        ),
    )


def _figure(runs: Runs, found: _Map) -> Figure:
    values = [part.mean for *_, part in found.cells if part and part.mean is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    n: dict[str, int] = {}
    for *_, run, part in sorted(found.cells, key=lambda cell: cell[2]):
        n[run] = n.get(run, 0) + (part.n if part else 0)
    hundredths = ", x 100" if (low, high) == (0.0, 1.0) else ""
    caption = (
        f"Cells: {runs.what} of {runs.which_answers}{hundredths}, the brighter the more. A dash "
        f"without colour: no answers, which is not 0. {counted(n, 'samples')} Each cell's n and "
        f"95% interval are in its tooltip and in the table.{found.only} {UNITS}"
    )
    by = ["run"] * (len(found.labels) == 1) + [printable(label) for label in found.labels]
    chart, sheet = _chart(runs, found, (low, high))
    return sheet.figure(
        f"heat_map_{'_'.join(map(slug, found.labels))}",
        runs.titled(f"{runs.what} by {' and '.join(by)}"),
        caption,
        chart,
    )


def _chart(runs: Runs, found: _Map, bounds: tuple[float, float]) -> tuple[dict[str, Any], Sheet]:
    rows = on_axis([row for row, *_ in found.cells], found.short)
    columns = on_axis([column for _, column, *_ in found.cells])
    across = len(columns) <= MOST_COLUMNS or len(columns) <= len(rows)
    sides = (("row", rows), ("column", columns))
    (y, of_y), (x, of_x) = sides if across else sides[::-1]
    column_heading = printable(found.labels[0])
    sheet = Sheet(runs, found.row, column_heading, runs.value, "95% interval", "samples", "units")
    low, high = bounds
    for row, column, run, part in found.cells:
        texts, value = [UNKNOWN, UNKNOWN, "0", "0"], part.mean if part else None
        if part is not None:
            texts = [number(value), interval(part.ci95), f"{part.n:,}", f"{part.n_clusters:,}"]
        share = 1.0 if value is None or high == low else (value - low) / (high - low)
        form = f"{100 * (value or 0):.0f}" if bounds == (0.0, 1.0) else f"{value or 0:.2g}"
        sheet.add(
            run,
            [row, column, *texts],
            row=rows[row],
            column=columns[column],
            value=value,
            pale=share >= LIGHT_INK_BELOW,
            short=form,
        )
    across_axis = name_axis(orient="top", labelAngle=-90, labelPadding=3, grid=False)
    base = sheet.base().encode(
        x=alt.X(f"{x}:N", scale=alt.Scale(domain=list(of_x.values())), axis=across_axis),
        y=alt.Y(
            f"{y}:N",
            scale=alt.Scale(domain=list(of_y.values())),
            axis=name_axis(labelPadding=3, grid=False),
        ),
    )
    scale = alt.Scale(domain=list(bounds), range=list(RAMP))
    legend = alt.Legend(title=runs.value, format="~g", gradientLength=160, gradientThickness=10)
    # An empty cell needs a mark under its tooltip.
    outline: dict[str, Any] = {"stroke": "#8a8f98", "strokeWidth": 0.5, "strokeOpacity": 0.6}
    layers: list[Any] = [
        known(base).mark_rect().encode(color=alt.Color("value:Q", scale=scale, legend=legend)),
        unknown(base).mark_rect(fillOpacity=0, **outline),
        unknown(base).mark_text(text="\u2013", opacity=0.7),
    ]
    if len(of_x) <= MOST_COLUMNS:
        ink = alt.condition("datum.pale", alt.value("#111111"), alt.value("#ffffff"))
        text = known(base).mark_text(fontSize=9.5 if len(of_x) <= _ROOMY else 8.5)
        layers.append(text.encode(text="short:N", color=ink))
    return specification(*layers, height=alt.Step(step=24)), sheet
