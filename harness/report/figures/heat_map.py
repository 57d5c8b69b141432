"""Heat maps: runs by groups, and groups of one label by those of another.

A cell without a value is empty: it has an outline and a dash, and no colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.clustered import SampleStatistic
from harness.report.figures.figure import LIGHT_INK_BELOW, RAMP, Figure
from harness.report.figures.groups import UNITS, by_group, has_several, labels, largest, only
from harness.report.figures.names import counted, interval, natural, number, on_axis, shown, slug
from harness.report.figures.runs import (
    Drawn,
    Runs,
    Sheet,
    alt,
    known,
    name_axis,
    specification,
    unknown,
)
from harness.report.text import UNKNOWN, printable

MOST_COLUMNS = 20
"""Columns whose numbers can be read on a small screen."""
MOST_OF_SECOND = 12
MOST_OF_FIRST = 60

_ROOMY = 10


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A cell of a heat map: a run's value.

    Attributes:
        part: None if the run has no samples there.
    """

    row: str
    column: str
    run: str
    part: SampleStatistic | None


@dataclass(frozen=True, slots=True)
class _Map:
    """A heat map before it is drawn.

    Attributes:
        headings: Headings of rows and columns.
        rows: Shown names; so are ``columns``.
        short: Axis labels that replace row names.
        only: A sentence on what was omitted.
    """

    name: str
    title: str
    headings: tuple[str, str]
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[HeatCell]
    short: Mapping[str, str]
    only: str = ""


def heat_map_figures(runs: Runs) -> Iterator[Figure]:
    """Draw runs by the first label's groups, and these by a second label's if there are few."""
    several = [label for label in labels(runs) if has_several(by_group(runs, label))]
    if several and len(runs.every) > 1:
        yield _figure(runs, _by_run(runs, several[0]))
    if len(several) > 1:
        yield from (_figure(runs, one) for one in _by_two(runs, several[0], several[1]))


def _by_run(runs: Runs, label: str) -> _Map:
    measured = by_group(runs, label)
    groups, of = largest(measured)
    names = shown(groups)
    return _Map(
        name=f"heat_map_{slug(label)}",
        title=runs.titled(f"{runs.what} by run and {printable(label)}"),
        headings=("run", printable(label)),
        rows=list(measured),
        columns=list(names.values()),
        cells=[
            HeatCell(run, names[group], run, found.get(group))
            for run, found in measured.items()
            for group in groups
        ],
        short=runs.short,
        only=only(len(groups), of),
    )


def _by_two(runs: Runs, first: str, second: str) -> Iterator[_Map]:
    measured = {runs.shown(run): runs.measured(run, first, second) for run in runs.every}
    measured = {run: found for run, found in measured.items() if found}
    keys = {key for found in measured.values() for key in found}
    columns, rows = (sorted({key[i] for key in keys}, key=natural) for i in (0, 1))
    if not (1 < len(columns) <= MOST_OF_FIRST and 1 < len(rows) <= MOST_OF_SECOND):
        return
    if len(keys) == max(len(columns), len(rows)):
        return  # one label is only a coarser form of the other
    of_column, of_row = shown(columns), shown(rows)
    alone = len(measured) == 1
    named = {
        (row, run): of_row[row] if alone else f"{of_row[row]}, {run}"
        for row in rows
        for run in measured
    }
    distinct = shown(named.values())
    yield _Map(
        name=f"heat_map_{slug(first)}_{slug(second)}",
        title=runs.titled(f"{runs.what} by {printable(first)} and {printable(second)}"),
        headings=(printable(second) if alone else f"{printable(second)}, run", printable(first)),
        rows=list(distinct.values()),
        columns=list(of_column.values()),
        cells=[
            HeatCell(distinct[name], of_column[column], run, measured[run].get((column, row)))
            for (row, run), name in named.items()
            for column in columns
        ],
        short={
            distinct[name]: of_row[row] if alone else f"{of_row[row]}, {runs.short[run]}"
            for (row, run), name in named.items()
        },
    )


def _figure(runs: Runs, found: _Map) -> Figure:
    cells = found.cells
    values = [cell.part.mean for cell in cells if cell.part and cell.part.mean is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    present = sorted({cell.run for cell in cells})
    n = {run: sum(c.part.n for c in cells if c.run == run and c.part) for run in present}
    hundredths = ", x 100" if (low, high) == (0.0, 1.0) else ""
    caption = (
        f"Cells: {runs.what} of {runs.which_answers}{hundredths}, the brighter the more. A dash "
        f"without colour: no answers, which is not 0. {counted(n, 'samples')} Each cell's n and "
        f"95% interval are in its tooltip and in the table.{found.only} {UNITS}"
    )
    chart, sheet = _chart(runs, found, (low, high))
    return runs.figure(Drawn(found.name, found.title, caption, chart, sheet), present)


def _chart(runs: Runs, found: _Map, bounds: tuple[float, float]) -> tuple[dict[str, Any], Sheet]:
    rows, columns = on_axis(found.rows, found.short), on_axis(found.columns)
    across = len(columns) <= MOST_COLUMNS or len(columns) <= len(rows)
    sides = (("row", rows), ("column", columns))
    (y, of_y), (x, of_x) = sides if across else sides[::-1]
    sheet = Sheet(*found.headings, runs.value, "95% interval", "samples", "units")
    for cell in found.cells:
        part, texts = cell.part, [UNKNOWN, UNKNOWN, "0", "0"]
        if part is not None:
            texts = [number(part.mean), interval(part.ci95), f"{part.n:,}", f"{part.n_clusters:,}"]
        sheet.add(
            [cell.row, cell.column, *texts],
            row=rows[cell.row],
            column=columns[cell.column],
            **_painted(part.mean if part else None, bounds),
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


def _painted(value: float | None, bounds: tuple[float, float]) -> dict[str, Any]:
    """Return a value as fields of a datum, with its short text and whether its cell is pale."""
    if value is None:
        return {"value": None, "pale": False, "short": ""}
    low, high = bounds
    share = (value - low) / (high - low) if high > low else 1.0
    short = f"{100 * value:.0f}" if bounds == (0.0, 1.0) else f"{value:.2g}"
    return {"value": value, "pale": share >= LIGHT_INK_BELOW, "short": short}
