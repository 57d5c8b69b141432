"""Presents results tables as in papers, and suites, which are tables of models and benchmarks.

No value is set in bold, because it is uncertain which value is best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeGuard

from harness.analysis.metrics import PASS_RATE, UNJUDGED_WARNING_SHARE
from harness.plugins.comparisons.comparable import read_run
from harness.plugins.comparisons.comparison_document import TESTS, explained, which_round
from harness.plugins.comparisons.cross_table import (
    CrossTable,
    ShownFigure,
    TableCell,
    TableRow,
)
from harness.plugins.comparisons.pair_matrix import Tau
from harness.plugins.comparisons.suite import FEWEST_PROMPTS, BenchmarkComparison, Suite, suite_of
from harness.plugins.comparisons.table_figures import figure_kind
from harness.report.runs import common_prefix
from harness.report.table import (
    Cell,
    Column,
    Note,
    Row,
    Table,
    TableDocument,
    flatten_statistic,
    table,
)
from harness.report.text import (
    UNKNOWN,
    format_interval,
    format_number,
    format_p_value,
    format_range,
    is_zero_error,
)
from harness.store.run_folder import RunFolder
from harness.wording import format_count

MISSING = "—"
OVER_ALL = "all"
SHORT = 24  # characters of a row's settings that are shown rather than the variant's name

_NO_VALUE = f"{MISSING}: no run has this figure, or nothing was measured."
_NO_ERROR = "Without ±: one cluster, or all values alike; the error cannot be estimated."
_KINDS = {
    "answered": "over answers that have the score {0.score!r} only.",
    "macro_f1_answered": "over answers that have the score {0.score!r} only.",
    "ratio": "the sum of {0.score!r} over that of {0.per!r}.",
    "macro_f1": "the mean of both classes' F1 (Opitz and Burst 2021, arXiv 1911.03347); an answer "
    "without a verdict is a miss of its class.",
}
"""Notes on a figure, by its ``of``. Those of plug-ins' kinds are theirs."""
_CORRELATION = (
    "Kendall's tau-b between the benchmarks' rankings of the models; p (two-sided, not adjusted) "
    "treats the models as a random sample. Few models say little: for four, p is at least 0.08."
)


def cross_table_document(results: CrossTable) -> TableDocument:
    """Build the document of a results table, with the table's notes."""
    variants = _variants(results)
    names = ["model"]
    if any(run != name for run, name in variants.items()):
        names.append("variant")
    elif variants:
        names.append("run")
    else:
        names += results.rows[0].settings
    if results.row_label:
        names.append(results.row_label)
    rows = []
    for row in results.rows:
        cells: list[object] = [row.model]
        if variants:
            cells.append(variants[row.runs[0]])
        else:
            cells += row.settings.values()
        if results.row_label:
            cells.append(row.group)
        for figure, _, cell in _cells(results, row):
            cells.append(_cell(cell, figure))
        rows.append(Row(cells, row.marks))
    columns = [*names, *_columns(results)]
    parts: list[Table | Note] = [
        table(columns, rows, names=len(names), sectioned=bool(results.row_label))
    ]
    parts += map(Note, _captions(results))
    return TableDocument(
        title=", ".join(results.tasks),
        parts=parts,
        records=list(_records(results)),
        data=results,
    )


def _columns(results: CrossTable) -> list[Column | str]:
    """Return the columns of figures, with their groups below them if there are groups."""
    over_all = OVER_ALL if results.column_label else ""
    headings = []
    for column in results.columns:
        group = over_all if column.group is None else column.group
        headings.append((results.figures[column.figure].name, group))
    if any(group for _, group in headings):
        return [Column(group, over=figure) for figure, group in headings]
    return [figure for figure, _ in headings]


def _variants(results: CrossTable) -> Mapping[str, str]:
    """Return names of variants or runs, to be shown instead of settings, or {} to show settings."""
    settings = [" ".join(row.settings.values()) for row in results.rows]
    fits = max(map(len, settings), default=0) <= SHORT
    if fits and len({row.model for row in results.rows}) > 1:
        return {}
    runs: set[str] = set()
    for row in results.rows:
        if len(row.runs) != 1 or not row.settings:
            return {}
        runs.update(row.runs)
    prefix = common_prefix(runs)
    if fits and not prefix:
        return {}
    return {run: run.removeprefix(prefix) for run in runs}


def _cells(
    results: CrossTable, row: TableRow
) -> Iterator[tuple[ShownFigure, str | None, TableCell | None]]:
    for column, cell in zip(results.columns, row.cells, strict=True):
        yield results.figures[column.figure], column.group, cell


def _scale(figure: ShownFigure) -> tuple[int, int]:
    """Return the factor and the number of decimals with which a figure's values are shown."""
    return (100, 1) if figure.fraction else (1, 3)


def _is_measured(cell: TableCell | None) -> TypeGuard[TableCell]:
    return cell is not None and cell.mean is not None


def _cell(cell: TableCell | None, figure: ShownFigure) -> Cell:
    if cell is None or cell.mean is None:
        return Cell(None, MISSING)
    scale, digits = _scale(figure)
    text = format_number(scale * cell.mean, digits)
    if _has_error(cell):
        text += f" ± {format_number(scale * (cell.stderr or 0.0), digits)}"
    return Cell(cell.mean, _covered(cell, figure) + text)


def _lacks_many(cell: TableCell, figure: ShownFigure) -> bool:
    """Return whether many samples of a cell lack a value, unless its figure is over the others."""
    n = cell.n + cell.missing
    answered = figure.of in ("answered", "macro_f1_answered")
    return not answered and cell.missing > 0 and cell.missing >= UNJUDGED_WARNING_SHARE * n


def _covered(cell: TableCell, figure: ShownFigure) -> str:
    """Return how many samples a cell's value covers, such as "60 of 100: ", or ""."""
    if not _lacks_many(cell, figure):
        return ""
    return f"{cell.n:,} of {cell.n + cell.missing:,}: "


def _has_error(cell: TableCell) -> bool:
    return cell.stderr is not None and not is_zero_error(cell.stderr)


def _all_cells(results: CrossTable) -> list[TableCell | None]:
    return list(chain.from_iterable(row.cells for row in results.rows))


def _captions(results: CrossTable) -> list[str]:
    cells = _all_cells(results)
    unscaled = ", ".join(repr(figure.name) for figure in results.figures if not figure.fraction)
    means = f"; {unscaled}: the mean, unscaled" if unscaled else ""
    row = "model"
    if results.row_label:
        row += f" and {results.row_label}"
    if results.column_label:
        row += f", one column per {results.column_label}"
    captions = [
        f"One row per {row}. Per cent{means}. ±: clustered standard error. "
        f"Covers each sample's {which_round(results.round)}.",
        *_counts(results),
        *_kinds(results),
    ]
    if not all(map(_is_measured, cells)):
        captions.append(_NO_VALUE)
    if not all(map(_has_error, filter(_is_measured, cells))):
        captions.append(_NO_ERROR)
    if results.sources:
        captions.append(f"Figures as in {'; '.join(results.sources)}.")
    return [*captions, *results.notes]


def _counts(results: CrossTable) -> Iterator[str]:
    """Yield sentences on the numbers of samples in cells, and on samples without a value."""
    sizes: dict[str, list[int]] = {"in a cell": [], f"over {OVER_ALL}": []}
    n_missing = Counter[int]()  # by figure
    totals = Counter[int]()
    grouped = {column.figure for column in results.columns if column.group}
    lacks_many = False
    for place, column in enumerate(results.columns):
        figure = results.figures[column.figure]
        over_all = column.group is None and bool(results.column_label)
        where = f"over {OVER_ALL}" if over_all else "in a cell"
        if explained(figure.score):
            where += f" of {figure.name} (instances)"
        of_place = sizes.setdefault(where, [])
        for row in results.rows:
            cell = row.cells[place]
            if cell is None:
                continue
            of_place.append(cell.n)
            lacks_many |= cell.mean is not None and _lacks_many(cell, figure)
            if not (over_all and column.figure in grouped):  # the groups count the same samples
                n_missing[column.figure] += cell.missing
                totals[column.figure] += cell.n + cell.missing
    texts = [f"{format_range(n)} {where}" for where, n in sizes.items() if n]
    yield f"Samples: {', '.join(texts)}."
    excluded = []
    for place, n in n_missing.items():
        if n:
            excluded.append(f"{results.figures[place].name} {n:,} of {totals[place]:,}")
    if excluded:
        yield f"Samples without a value, excluded and not counted as 0: {'; '.join(excluded)}."
    if lacks_many:
        yield (
            "n of m: the value covers n of m samples; "
            f"shown if at least {UNJUDGED_WARNING_SHARE:.0%} lack one."
        )


def _kinds(results: CrossTable) -> Iterator[str]:
    yield from explained(" and ".join(figure.score for figure in results.figures))
    averages: dict[str, list[str]] = {}
    for figure in results.figures:
        if figure.average not in ("", results.row_label, results.column_label):
            averages.setdefault(figure.average, []).append(figure.name)
    for label, names in averages.items():
        yield f"{', '.join(names)}: each {label} has the same weight."
    for figure in results.figures:
        kind = figure_kind(figure.of)
        note = kind.note if kind else _KINDS.get(figure.of)
        if note:
            yield f"{figure.name}: {note.format(figure)}"


def _records(results: CrossTable) -> Iterator[dict[str, object]]:
    keys = ("value", "stderr", "ci95_low", "ci95_high", "n", "n_clusters", "not_measured")
    for row in results.rows:
        settings = ", ".join(_settings(row))
        for figure, group, cell in _cells(results, row):
            if cell is None:
                continue
            record: dict[str, object] = {
                "model": row.model,
                "settings": settings,
                "runs": "; ".join(row.runs),
                "marks": "; ".join(row.marks),
                "label": results.row_label,
                "group": row.group,
                "figure": figure.name,
                "task": figure.task,
                "column_label": results.column_label,
                "column": group or "",
            }
            figures = flatten_statistic(cell)
            for key in keys:
                record[key] = figures[key]
            yield record


def suite_document(suite: Suite, *, brief: bool = False) -> TableDocument:
    """Build the document of a suite. ``brief`` omits average ranks, differences and tau-b."""
    parts: list[Table | Note] = [_models(suite, brief)]
    parts += map(Note, _model_notes(suite, brief))
    if suite.comparisons and not brief:
        methods: dict[str, None] = {}
        for compared in suite.comparisons:
            methods[TESTS[compared.comparison.method]] = None
        note = (
            "Model minus the first model, in the table's units, over the instances that both have; "
            f"p by {' or '.join(methods)}. p (Holm): adjusted for "
            f"{format_count(len(suite.comparisons), 'comparison')}. "
            "Each interval is for its row alone."
        )
        parts += [_differences(suite), Note(note)]
    if suite.correlations and not brief:
        parts += [_correlations(suite), Note(_CORRELATION)]
    parts += map(Note, suite.table.notes)
    parts += map(Note, suite.notes)
    return TableDocument(
        title=", ".join(suite.table.tasks),
        parts=parts,
        records=list(_suite_records(suite)),
        data=suite,
    )


def runs_suite_document(runs: Sequence[RunFolder], *, brief: bool = False) -> TableDocument:
    """Compare models over the tasks of their runs, and build the `suite_document`."""
    return suite_document(suite_of([read_run(run) for run in runs]), brief=brief)


def _models(suite: Suite, brief: bool) -> Table:
    settings = list(suite.table.rows[0].settings)
    ranks: dict[int, str] = {}
    if not brief:
        for rank in suite.ranks:
            ranks[rank.row] = _with_interval(rank.rank, rank.ci95, 1, 2)
    headings = [_heading(suite, figure) for figure in suite.table.figures]
    rows = []
    for place, row in enumerate(suite.table.rows):
        cells: list[object] = [row.model, *row.settings.values()]
        for figure, _, cell in _cells(suite.table, row):
            cells.append(_value(cell, figure))
        cells.append(ranks.get(place, MISSING))
        rows.append(Row(cells, row.marks))
    columns = ["model", *settings, *headings, "average rank" if ranks else None]
    return table(columns, rows, names=1 + len(settings))


def _heading(suite: Suite, figure: ShownFigure) -> str:
    tasks = [table_figure.task for table_figure in suite.table.figures]
    if tasks.count(figure.task) > 1:
        return figure.name
    return figure.task


def _value(cell: TableCell | None, figure: ShownFigure) -> Cell:
    if cell is None or cell.mean is None:
        return Cell(None, MISSING)
    scale, digits = _scale(figure)
    text = _with_interval(cell.mean, cell.ci95, scale, digits)
    return Cell(cell.mean, _covered(cell, figure) + text)


def _with_interval(
    value: float, ci95: tuple[float, float] | None, scale: int, digits: int, sign: bool = False
) -> str:
    between = UNKNOWN
    if ci95 is not None:
        between = format_interval((scale * ci95[0], scale * ci95[1]), digits, sign)
    return f"{format_number(scale * value, digits, sign)} ({between})"


def _model_notes(suite: Suite, brief: bool) -> Iterator[str]:
    results = suite.table
    unscaled = ", ".join(figure.name for figure in results.figures if not figure.fraction)
    exceptions = f", except {unscaled}" if unscaled else ""
    yield f"Per cent{exceptions}, with 95% intervals clustered by prompt."
    measures = []
    for figure in results.figures:
        measure = f"{figure.task}: {figure.score or 'pass rate'}"
        data = suite.datasets.get(figure.task)
        if data:
            measure += f" on the data set {data}"
        measures.append(measure)
    yield f"{'; '.join(measures)}."
    yield from _counts(results)
    if not all(map(_is_measured, _all_cells(results))):
        yield _NO_VALUE
    failures = []
    for run, outcomes in suite.failures.items():
        counts = ", ".join(f"{n:,} {outcome}" for outcome, n in outcomes.items())
        failures.append(f"{run}: {counts}")
    if failures:
        yield f"Attempts that are not ok: {'; '.join(failures)}."
    if suite.ranks and not brief:
        yield (
            f"average rank: over {', '.join(suite.ranked)}; 1 is best; higher scores are "
            f"taken as better. Interval: {suite.draws:,} bootstrap draws of each benchmark's "
            "prompts, over the instances that all models have. Models whose intervals overlap "
            f"may be in either order. {UNKNOWN}: fewer than {FEWEST_PROMPTS} prompts, or the same "
            "rank in all draws."
        )


def _correlations(suite: Suite) -> Table:
    columns: list[Column | str] = ["benchmarks", Column("tau-b", digits=2, sign=True)]
    columns += [Column("p", formatter=format_p_value), Column("models", hide=1)]
    rows = []
    for tau in suite.correlations:
        rows.append([_pair(suite, tau), tau.tau_b, tau.p_value, tau.n_runs])
    return table(columns, rows)


def _pair(suite: Suite, tau: Tau) -> str:
    first = suite.table.figures[tau.first]
    second = suite.table.figures[tau.second]
    return f"{_heading(suite, first)}, {_heading(suite, second)}"


def _differences(suite: Suite) -> Table:
    rows = []
    for benchmark in suite.comparisons:
        row = suite.table.rows[benchmark.row]
        comparison = benchmark.comparison
        cells = [row_name(row), benchmark.task, _difference(suite, benchmark)]
        cells += [comparison.p_adjusted, comparison.p_value, comparison.n]
        rows.append(Row(cells, row.marks))
    columns: list[Column | str] = ["model", "benchmark", "difference"]
    columns += [
        Column("p (Holm)", formatter=format_p_value),
        Column("p", formatter=format_p_value, hide=1),
    ]
    columns.append(Column("n", hide=2))
    title = f"Against {row_name(suite.table.rows[0])}"
    return table(columns, rows, title=title, names=2, sectioned=True)


def row_name(row: TableRow) -> str:
    """Return a row's name: its model and its settings."""
    return ", ".join([row.model, *_settings(row)])


def _settings(row: TableRow) -> list[str]:
    return [f"{key}={value}" for key, value in row.settings.items()]


def _difference(suite: Suite, benchmark: BenchmarkComparison) -> Cell:
    difference = benchmark.comparison.difference
    if difference is None:
        return Cell(None, UNKNOWN)
    figures = {figure.task: figure for figure in suite.table.figures}
    scale, digits = _scale(figures[benchmark.task])
    ci95 = benchmark.comparison.ci95
    return Cell(difference, _with_interval(difference, ci95, scale, digits, sign=True))


def _suite_records(suite: Suite) -> Iterator[Mapping[str, object]]:
    results = suite.table
    keys = ("value", "ci95_low", "ci95_high", "p_value", "p_adjusted", "n")
    empty: dict[str, object] = dict.fromkeys(("row", "model", "benchmark", "score", *keys))

    def record(row: str, figures: Mapping[str, object], **names: object) -> dict[str, object]:
        columns = {key: figures[key] for key in keys if key in figures}
        return empty | {"row": row} | names | columns

    for row in results.rows:
        for figure, _, cell in _cells(results, row):
            if cell is not None:
                names = {"benchmark": figure.task, "score": figure.score or PASS_RATE}
                yield record("value", flatten_statistic(cell), model=row_name(row), **names)
    for compared in suite.comparisons:
        figures = flatten_statistic(compared.comparison)
        figures["value"] = compared.comparison.difference
        names = {"benchmark": compared.task, "score": compared.score}
        yield record("difference", figures, model=row_name(results.rows[compared.row]), **names)
    for tau in suite.correlations:
        figures = {"value": tau.tau_b, "n": tau.n_runs}
        yield record("tau_b", figures, benchmark=_pair(suite, tau))
    for rank in suite.ranks:
        low, high = rank.ci95 or (None, None)
        figures = {"value": rank.rank, "ci95_low": low, "ci95_high": high}
        yield record("average_rank", figures, model=row_name(results.rows[rank.row]))
