"""A paper's results table over several runs: a row per model and group, figures as columns.

A cell belongs to one run: the samples of several runs are never pooled. If several runs fill a
row, the row has no figure over all columns.

>>> table = cross_table(runs, {"concodeeval": TABLE}, TableOptions())  # doctest: +SKIP
>>> [column.group for column in table.columns][:4]  # doctest: +SKIP
['json', 'xml', 'yaml', None]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import Struct

from harness.analysis.comparable import Run, Variant, differing, refuse_unknown_round, section_of
from harness.analysis.table_layout import (
    FilledRun,
    Layout,
    Place,
    TableOptions,
    fill,
    layout,
    row_settings,
)
from harness.errors import ConfigError
from harness.ports import PaperTable


class ShownFigure(Struct, frozen=True, kw_only=True):
    """A figure of the table: a `harness.ports.TableFigure` of a task's runs.

    Attributes:
        name: Includes the task if two tasks have figures of one name.
        fraction: Whether all of its values are between 0 and 1, and shown in per cent.
    """

    name: str
    task: str
    of: str
    score: str
    label: str
    fraction: bool


class TableColumn(Struct, frozen=True, kw_only=True):
    """A figure (its index in `CrossTable.figures`) for one group; null means all groups."""

    figure: int
    group: str | None


class TableCell(Struct, frozen=True, kw_only=True):
    """The value of a figure for a group of a run's n samples; null if undefined."""

    value: float | None
    stderr: float | None
    ci95: tuple[float, float] | None
    n: int
    n_clusters: int
    not_measured: int


class TableRow(Struct, frozen=True, kw_only=True):
    """A row: a model, the settings that tell its runs apart, and a group of the rows' label.

    Marks (SIMULATED, INCOMPLETE) name their run unless they apply to all. Cells are by column;
    null where no run has it.
    """

    model: str
    settings: dict[str, str]
    group: str
    runs: list[str]
    marks: list[str]
    cells: list[TableCell | None]


class CrossTable(Struct, frozen=True, kw_only=True):
    """The table; labels are empty for none, and a null round is each sample's last.

    Sources are the papers that define the figures. Notes say what is missing, and what the runs
    differ in.
    """

    tasks: list[str]
    row_label: str
    column_label: str
    round: int | None
    figures: list[ShownFigure]
    columns: list[TableColumn]
    rows: list[TableRow]
    sources: list[str]
    notes: list[str]


def cross_table(
    runs: Sequence[Run], tables: Mapping[str, PaperTable], options: TableOptions
) -> CrossTable:
    """Make the table of runs, of one task or of several, given the table of each task's paper.

    Raises:
        ConfigError: An option is not valid.
        RunConflict: Figures of different data would stand side by side.
    """
    begun = [(variant, table) for variant, table in runs if len(table)]
    if not begun:
        raise ConfigError("None of the runs has an attempt.", "Run their run files again.")
    refuse_unknown_round([table for _, table in begun], options.round)
    plan = layout(begun, tables, options)
    filled = [fill(variant, table, plan, options.round) for variant, table in begun]
    named = row_settings(filled, plan)
    figures = _figures(filled, plan)
    columns, rows, shared = _rows(filled, named, list(figures))
    notes = [f"The run {v.name!r} has no attempts." for v, table in runs if not len(table)]
    if shared:
        notes.append("Rows that several runs fill have no figure over all columns.")
    if "run" in named[0]:
        notes.append("Runs with the same settings are told apart by their names.")
    every = dict.fromkeys(figure.name for _, figure in plan.figures)
    present = {plan.figures[number][1].name for number in figures}
    if absent := [repr(name) for name in every if name not in present]:
        notes.append(f"No run has {', '.join(absent)}.")
    notes += [
        f"{one.outside:,} samples of {one.variant.name!r} have no {plan.rows!r}, and are in no row."
        for one in filled
        if one.outside
    ]
    found = list(figures.values())
    notes += _undefined(found, columns, rows)
    notes += _differences(filled, {"model.name", *map(section_of, named[0])})
    return CrossTable(
        tasks=list(dict.fromkeys(variant.metrics.task for variant, _ in begun)),
        row_label=plan.rows,
        column_label=plan.columns,
        round=options.round,
        figures=found,
        columns=columns,
        rows=rows,
        sources=plan.sources,
        notes=list(dict.fromkeys(notes)),
    )


def _figures(filled: Sequence[FilledRun], plan: Layout) -> dict[int, ShownFigure]:
    """Return the figures that any run has, by their index in the layout."""
    present = sorted({place.figure for one in filled for place in one.cells})
    names = [plan.figures[number][1].name for number in present]
    return {
        number: ShownFigure(
            name=name if names.count(name) == 1 else f"{plan.figures[number][0]} {name}",
            task=plan.figures[number][0],
            of=plan.figures[number][1].of,
            score=plan.figures[number][1].score,
            label=plan.figures[number][1].label,
            fraction=all(one.fractions.get(number, True) for one in filled),
        )
        for number, name in zip(present, names, strict=True)
    }


def _rows(
    filled: Sequence[FilledRun], named: Sequence[dict[str, str]], figures: Sequence[int]
) -> tuple[list[TableColumn], list[TableRow], bool]:
    """Return the columns and rows, and whether several runs fill one row."""
    cells: dict[tuple[str, tuple[str, ...], str], dict[Place, TableCell | None]] = {}
    owners: dict[tuple[str, tuple[str, ...], str], dict[int, Variant]] = {}
    for run, (one, settings) in enumerate(zip(filled, named, strict=True)):
        for place, found in one.cells.items():
            key = one.model, tuple(settings.values()), place.group
            row, anywhere = cells.setdefault(key, {}), place._replace(group="")
            cell = TableCell(
                value=found.mean,
                stderr=found.stderr,
                ci95=found.ci95,
                n=found.n,
                n_clusters=found.n_clusters,
                not_measured=found.missing,
            )
            row[anywhere] = None if anywhere in row else cell  # over all columns, of two runs
            owners.setdefault(key, {})[run] = one.variant
    columns, places = [], []
    for number, figure in enumerate(figures):
        whole = Place(figure, "", None)
        groups = {place.column for row in cells.values() for place in row if place.figure == figure}
        inner = sorted(group for group in groups if group is not None)
        over_all = [row.get(whole) for row in cells.values()]
        if len(inner) == 1:  # the column over all groups would repeat the only group's
            first = [row.get(whole._replace(column=inner[0])) for row in cells.values()]
            over_all = [] if first == over_all else over_all
        for group in [*inner, *([None] if any(over_all) or not inner else [])]:
            columns.append(TableColumn(figure=number, group=group))
            places.append(whole._replace(column=group))
    models = list(dict.fromkeys(model for model, *_ in cells))
    sections = list(dict.fromkeys(key[:2] for key in cells))
    rows = [
        TableRow(
            model=key[0],
            settings=named[next(iter(owners[key]))],
            group=key[2],
            runs=[variant.name for variant in owners[key].values()],
            marks=_marks(list(owners[key].values())),
            cells=[cells[key].get(place) for place in places],
        )
        for key in sorted(cells, key=lambda k: (models.index(k[0]), sections.index(k[:2]), k[2]))
    ]
    return columns, rows, any(cell is None for row in cells.values() for cell in row.values())


def _marks(variants: Sequence[Variant]) -> list[str]:
    """Return the marks of a row's runs; marks not shared by all include the run's name."""
    marks: dict[str, None] = {}
    for variant in variants:
        for mark in variant.marks:
            shared = all(mark in other.marks for other in variants)
            marks[mark if shared else f"{variant.name}: {mark}"] = None
    return list(marks)


def _undefined(
    figures: Sequence[ShownFigure], columns: Sequence[TableColumn], rows: Sequence[TableRow]
) -> Iterator[str]:
    for number, figure in enumerate(figures):
        undefined = sum(
            cell is not None and cell.value is None and cell.n > 0
            for row in rows
            for cell, column in zip(row.cells, columns, strict=True)
            if column.figure == number
        )
        if figure.of == "macro_f1" and undefined:
            yield (
                f"{undefined} cells have no {figure.name}: one of its two classes never occurs "
                "there."
            )


def _differences(filled: Sequence[FilledRun], shown: set[str]) -> Iterator[str]:
    """Yield what the runs of each task differ in, apart from settings that are shown."""
    by_task: dict[str, list[Variant]] = {}
    for one in filled:
        hidden = {key: value for key, value in one.variant.settings.items() if key not in shown}
        variant = replace(one.variant, settings=hidden)
        by_task.setdefault(variant.metrics.task, []).append(variant)
    for variants in by_task.values():
        yield from differing(variants[0], variants[1:])
