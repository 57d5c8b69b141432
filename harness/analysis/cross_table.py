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

from harness.analysis.clustered import SampleStatistic
from harness.analysis.comparable import (
    Run,
    Variant,
    differing,
    refuse_unknown_round,
    section_of,
)
from harness.analysis.table_layout import (
    FilledRun,
    Layout,
    Place,
    RowSettings,
    TableOptions,
    fill,
    layout,
    refuse_other_data,
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
    """A figure in one group of the columns' label.

    Attributes:
        figure: Index in `CrossTable.figures`.
        group: The group; null for the column over all groups.
    """

    figure: int
    group: str | None


class TableCell(Struct, frozen=True, kw_only=True):
    """The value of a figure for a group of a run's samples.

    Attributes:
        value: Null if undefined.
        n: Number of samples.
        not_measured: Samples without a value.
    """

    value: float | None
    stderr: float | None
    ci95: tuple[float, float] | None
    n: int
    n_clusters: int
    not_measured: int


class TableRow(Struct, frozen=True, kw_only=True):
    """A row: a model, the settings that tell its runs apart, and a group of the rows' label.

    Attributes:
        group: Empty without a label.
        runs: The runs whose figures are in the cells.
        marks: Warnings about them (SIMULATED, INCOMPLETE), with the run's name if not about all.
        cells: By column; null where no run has it.
    """

    model: str
    settings: dict[str, str]
    group: str
    runs: list[str]
    marks: list[str]
    cells: list[TableCell | None]


class CrossTable(Struct, frozen=True, kw_only=True):
    """The table.

    Attributes:
        row_label, column_label: Empty for none.
        round: Each sample's last round up to this one counts; null for the last.
        sources: The papers that define the figures.
        notes: Sentences on what is missing, and on what the runs differ in.
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
    """Make the table of runs, of one task or of several.

    Args:
        runs: One run or more.
        tables: The table of each task's paper, if it has one.
        options: What to show.

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
    refuse_other_data(filled, plan.rows)
    figures = _figures(filled, plan)
    named = row_settings(filled)
    columns, rows, shared = _table(filled, figures, named)
    notes = [f"The run {v.name!r} has no attempts." for v, table in runs if not len(table)]
    if shared:
        notes.append("Rows that several runs fill have no figure over all columns.")
    if named.runs:
        notes.append("Runs with the same settings are told apart by their names.")
    notes += _notes(filled, plan, figures, columns, rows)
    notes += _differences(filled, named)
    return CrossTable(
        tasks=list(dict.fromkeys(variant.metrics.task for variant, _ in begun)),
        row_label=plan.rows,
        column_label=plan.columns,
        round=options.round,
        figures=list(figures.values()),
        columns=columns,
        rows=rows,
        sources=plan.sources,
        notes=list(dict.fromkeys(notes)),
    )


def _figures(filled: Sequence[FilledRun], plan: Layout) -> dict[tuple[str, str], ShownFigure]:
    """Return the figures that any run has, by task and name."""
    present = {
        (task, figure.name): figure
        for task, figures in plan.figures.items()
        for figure in figures
        if any((task, figure.name) == place[:2] for one in filled for place in one.cells)
    }
    names = [name for _, name in present]
    return {
        (task, name): ShownFigure(
            name=name if names.count(name) == 1 else f"{task} {name}",
            task=task,
            of=figure.of,
            score=figure.score,
            label=figure.label,
            fraction=all(
                one.fractions.get(name, True) for one in filled if one.variant.metrics.task == task
            ),
        )
        for (task, name), figure in present.items()
    }


def _table(
    filled: Sequence[FilledRun], figures: Mapping[tuple[str, str], ShownFigure], named: RowSettings
) -> tuple[list[TableColumn], list[TableRow], bool]:
    """Build the columns and rows.

    Returns:
        The columns; the rows; and whether several runs fill one row, which then has no cell over
        all columns.
    """
    cells: dict[tuple[str, tuple[str, ...], str], dict[Place, SampleStatistic | None]] = {}
    owners: dict[tuple[str, tuple[str, ...], str], list[FilledRun]] = {}
    for one in filled:
        settings = tuple(named.of(one).values())
        for (task, name, group, column), cell in one.cells.items():
            key = one.model, settings, group
            row = cells.setdefault(key, {})
            place = task, name, "", column
            row[place] = None if place in row else cell  # over all columns, of two runs
            found = owners.setdefault(key, [])
            if not any(one is other for other in found):
                found.append(one)
    columns, places = [], []
    for number, (task, name) in enumerate(figures):
        groups = {p[3] for row in cells.values() for p in row if p[:2] == (task, name)}
        inner = sorted(group for group in groups if group is not None)
        over_all = [row.get((task, name, "", None)) for row in cells.values()]
        if len(inner) == 1:  # the column over all groups would repeat the only group's
            first = [row.get((task, name, "", inner[0])) for row in cells.values()]
            over_all = [] if first == over_all else over_all
        shown = [*inner, *([None] if any(over_all) or not inner else [])]
        columns += [TableColumn(figure=number, group=group) for group in shown]
        places += [(task, name, "", group) for group in shown]
    models = list(dict.fromkeys(model for model, *_ in cells))
    sections = list(dict.fromkeys(key[:2] for key in cells))
    order = sorted(cells, key=lambda k: (models.index(k[0]), sections.index(k[:2]), k[2]))
    rows = [
        TableRow(
            model=key[0],
            settings=named.of(owners[key][0]),
            group=key[2],
            runs=[owner.variant.name for owner in owners[key]],
            marks=_marks([owner.variant for owner in owners[key]]),
            cells=[_cell(cells[key].get(place)) for place in places],
        )
        for key in order
    ]
    return columns, rows, any(cell is None for row in cells.values() for cell in row.values())


def _cell(found: SampleStatistic | None) -> TableCell | None:
    if found is None:
        return None
    return TableCell(
        value=found.mean,
        stderr=found.stderr,
        ci95=found.ci95,
        n=found.n,
        n_clusters=found.n_clusters,
        not_measured=found.missing,
    )


def _marks(variants: Sequence[Variant]) -> list[str]:
    """Return the marks of a row's runs; marks not shared by all include the run's name."""
    marks: dict[str, None] = {}
    for variant in variants:
        for mark in variant.marks:
            shared = all(mark in other.marks for other in variants)
            marks[mark if shared else f"{variant.name}: {mark}"] = None
    return list(marks)


def _notes(
    filled: Sequence[FilledRun],
    plan: Layout,
    figures: Mapping[tuple[str, str], ShownFigure],
    columns: Sequence[TableColumn],
    rows: Sequence[TableRow],
) -> Iterator[str]:
    every = dict.fromkeys(figure.name for found in plan.figures.values() for figure in found)
    absent = [repr(name) for name in every if all(name != present for _, present in figures)]
    if absent:
        yield f"No run has {', '.join(absent)}."
    for one in filled:
        if one.outside:
            name = one.variant.name
            yield f"{one.outside:,} samples of {name!r} have no {plan.rows!r}, and are in no row."
    for number, figure in enumerate(figures.values()):
        of_it = [place for place, column in enumerate(columns) if column.figure == number]
        found = [cell for row in rows for place in of_it if (cell := row.cells[place])]
        undefined = sum(cell.value is None and cell.n > 0 for cell in found)
        if figure.of == "macro_f1" and undefined:
            yield (
                f"{undefined} cells have no {figure.name}: one of its two classes never occurs "
                "there."
            )


def _differences(filled: Sequence[FilledRun], named: RowSettings) -> Iterator[str]:
    """Yield what the runs of each task differ in, apart from what the rows show."""
    shown = {"model.name", *map(section_of, named.settings)}
    by_task: dict[str, list[Variant]] = {}
    for one in filled:
        hidden = {key: value for key, value in one.variant.settings.items() if key not in shown}
        variant = replace(one.variant, settings=hidden)
        by_task.setdefault(variant.metrics.task, []).append(variant)
    for variants in by_task.values():
        yield from differing(variants[0], variants[1:])
