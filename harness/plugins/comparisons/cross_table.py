"""Builds a results table of several runs, as in papers, with models and groups as rows.

A cell belongs to one run: samples of several runs are never pooled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import NamedTuple, cast

from msgspec import Struct, field, structs

from harness.analysis.breakdown import Key, is_share, scored, values_by, weighted_means
from harness.analysis.metrics import PASS_RATE, SampleStatistic
from harness.config.run_file import is_below
from harness.config.sections import of_k
from harness.errors import ConfigError, RunConflict
from harness.plugin_loader import Kind
from harness.plugins.comparisons import comparable, run_differences
from harness.plugins.comparisons.comparable import has_score
from harness.plugins.comparisons.macro_f1 import macro_f1
from harness.plugins.comparisons.row_settings import distinguishing, setting
from harness.plugins.comparisons.table_figures import (
    MILLISECONDS,
    TOKENS,
    averaged,
    is_part,
    ratio,
)
from harness.ports import FigureKind, PaperTable, TableFigure
from harness.store.columns import AttemptTable

F1 = ("macro_f1", "macro_f1_answered")
KINDS = ("passed", "answered", "score", "ratio", *F1)
"""The core's kinds of figures. Plug-ins bring others (`FigureKind`)."""


def figure_kind(name: str) -> FigureKind | None:
    """Return a kind of figure that a plug-in brings, or None if it is one of the core's."""
    return None if name in KINDS else cast("FigureKind", Kind("table_figures").load(name))


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
    started = [(variant, table) for variant, table in runs if len(table)]
    if not started:
        raise ConfigError("None of the runs has an attempt.", "Run their run files again.")
    comparable.refuse_unknown_round([table for _, table in started], options.round)
    plan = _layout(started, tables, options)
    filled = [_fill(variant, table, plan, options.round) for variant, table in started]
    row_settings = _row_settings(filled, plan)
    present = sorted({place.figure for run in filled for place in run.cells})
    names = [plan.figures[number][1].name for number in present]
    figures = []
    for number in present:
        task, figure = plan.figures[number]
        fields = asdict(figure)
        if names.count(figure.name) > 1:
            fields["name"] = f"{task} {figure.name}"
        fraction = all(run.fractions.get(number, True) for run in filled)
        figures.append(ShownFigure(task=task, **fields, fraction=fraction))
    columns, rows, shared = _rows(filled, row_settings, present)
    notes = [f"The run {v.name!r} has no attempts." for v, table in runs if not len(table)]
    if shared:
        notes.append("A figure that several runs of a row have is not shown over all columns.")
    if "run" in row_settings[0]:
        notes.append("Runs with the same settings are distinguished by their names.")
    every = dict.fromkeys(figure.name for _, figure in plan.figures)
    if absent := [repr(name) for name in every if name not in names]:
        notes.append(f"No run has {', '.join(absent)}.")
    notes += [
        f"Samples of {run.variant.name!r} without {plan.rows!r}, in no row: {run.outside:,}."
        for run in filled
        if run.outside
    ]
    labels = dict.fromkeys(label for _, table in started for label in table.labels())
    hint = ""
    if options.rows is None and not plan.rows and labels:
        hint = f"For a row per group, add --rows {' or --rows '.join(labels)}"
    for number, shown_figure in enumerate(figures):
        column_places = [place for place, column in enumerate(columns) if column.figure == number]
        cells = [row.cells[place] for row in rows for place in column_places]
        n = sum(cell is not None and cell.mean is None and cell.n > 0 for cell in cells)
        if shown_figure.of in F1 and n:
            notes.append(
                f"{n} cells have no {shown_figure.name}: one of its classes never occurs there."
            )
    notes += _differences(filled, {"model.name", *map(comparable.section_of, row_settings[0])})
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


def _layout(
    runs: Sequence[comparable.Run], tables: Mapping[str, PaperTable], options: TableOptions
) -> Layout:
    paper_tables = {
        v.metrics.task: tables[v.metrics.task] for v, _ in runs if v.metrics.task in tables
    }
    rows = _label(runs, options.rows, [table.rows for table in paper_tables.values()], "--rows")
    columns = _label(runs, options.columns, [t.columns for t in paper_tables.values()], "--columns")
    rows = rows or ""
    columns = columns or ""
    if rows and rows == columns:
        problem = f"--columns: {rows!r} is the label of the rows."
        raise ConfigError(problem, "Name another label, or '' for none.")
    figures: dict[tuple[str, TableFigure], None] = {}
    for variant, table in runs:
        task = variant.metrics.task
        task_figures = paper_tables[task].figures if task in paper_tables else ()
        if options.scores or not task_figures or of_k(variant.score)[1]:
            by_name = {PASS_RATE: TableFigure("pass rate")} | {
                figure.name: figure for figure in task_figures
            }
            scores = options.scores or [*(figure.name for figure in task_figures), variant.score]
            task_figures = tuple(
                by_name.get(score) or TableFigure(score, "score", score) for score in scores
            )
        if not any(_applies(figure, table) for figure in task_figures):
            comparable.refuse_unknown_score(variant, table, task_figures[0].score)
            names = " or ".join(repr(figure.score or figure.name) for figure in task_figures)
            raise ConfigError(f"The run {variant.name!r} has no {names}.")
        figures |= dict.fromkeys((task, figure) for figure in task_figures)
    used = {figure for _, figure in figures}
    sources = dict.fromkeys(t.source for t in paper_tables.values() if used & set(t.figures))
    return Layout(list(figures), rows, columns, list(sources))


def _label(
    runs: Sequence[comparable.Run], requested: str | None, declared: Sequence[str], option: str
) -> str | None:
    different = list(dict.fromkeys(declared))
    if requested is None and len(different) > 1:
        problem = f"The tasks' tables have different {option[2:]}: {', '.join(different)}."
        raise ConfigError(problem, f"Name one with {option}.")
    label = different[0] if requested is None and different else requested
    tables = {variant.name: table for variant, table in runs}
    comparable.refuse_unknown_label(option, label or "", tables)
    return label


def _applies(figure: TableFigure, table: AttemptTable) -> bool:
    if not {figure.label, figure.average} - {""} <= set(table.labels()):
        return False
    # A macro-F1 is defined even if no answer has the score: all answers are then misses.
    return figure.of == "macro_f1" or not figure.score or has_score(table, figure.score)


def _values(samples: AttemptTable, figure: TableFigure, *labels: str) -> dict[Key, SampleStatistic]:
    if figure.of == "macro_f1":
        return macro_f1(samples, figure.score, figure.label, *labels)
    if figure.of == "ratio":
        return ratio(samples, figure.score, figure.per, *labels, share=figure.share)
    if figure.average and figure.average not in labels:
        return averaged(samples, figure.score or PASS_RATE, figure.average, *labels)
    passed = values_by(samples, PASS_RATE, *labels)
    if figure.of == "passed":
        return passed
    if figure.of == "score":
        measured = values_by(samples, figure.score, *labels)
        if figure.weight:
            measured = weighted_means(samples, figure.score, figure.weight, *labels)
    else:
        answered = samples.take(samples.measured(figure.score))
        measured = values_by(answered, PASS_RATE, *labels)
        if figure.of == "macro_f1_answered":
            measured = macro_f1(answered, figure.score, figure.label, *labels)
    values = {}
    for key, total in passed.items():
        statistic = measured.get(key, SampleStatistic())
        values[key] = structs.replace(statistic, missing=total.n + total.missing - statistic.n)
    return values


def _fill(
    variant: comparable.Variant, table: AttemptTable, plan: Layout, round_: int | None
) -> FilledRun:
    last = table.last_rounds(round_)
    rows = (plan.rows,) if plan.rows else ()
    cells: dict[Place, SampleStatistic] = {}
    fractions = {}
    outside = 0
    for number, (task, figure) in enumerate(plan.figures):
        if task != variant.metrics.task or not _applies(figure, table):
            continue
        samples = scored(last, figure.score)
        # Within one group of a label, a figure of its groups has no meaning.
        by_column = plan.columns
        if kind := figure_kind(figure.of):
            by_column = "" if figure.label == plan.columns else plan.columns
            samples, score = kind.samples(samples, figure)
            figure = replace(figure, of="score", score=score)
        over_all = _values(samples, figure, *rows)
        n = sum(cell.n + cell.missing for cell in over_all.values())
        outside = max(outside, len(samples) - n)
        for key, cell in over_all.items():
            cells[Place(number, "".join(key), None)] = cell
        if by_column:
            for key, cell in _values(samples, figure, *rows, by_column).items():
                cells[Place(number, "".join(key[:-1]), key[-1])] = cell
        if figure.of == "ratio":
            raw = not (figure.share and is_part(samples, figure.score, figure.per))
        else:
            raw = figure.of == "score" and not is_share(samples, figure.score)
        fractions[number] = not (raw or figure.score in (TOKENS, MILLISECONDS))
    model = variant.metrics.model or str(variant.settings.get("model.backend") or "?")
    return FilledRun(variant, model, cells, fractions, outside)


def _row_settings(runs: Sequence[FilledRun], plan: Layout) -> list[dict[str, str]]:
    """Return what distinguishes each run besides its model: settings and, if needed, its name."""
    # Cells over all columns count only if the table has no others.
    places = [
        {place for place in run.cells if place.column is not None or not plan.columns}
        for run in runs
    ]
    keys: set[str] = set()
    by_name = False
    for (first, ours), (second, theirs) in combinations(zip(runs, places, strict=True), 2):
        if ours.isdisjoint(theirs):
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
    return [
        {key: setting(run.variant, key) for key in sorted(keys)}
        | ({"run": run.variant.name} if by_name else {})
        for run in runs
    ]


def _rows(
    filled: Sequence[FilledRun], row_settings: Sequence[dict[str, str]], figures: Sequence[int]
) -> tuple[list[TableColumn], list[TableRow], bool]:
    cells: dict[tuple[str, tuple[str, ...], str], dict[Place, TableCell | None]] = {}
    owners: dict[tuple[str, tuple[str, ...], str], dict[int, comparable.Variant]] = {}
    for run, (filled_run, settings) in enumerate(zip(filled, row_settings, strict=True)):
        for place, statistic in filled_run.cells.items():
            key = filled_run.model, tuple(settings.values()), place.group
            row = cells.setdefault(key, {})
            anywhere = place._replace(group="")
            cell = TableCell(**structs.asdict(statistic))
            row[anywhere] = None if anywhere in row else cell  # None if two runs have it
            owners.setdefault(key, {})[run] = filled_run.variant
    columns = []
    places = []
    for number, figure in enumerate(figures):
        overall = Place(figure, "", None)
        groups = {place.column for row in cells.values() for place in row if place.figure == figure}
        inner = sorted(group for group in groups if group is not None)
        over_all = [row.get(overall) for row in cells.values()]
        if len(inner) == 1:  # the column for all groups would repeat the only group
            first = [row.get(overall._replace(column=inner[0])) for row in cells.values()]
            over_all = [] if first == over_all else over_all
        for group in [*inner, *([None] if any(over_all) or not inner else [])]:
            columns.append(TableColumn(figure=number, group=group))
            places.append(overall._replace(column=group))
    models = list(dict.fromkeys(model for model, *_ in cells))
    sections = list(dict.fromkeys(key[:2] for key in cells))
    rows = [
        TableRow(
            model=key[0],
            settings=row_settings[next(iter(owners[key]))],
            group=key[2],
            runs=[variant.name for variant in owners[key].values()],
            marks=_marks(list(owners[key].values())),
            cells=[cells[key].get(place) for place in places],
        )
        for key in sorted(cells, key=lambda k: (models.index(k[0]), sections.index(k[:2]), k[2]))
    ]
    return columns, rows, any(cell is None for row in cells.values() for cell in row.values())


def _marks(variants: Sequence[comparable.Variant]) -> list[str]:
    marks = [
        mark
        if all(mark in other_variant.marks for other_variant in variants)
        else f"{variant.name}: {mark}"
        for variant in variants
        for mark in variant.marks
    ]
    return list(dict.fromkeys(marks))


def _differences(filled: Sequence[FilledRun], shown_keys: set[str]) -> Iterator[str]:
    by_task: dict[str, list[comparable.Variant]] = {}
    for run in filled:
        hidden = {
            key: value for key, value in run.variant.settings.items() if key not in shown_keys
        }
        task_variants = by_task.setdefault(run.variant.metrics.task, [])
        task_variants.append(replace(run.variant, settings=hidden))
    notes: list[str] = []
    for variants in by_task.values():
        notes += run_differences.differing(variants[0], variants[1:])
    notes += run_differences.unequal_tries([run.variant for run in filled])  # of all settings
    yield from dict.fromkeys(notes)
