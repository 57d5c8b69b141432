"""Runs against groups as coloured cells, and groups of one label against those of another.

Owns that a cell without a figure is empty: it has an outline and a dash, and no colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from harness.analysis.clustered import SampleStatistic
from harness.report.figure import Figure
from harness.report.figures.names import counted, interval, natural, number, on_axis, shown, slug
from harness.report.figures.rates import by_group, labels, largest, tells, units
from harness.report.figures.runs import Runs, name_axis, specification
from harness.report.figures.theme import LIGHT_INK_BELOW, RAMP
from harness.report.text import UNKNOWN, printable

MOST_COLUMNS = 20
"""Columns in which a figure can be read on a small screen."""

_ROOMY = 10

MOST_OF_SECOND = 12
MOST_OF_FIRST = 60


@dataclass(frozen=True, slots=True)
class Cell:
    """A run's figure; part is None where it has no samples there."""

    row: str
    column: str
    run: str
    part: SampleStatistic | None


def heat_map_figures(runs: Runs) -> Iterator[Figure]:
    """Runs by the first label's groups, and that label's by a second's where they are few."""
    several = [label for label in labels(runs) if tells(by_group(runs, label))]
    if several and len(runs.every) > 1:
        yield from _by_run(runs, several[0])
    if len(several) > 1:
        yield from _by_two(runs, several[0], several[1])


def _by_run(runs: Runs, label: str) -> Iterator[Figure]:
    measured = by_group(runs, label)
    groups, of = largest(measured)
    names = shown(groups)
    cells = [
        Cell(run, names[group], run, found.get(group))
        for run, found in measured.items()
        for group in groups
    ]
    only = f" The {len(groups)} largest of {of:,} groups." if of > len(groups) else ""
    yield _figure(
        runs,
        cells,
        ("run", printable(label)),
        (list(measured), list(names.values())),
        name=f"heat_map_{slug(label)}",
        title=runs.titled(f"{runs.what} by run and {printable(label)}"),
        short=runs.short,
        only=only,
    )


def _by_two(runs: Runs, first: str, second: str) -> Iterator[Figure]:
    measured = {runs.shown(run): runs.measured(run, first, second) for run in runs.every}
    measured = {run: found for run, found in measured.items() if found}
    keys = {key for found in measured.values() for key in found}
    columns, rows = (sorted({key[i] for key in keys}, key=natural) for i in (0, 1))
    if not (1 < len(columns) <= MOST_OF_FIRST and 1 < len(rows) <= MOST_OF_SECOND):
        return
    if len(keys) == max(len(columns), len(rows)):
        return  # one label is but a coarser form of the other
    of_column, of_row = shown(columns), shown(rows)
    alone = len(measured) == 1
    named = {
        (row, run): of_row[row] if alone else f"{of_row[row]}, {run}"
        for row in rows
        for run in measured
    }
    unlike = shown(named.values())
    cells = [
        Cell(unlike[name], of_column[column], run, measured[run].get((column, row)))
        for (row, run), name in named.items()
        for column in columns
    ]
    yield _figure(
        runs,
        cells,
        (printable(second) if alone else f"{printable(second)}, run", printable(first)),
        (list(unlike.values()), list(of_column.values())),
        name=f"heat_map_{slug(first)}_{slug(second)}",
        title=runs.titled(f"{runs.what} by {printable(first)} and {printable(second)}"),
        short={
            unlike[name]: of_row[row] if alone else f"{of_row[row]}, {runs.short[run]}"
            for (row, run), name in named.items()
        },
    )


def _figure(
    runs: Runs,
    cells: Sequence[Cell],
    headings: tuple[str, str],
    names: tuple[Sequence[str], Sequence[str]],
    *,
    name: str,
    title: str,
    short: Mapping[str, str],
    only: str = "",
) -> Figure:
    values = [cell.part.mean for cell in cells if cell.part and cell.part.mean is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    hundredths = (low, high) == (0.0, 1.0)
    present = {cell.run for cell in cells}
    said = f"{runs.what} of {runs.which_answers}" + (", x 100" if hundredths else "")
    n = {run: sum(c.part.n for c in cells if c.run == run and c.part) for run in sorted(present)}
    return runs.figure(
        name,
        title,
        f"Cells: {said}, the brighter the more. A dash on no colour: no answers, which is not 0. "
        f"{counted(n, 'samples')} Each cell's n and 95% interval are in its tooltip and in the "
        f"table.{only} {units()}",
        _chart(runs, cells, headings, names, (low, high), short),
        [*headings, runs.value, "95% interval", "samples", "units"],
        [[cell.row, cell.column, *_texts(cell)] for cell in cells],
        present,
    )


def _texts(cell: Cell) -> list[str]:
    part = cell.part
    if part is None:
        return [UNKNOWN, UNKNOWN, "0", "0"]
    return [number(part.mean), interval(part.ci95), f"{part.n:,}", f"{part.n_clusters:,}"]


def _chart(
    runs: Runs,
    cells: Sequence[Cell],
    headings: tuple[str, str],
    names: tuple[Sequence[str], Sequence[str]],
    bounds: tuple[float, float],
    short: Mapping[str, str],
) -> dict[str, Any]:
    rows, columns = on_axis(names[0], short), on_axis(names[1])
    across = len(columns) <= MOST_COLUMNS or len(columns) <= len(rows)
    sides = (("row", rows, headings[0]), ("column", columns, headings[1]))
    (y, of_y, _), (x, of_x, _) = sides if across else sides[::-1]
    titles = [*headings, runs.value, "95% interval", "samples", "units"]
    fields = ["name", "of", "figure", "between", "n", "units"]
    values = [_datum(cell, rows, columns, bounds) for cell in cells]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X(
            f"{x}:N",
            scale=alt.Scale(domain=list(of_x.values())),
            axis=name_axis(orient="top", labelAngle=-90, labelPadding=3, grid=False),
        ),
        y=alt.Y(
            f"{y}:N",
            scale=alt.Scale(domain=list(of_y.values())),
            axis=name_axis(labelPadding=3, grid=False),
        ),
        tooltip=[
            alt.Tooltip(f"{name}:N", title=title)
            for name, title in zip(fields, titles, strict=True)
        ],
    )
    scale = alt.Scale(domain=list(bounds), range=list(RAMP))
    legend = alt.Legend(title=runs.value, format="~g", gradientLength=160, gradientThickness=10)
    known = base.transform_filter("isValid(datum.value)")
    filled = known.mark_rect().encode(color=alt.Color("value:Q", scale=scale, legend=legend))
    # Under the tooltip of an empty cell there must be a mark.
    empty = base.transform_filter("!isValid(datum.value)").mark_rect(
        fillOpacity=0, stroke="#8a8f98", strokeWidth=0.5, strokeOpacity=0.6
    )
    dash = base.transform_filter("!isValid(datum.value)").mark_text(text="\u2013", opacity=0.7)
    layers: list[Any] = [filled, empty, dash]
    if len(of_x) <= MOST_COLUMNS:
        ink = alt.condition("datum.pale", alt.value("#111111"), alt.value("#ffffff"))
        layers.append(
            known.mark_text(fontSize=9.5 if len(of_x) <= _ROOMY else 8.5).encode(
                text="short:N", color=ink
            )
        )
    picture = alt.layer(*layers).properties(width="container", height=alt.Step(step=24))
    return specification(picture)


def _datum(
    cell: Cell,
    rows: dict[str, str],
    columns: dict[str, str],
    bounds: tuple[float, float],
) -> dict[str, Any]:
    figure, between, n, units_ = _texts(cell)
    value = cell.part.mean if cell.part else None
    low, high = bounds
    share = None if value is None else (value - low) / (high - low) if high > low else 1.0
    short = ""
    if value is not None:
        short = f"{100 * value:.0f}" if bounds == (0.0, 1.0) else f"{value:.2g}"
    return {
        "row": rows[cell.row],
        "column": columns[cell.column],
        "name": cell.row,
        "of": cell.column,
        "value": value,
        "pale": share is not None and share >= LIGHT_INK_BELOW,
        "short": short,
        "figure": figure,
        "between": between,
        "n": n,
        "units": units_,
    }
