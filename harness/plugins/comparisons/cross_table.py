"""Builds a results table of several runs, as in papers, with models and groups as rows.

A cell belongs to one run: samples of several runs are never pooled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import NamedTuple

from msgspec import Struct, field, structs

from harness.analysis.breakdown import rows_for_score
from harness.analysis.metrics import PASS_RATE, SampleStatistic
from harness.config.run_file import is_below
from harness.config.sections import split_k
from harness.errors import ConfigError, RunConflict
from harness.plugins.comparisons import comparable, run_differences
from harness.plugins.comparisons.run_differences import distinguishing, setting
from harness.plugins.comparisons.table_figures import (
    F1,
    applies,
    figure_kind,
    figure_values,
    is_fraction,
)
from harness.ports import PaperTable, TableFigure
from harness.store.columns import AttemptTable


class TableOptions(Struct, frozen=True, kw_only=True):
    """Options of a results table. The defaults give the table that the task declares."""

    rows: str | None = None  # label whose groups are the rows; empty for none
    columns: str | None = None  # label whose groups are the columns; empty for none
    scores: list[str] = []  # scores, `PASS_RATE`, or figures of the task's own table
    round: int | None = None  # use each sample's last round up to this one; None for no limit


class ShownFigure(Struct, frozen=True, kw_only=True):
    """A figure that the table shows, with the fields of `harness.ports.TableFigure`."""

    name: str  # includes the task if two tasks have a figure of this name
    task: str
    of: str
    score: str
    label: str
    weight: str = ""
    per: str = ""
    average: str = ""
    share: bool = False
    fraction: bool  # whether all values are between 0 and 1: shown in per cent


class TableColumn(Struct, frozen=True, kw_only=True):
    """A column: the index of its figure, and its group (None for all groups together)."""

    figure: int
    group: str | None


class TableCell(SampleStatistic, frozen=True, kw_only=True):
    """The value of a figure for a run, or for one group of its samples.

    ``n`` is the number of samples that count towards the figure. The value is None if the figure is
    undefined for them.
    """

    mean: float | None = field(name="value")
    missing: int = field(name="not_measured")


class TableRow(Struct, frozen=True, kw_only=True):
    """A row of a results table: a model, a group and distinguishing settings."""

    model: str
    settings: dict[str, str]
    group: str
    runs: list[str]
    marks: list[str]  # with the run's name, unless all of the row's runs have the mark
    cells: list[TableCell | None]  # by column; null if there is no figure


class CrossTable(Struct, frozen=True, kw_only=True):
    """A results table."""

    tasks: list[str]
    row_label: str
    column_label: str
    round: int | None  # null if each sample's last round is used
    figures: list[ShownFigure]
    columns: list[TableColumn]
    rows: list[TableRow]
    sources: list[str]  # the papers that define the figures
    notes: list[str]
    hint: str = ""  # for the user of a terminal


class Layout(NamedTuple):
    """The plan of a results table."""

    figures: list[tuple[str, TableFigure]]  # with their tasks
    rows: str  # label whose groups are the rows; empty for none
    columns: str  # label whose groups are the columns; empty for none
    sources: list[str]  # the papers that define the figures


class Place(NamedTuple):
    """A cell's place: the figure's index, the row's group and the column's group (None: all)."""

    figure: int
    group: str
    column: str | None


@dataclass(frozen=True, slots=True)
class FilledRun:
    """A run and the cells that it fills."""

    variant: comparable.Variant
    model: str  # its name, or else the backend's
    cells: Mapping[Place, SampleStatistic]
    fractions: Mapping[int, bool]  # by figure, whether all values are between 0 and 1
    outside: int  # samples without a group of the rows' label


def cross_table(
    runs: Sequence[comparable.Run], tables: Mapping[str, PaperTable], options: TableOptions
) -> CrossTable:
    """Build the results table of runs of one or more tasks."""
    started = []
    notes = []
    for variant, table in runs:
        if len(table):
            started.append((variant, table))
        else:
            notes.append(f"The run {variant.name!r} has no attempts.")
    if not started:
        raise ConfigError("None of the runs has an attempt.", "Run their run files again.")
    comparable.refuse_unknown_round([table for _, table in started], options.round)
    plan = _layout(started, tables, options)
    filled = [_fill(variant, table, plan, options.round) for variant, table in started]
    row_settings = _row_settings(filled, plan)
    present: set[int] = set()
    for run in filled:
        present.update(place.figure for place in run.cells)
    numbers = sorted(present)
    figures = [_shown_figure(number, plan, numbers, filled) for number in numbers]
    columns, rows, shared = _rows(filled, row_settings, numbers)
    if shared:
        notes.append("A figure that several runs of a row have is not shown over all columns.")
    if "run" in row_settings[0]:
        notes.append("Runs with the same settings are distinguished by their names.")
    shown_names = {plan.figures[number][1].name for number in numbers}
    names = dict.fromkeys(figure.name for _, figure in plan.figures)
    absent = ", ".join(repr(name) for name in names if name not in shown_names)
    if absent:
        notes.append(f"No run has {absent}.")
    for run in filled:
        if run.outside:
            without = f"Samples of {run.variant.name!r} without {plan.rows!r}"
            notes.append(f"{without}, in no row: {run.outside:,}.")
    hint = ""
    if options.rows is None and not plan.rows:
        labels: dict[str, None] = {}
        for _, table in started:
            labels |= dict.fromkeys(table.labels())
        if labels:
            hint = f"For a row per group, add --rows {' or --rows '.join(labels)}"
    notes += _without_class(figures, columns, rows)
    notes += _differences(filled, {"model.name", *map(comparable.section_of, row_settings[0])})
    scores = [figure.score for figure in figures if split_k(figure.score)[1]]
    notes += _tries(filled, scores, options.round)
    return CrossTable(
        tasks=list(dict.fromkeys(variant.metrics.task for variant, _ in started)),
        row_label=plan.rows,
        column_label=plan.columns,
        round=options.round,
        figures=figures,
        columns=columns,
        rows=rows,
        sources=plan.sources,
        notes=list(dict.fromkeys(notes)),
        hint=hint,
    )


def _shown_figure(
    number: int, plan: Layout, present: Sequence[int], runs: Sequence[FilledRun]
) -> ShownFigure:
    """Return a figure, named after its task as well if another one has its name."""
    task, figure = plan.figures[number]
    fields = asdict(figure)
    names = [plan.figures[place][1].name for place in present]
    if names.count(figure.name) > 1:
        fields["name"] = f"{task} {figure.name}"
    fraction = all(run.fractions.get(number, True) for run in runs)
    return ShownFigure(task=task, **fields, fraction=fraction)


def _without_class(
    figures: Sequence[ShownFigure], columns: Sequence[TableColumn], rows: Sequence[TableRow]
) -> Iterator[str]:
    """Yield a sentence on each macro-F1 that is undefined in some cells."""
    for number, figure in enumerate(figures):
        if figure.of not in F1:
            continue
        n = 0
        for row in rows:
            for column, cell in zip(columns, row.cells, strict=True):
                if column.figure == number and cell is not None:
                    n += cell.mean is None and cell.n > 0
        if n:
            yield f"{n} cells have no {figure.name}: one of its classes never occurs there."


def _layout(
    runs: Sequence[comparable.Run], tables: Mapping[str, PaperTable], options: TableOptions
) -> Layout:
    paper_tables = {}
    for variant, _ in runs:
        task = variant.metrics.task
        if task in tables:
            paper_tables[task] = tables[task]
    paper_rows = [table.rows for table in paper_tables.values()]
    paper_columns = [table.columns for table in paper_tables.values()]
    rows = _label(runs, options.rows, paper_rows, "--rows")
    columns = _label(runs, options.columns, paper_columns, "--columns")
    if rows and rows == columns:
        problem = f"--columns: {rows!r} is the label of the rows."
        raise ConfigError(problem, "Name another label, or '' for none.")
    figures: dict[tuple[str, TableFigure], None] = {}
    for variant, table in runs:
        task = variant.metrics.task
        paper_figures = paper_tables[task].figures if task in paper_tables else ()
        task_figures = _figures(variant, paper_figures, options.scores)
        if not any(applies(figure, table) for figure in task_figures):
            comparable.refuse_unknown_score(variant, table, task_figures[0].score)
            names = " or ".join(repr(figure.score or figure.name) for figure in task_figures)
            raise ConfigError(f"The run {variant.name!r} has no {names}.")
        for figure in task_figures:
            figures[task, figure] = None
    used = {figure for _, figure in figures}
    sources = dict.fromkeys(t.source for t in paper_tables.values() if used & set(t.figures))
    return Layout(list(figures), rows, columns, list(sources))


def _figures(
    variant: comparable.Variant, paper_figures: Sequence[TableFigure], scores: Sequence[str]
) -> list[TableFigure]:
    """Return the figures of ``scores`` (default: the paper's), and of a score of k samples."""
    if paper_figures and not scores and not split_k(variant.score)[1]:
        return list(paper_figures)
    by_name = {PASS_RATE: TableFigure("pass rate")}
    for figure in paper_figures:
        by_name[figure.name] = figure
    if not scores:
        scores = [*(figure.name for figure in paper_figures), variant.score]
    figures = []
    for score in scores:
        figures.append(by_name.get(score) or TableFigure(score, "score", score))
    return figures


def _label(
    runs: Sequence[comparable.Run], requested: str | None, declared: Sequence[str], option: str
) -> str:
    different = list(dict.fromkeys(declared))
    if requested is None and len(different) > 1:
        problem = f"The tasks' tables have different {option[2:]}: {', '.join(different)}."
        raise ConfigError(problem, f"Name one with {option}.")
    label = requested or ""
    if requested is None and different:
        label = different[0]
    tables = {variant.name: table for variant, table in runs}
    comparable.refuse_unknown_label(option, label, tables)
    return label


def _fill(
    variant: comparable.Variant, table: AttemptTable, plan: Layout, round_: int | None
) -> FilledRun:
    last = table.last_rounds(round_)
    rows = (plan.rows,) if plan.rows else ()
    cells: dict[Place, SampleStatistic] = {}
    fractions = {}
    outside = 0
    for number, (task, figure) in enumerate(plan.figures):
        if task != variant.metrics.task or not applies(figure, table):
            continue
        samples = rows_for_score(last, figure.score)
        by_column = plan.columns
        kind = figure_kind(figure.of)
        if kind is not None:
            # Within one group of a label, a figure of its groups has no meaning.
            if figure.label == plan.columns:
                by_column = ""
            samples, score = kind.samples(samples, figure)
            figure = replace(figure, of="score", score=score)
        over_all = figure_values(samples, figure, *rows)
        n = sum(cell.n + cell.missing for cell in over_all.values())
        outside = max(outside, len(samples) - n)
        for key, cell in over_all.items():
            cells[Place(number, "".join(key), None)] = cell
        if by_column:
            for key, cell in figure_values(samples, figure, *rows, by_column).items():
                cells[Place(number, "".join(key[:-1]), key[-1])] = cell
        fractions[number] = is_fraction(samples, figure)
    model = variant.metrics.model or str(variant.settings.get("model.backend") or "?")
    return FilledRun(variant, model, cells, fractions, outside)


def _row_settings(runs: Sequence[FilledRun], plan: Layout) -> list[dict[str, str]]:
    """Return what distinguishes each run besides its model: settings and, if needed, its name."""
    keys: set[str] = set()
    by_name = False
    for first, second in combinations(runs, 2):
        shared = first.cells.keys() & second.cells.keys()
        if plan.columns:  # cells over all columns count only if the table has no others
            shared = {place for place in shared if place.column is not None}
        if not shared:
            continue
        try:
            comparable.refuse_incomparable(first.variant, [second.variant], plan.rows)
        except RunConflict as error:  # its remedy names an option of another command
            raise RunConflict(error.message, error.remedy.replace("--over", "--rows")) from None
        differing = distinguishing(first.variant, second.variant)
        if first.model == second.model:
            by_name = by_name or not differing
        else:
            differing = [key for key in differing if not is_below(key, ["model"])]
        keys.update(differing)
    row_settings = []
    for run in runs:
        settings = {key: setting(run.variant, key) for key in sorted(keys)}
        if by_name:
            settings["run"] = run.variant.name
        row_settings.append(settings)
    return row_settings


class _RowKey(NamedTuple):
    model: str
    settings: tuple[str, ...]
    group: str


def _rows(
    filled: Sequence[FilledRun], row_settings: Sequence[dict[str, str]], figures: Sequence[int]
) -> tuple[list[TableColumn], list[TableRow], bool]:
    """Return columns and rows, and whether several runs of a row have the same cell."""
    cells: dict[_RowKey, dict[Place, TableCell | None]] = {}
    owners: dict[_RowKey, dict[int, comparable.Variant]] = {}
    shared = False
    for number, (run, settings) in enumerate(zip(filled, row_settings, strict=True)):
        for place, statistic in run.cells.items():
            key = _RowKey(run.model, tuple(settings.values()), place.group)
            row = cells.setdefault(key, {})
            anywhere = place._replace(group="")
            if anywhere in row:
                row[anywhere] = None
                shared = True
            else:
                row[anywhere] = TableCell(**structs.asdict(statistic))
            owners.setdefault(key, {})[number] = run.variant
    columns = []
    places = []
    for number, figure in enumerate(figures):
        for group in _column_groups(figure, list(cells.values())):
            columns.append(TableColumn(figure=number, group=group))
            places.append(Place(figure, "", group))
    models: dict[str, int] = {}  # in the order of the runs
    sections: dict[tuple[object, ...], int] = {}
    for key in cells:
        models.setdefault(key.model, len(models))
        sections.setdefault(key[:2], len(sections))

    def in_order(key: _RowKey) -> tuple[int, int, str]:
        return models[key.model], sections[key[:2]], key.group

    rows = []
    for key in sorted(cells, key=in_order):
        variants = list(owners[key].values())
        rows.append(
            TableRow(
                model=key.model,
                settings=row_settings[next(iter(owners[key]))],
                group=key.group,
                runs=[variant.name for variant in variants],
                marks=_marks(variants),
                cells=[cells[key].get(place) for place in places],
            )
        )
    return columns, rows, shared


def _column_groups(
    figure: int, rows: Sequence[Mapping[Place, TableCell | None]]
) -> list[str | None]:
    """Return the groups of a figure's columns, and None for the one over all groups, if shown."""
    groups: set[str] = set()
    for row in rows:
        for place in row:
            if place.figure == figure and place.column is not None:
                groups.add(place.column)
    if not groups:
        return [None]
    inner: list[str | None] = [*sorted(groups)]
    over_all = [row.get(Place(figure, "", None)) for row in rows]
    if not any(over_all):
        return inner
    if len(inner) == 1:
        only = [row.get(Place(figure, "", inner[0])) for row in rows]
        if only == over_all:  # the column for all groups would repeat the only group
            return inner
    return [*inner, None]


def _marks(variants: Sequence[comparable.Variant]) -> list[str]:
    marks: dict[str, None] = {}
    for variant in variants:
        for mark in variant.marks:
            if all(mark in row_variant.marks for row_variant in variants):
                marks[mark] = None
            else:
                marks[f"{variant.name}: {mark}"] = None
    return list(marks)


def _differences(filled: Sequence[FilledRun], shown_keys: set[str]) -> Iterator[str]:
    by_task: dict[str, list[comparable.Variant]] = {}
    for run in filled:
        settings = dict(run.variant.settings)
        for key in shown_keys:
            settings.pop(key, None)
        task_variants = by_task.setdefault(run.variant.metrics.task, [])
        task_variants.append(replace(run.variant, settings=settings))
    for variants in by_task.values():
        yield from run_differences.differing(variants[0], variants[1:])


def _tries(filled: Sequence[FilledRun], scores: Sequence[str], round_: int | None) -> Iterator[str]:
    """Yield sentences on runs of unequal tries, and of repeated samples, by scores of k samples."""
    for score in scores or [""]:
        variants = []
        for run in filled:
            metrics = run.variant.metrics
            measured = structs.replace(metrics, measure=score or metrics.measure)
            several = metrics.n_samples > metrics.n_instances
            variants.append(replace(run.variant, metrics=measured if several else metrics))
        yield from run_differences.unequal_tries(variants, round_)
        yield from run_differences.repeated_samples(variants)
