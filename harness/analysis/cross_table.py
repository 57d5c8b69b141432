"""A paper's results table over several runs: a row per model and group, figures as columns.

Owns the table's shape and what has to be said under it. What a figure is, is told in
`harness.analysis.table_figures`; what names a row, in `harness.analysis.table_rows`. A cell
is of one run: where several fill a row, their samples are never thrown together, and such a
row has no figure over all columns.

>>> table = cross_table(runs, {"concodeeval": TABLE}, TableAsked())  # doctest: +SKIP
>>> [column.group for column in table.columns][:4]  # doctest: +SKIP
['json', 'xml', 'yaml', None]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import Struct

from harness.analysis.comparable import Variant, differing
from harness.analysis.table_cells import Cell, Filled, fill
from harness.analysis.table_figures import Chosen, Run, TableAsked, chosen
from harness.analysis.table_rows import (
    Filling,
    Place,
    Telling,
    refuse_other_data,
    short,
    telling,
)
from harness.errors import ConfigError
from harness.ports import PaperTable


class Figure(Struct, frozen=True, kw_only=True):
    """A figure of the table: a `harness.ports.TableFigure` of a task's runs.

    name: told with the task where two tasks have figures of one name.
    fraction: whether all of its values are between 0 and 1, and told in per cent.
    """

    name: str
    task: str
    of: str
    score: str
    label: str
    fraction: bool


class Column(Struct, frozen=True, kw_only=True):
    """A figure in a group of the columns' label; null over all of them.

    figure: its place in `CrossTable.figures`.
    """

    figure: int
    group: str | None


class Row(Struct, frozen=True, kw_only=True):
    """A model, what tells its runs apart, and a group of the rows' label (empty without one).

    runs: those that its cells are of.
    marks: what must be said of them (SIMULATED, INCOMPLETE); of one of several, with its name.
    cells: by column; null where no run has it.
    """

    model: str
    settings: dict[str, str]
    group: str
    runs: list[str]
    marks: list[str]
    cells: list[Cell | None]


class CrossTable(Struct, frozen=True, kw_only=True):
    """The table.

    row_label, column_label: empty for none.
    round: each sample's last one up to it counts; null for the last.
    sources: the papers that the figures are from.
    notes: sentences on what is not in it, and on what the runs differ in.
    """

    tasks: list[str]
    row_label: str
    column_label: str
    round: int | None
    figures: list[Figure]
    columns: list[Column]
    rows: list[Row]
    sources: list[str]
    notes: list[str]


def cross_table(
    runs: Sequence[Run], tables: Mapping[str, PaperTable], asked: TableAsked
) -> CrossTable:
    """The table over runs, of one task or of several.

    runs: one or more, each with its attempts.
    tables: task to its paper's table, where it has one.

    Raises: ConfigError; RunConflict where figures of other data would stand side by side.
    """
    begun = [(variant, table) for variant, table in runs if len(table)]
    if not begun:
        raise ConfigError("None of the runs has an attempt.", "Run their run files again.")
    _refuse_round(begun, asked.round)
    choice = chosen(begun, tables, asked)
    filled = [fill(variant, table, choice, asked.round) for variant, table in begun]
    fillings = [one.filling for one in filled]
    refuse_other_data(fillings, choice.rows)
    figures = _figures(filled, choice)
    tells = telling(fillings)
    columns, rows, shared = _table(filled, figures, tells)
    notes = [f"The run {v.name!r} has no attempts." for v, table in runs if not len(table)]
    if shared:
        notes.append("A figure that a row has from several runs is not told over all columns.")
    if tells.runs:
        notes.append("Runs with the same settings are told apart by their names.")
    return CrossTable(
        tasks=list(dict.fromkeys(variant.metrics.task for variant, _ in begun)),
        row_label=choice.rows,
        column_label=choice.columns,
        round=asked.round,
        figures=list(figures.values()),
        columns=columns,
        rows=rows,
        sources=choice.sources,
        notes=list(dict.fromkeys([*notes, *_notes(filled, choice, figures, tells, columns, rows)])),
    )


def _figures(filled: Sequence[Filled], choice: Chosen) -> dict[tuple[str, str], Figure]:
    """By task and name, those that any run has."""
    had = {
        (task, figure.name): figure
        for task, figures in choice.figures.items()
        for figure in figures
        if any((task, figure.name) == place[:2] for one in filled for place in one.cells)
    }
    names = [name for _, name in had]
    return {
        (task, name): Figure(
            name=name if names.count(name) == 1 else f"{task} {name}",
            task=task,
            of=figure.of,
            score=figure.score,
            label=figure.label,
            fraction=all(
                one.fractions.get(name, True)
                for one in filled
                if one.filling.variant.metrics.task == task
            ),
        )
        for (task, name), figure in had.items()
    }


def _table(
    filled: Sequence[Filled], figures: Mapping[tuple[str, str], Figure], tells: Telling
) -> tuple[list[Column], list[Row], bool]:
    """The columns and rows; and whether several runs fill a row, so that it has no whole."""
    cells: dict[tuple[str, tuple[str, ...], str], dict[Place, Cell | None]] = {}
    owners: dict[tuple[str, tuple[str, ...], str], list[Filling]] = {}
    for one in filled:
        named = tuple(tells.of(one.filling).values())
        for place, cell in one.cells.items():
            key = one.filling.model, named, place[2]
            row = cells.setdefault(key, {})
            place = *place[:2], "", place[3]
            row[place] = None if place in row else cell  # over all columns, of two runs
            found = owners.setdefault(key, [])
            if one.filling not in found:
                found.append(one.filling)
    columns, places = [], []
    for number, (task, name) in enumerate(figures):
        groups = {p[3] for row in cells.values() for p, c in row.items() if p[:2] == (task, name)}
        inner = sorted(group for group in groups if group is not None)
        over_all = [row.get((task, name, "", None)) for row in cells.values()]
        if len(inner) == 1:  # the column over all groups would say the same again
            first = [row.get((task, name, "", inner[0])) for row in cells.values()]
            over_all = [] if first == over_all else over_all
        told = [*inner, *([None] if any(over_all) or not inner else [])]
        columns += [Column(figure=number, group=group) for group in told]
        places += [(task, name, "", group) for group in told]
    models = list(dict.fromkeys(model for model, *_ in cells))
    sections = list(dict.fromkeys(key[:2] for key in cells))
    order = sorted(cells, key=lambda k: (models.index(k[0]), sections.index(k[:2]), k[2]))
    rows = [
        Row(
            model=key[0],
            settings=tells.of(owners[key][0]),
            group=key[2],
            runs=[owner.variant.name for owner in owners[key]],
            marks=_marks([owner.variant for owner in owners[key]]),
            cells=[cells[key].get(place) for place in places],
        )
        for key in order
    ]
    shared = any(cell is None for row in cells.values() for cell in row.values())
    return columns, rows, shared


def _marks(variants: Sequence[Variant]) -> list[str]:
    """Of a row's runs; those that are not all of them's, with the run's name."""
    told: dict[str, None] = {}
    for variant in variants:
        for mark in variant.marks:
            alike = all(mark in other.marks for other in variants)
            told[mark if alike else f"{variant.name}: {mark}"] = None
    return list(told)


def _refuse_round(runs: Sequence[Run], round_: int | None) -> None:
    last = max(int(table.round.max()) for _, table in runs)
    if round_ is not None and round_ > last:
        raise ConfigError(
            f"None of the runs has a round {round_}: the last one is round {last}.",
            "Leave --round out for each sample's last one.",
        )


def _notes(
    filled: Sequence[Filled],
    choice: Chosen,
    figures: Mapping[tuple[str, str], Figure],
    tells: Telling,
    columns: Sequence[Column],
    rows: Sequence[Row],
) -> Iterator[str]:
    every = dict.fromkeys(figure.name for found in choice.figures.values() for figure in found)
    absent = [repr(name) for name in every if all(name != had for _, had in figures)]
    if absent:
        yield f"No run has {', '.join(absent)}."
    for one in filled:
        if one.outside:
            name = one.filling.variant.name
            yield f"{one.outside:,} samples of {name!r} have no {choice.rows!r}, and are in no row."
    for number, figure in enumerate(figures.values()):
        of_it = [place for place, column in enumerate(columns) if column.figure == number]
        found = [cell for row in rows for place in of_it if (cell := row.cells[place])]
        if figure.of == "macro_f1" and (lost := sum(c.value is None and c.n > 0 for c in found)):
            yield f"{lost} cells have no {figure.name}: one of its two classes never occurs there."
    by_task: dict[str, list[Variant]] = {}
    for one in filled:
        variant = one.filling.variant
        untold = {  # what the rows say already is no news
            key: value
            for key, value in variant.settings.items()
            if key not in ("model.name", *map(short, tells.settings))
        }
        by_task.setdefault(variant.metrics.task, []).append(replace(variant, settings=untold))
    for variants in by_task.values():
        yield from differing(variants[0], variants[1:])
