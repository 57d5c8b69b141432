"""Presents results tables as in papers, and suites, which are tables of models and benchmarks.

No value is set in bold, because it is uncertain which value is best.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.analysis.metrics import MOST_UNJUDGED, PASS_RATE
from harness.plugins.comparisons.comparable import read_run
from harness.plugins.comparisons.comparison_document import TESTS, explained, which_round
from harness.plugins.comparisons.cross_table import (
    CrossTable,
    ShownFigure,
    TableCell,
    TableRow,
    figure_kind,
)
from harness.plugins.comparisons.pair_matrix import Tau
from harness.plugins.comparisons.suite import FEWEST_PROMPTS, BenchmarkComparison, Suite, suite_of
from harness.report.runs import common_start
from harness.report.table import Cell, Column, Note, Row, Table, TableDocument, flat, table
from harness.report.text import UNKNOWN, interval, is_zero, number, p_value
from harness.store.run_folder import RunFolder
from harness.wording import count_of

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
    shortened = any(run != name for run, name in variants.items())
    heading = "variant" if shortened else "run"
    settings = [heading] if variants else [*results.rows[0].settings]
    names = ["model", *settings, *filter(None, [results.row_label])]
    over_all = OVER_ALL if results.column_label else ""
    groups = [over_all if column.group is None else column.group for column in results.columns]
    columns: list[str | Column] = [*names]
    for column, group in zip(results.columns, groups, strict=True):
        figure = results.figures[column.figure].name
        columns.append(Column(group, over=figure) if any(groups) else figure)
    rows = []
    for row in results.rows:
        cells = [_cell(cell, figure) for figure, _, cell in _cells(results, row)]
        row_group = [row.group] if results.row_label else []
        row_names = [variants[row.runs[0]]] if variants else row.settings.values()
        rows.append(Row([row.model, *row_names, *row_group, *cells], row.marks))
    results_table = table(columns, rows, names=len(names), sectioned=bool(results.row_label))
    return TableDocument(
        title=", ".join(results.tasks),
        parts=[results_table, *map(Note, _captions(results))],
        records=list(_records(results)),
        data=results,
    )


def _variants(results: CrossTable) -> Mapping[str, str]:
    """Return names of variants or runs, to be shown instead of settings, or {} to show settings."""
    settings = [" ".join(row.settings.values()) for row in results.rows]
    fits = max(map(len, settings), default=0) <= SHORT
    if fits and len({row.model for row in results.rows}) > 1:
        return {}
    runs = {run for row in results.rows for run in row.runs}
    one_each = all(len(row.runs) == 1 and row.settings for row in results.rows)
    prefix = common_start(runs) if one_each else ""
    use_names = one_each and (prefix or not fits)
    return {run: run.removeprefix(prefix) for run in runs} if use_names else {}


def _cells(
    results: CrossTable, row: TableRow
) -> Iterator[tuple[ShownFigure, str | None, TableCell | None]]:
    for column, cell in zip(results.columns, row.cells, strict=True):
        yield results.figures[column.figure], column.group, cell


def _scale(figure: ShownFigure) -> tuple[int, int]:
    """Return the factor and the number of decimals with which a figure's values are shown."""
    return (100, 1) if figure.fraction else (1, 3)


def _cell(cell: TableCell | None, figure: ShownFigure) -> Cell:
    if cell is None or cell.mean is None:
        return Cell(None, MISSING)
    scale, digits = _scale(figure)
    text = number(scale * cell.mean, digits)
    if _has_error(cell):
        text += f" ± {number(scale * (cell.stderr or 0.0), digits)}"
    return Cell(cell.mean, _covered(cell, figure) + text)


def _lacks_many(cell: TableCell, figure: ShownFigure) -> bool:
    """Return whether many samples of a cell lack a value, unless its figure is over the others."""
    n = cell.n + cell.missing
    answered = figure.of in ("answered", "macro_f1_answered")
    return not answered and cell.missing > 0 and cell.missing >= MOST_UNJUDGED * n


def _covered(cell: TableCell, figure: ShownFigure) -> str:
    """Return how many samples a cell's value covers, such as "60 of 100: ", or ""."""
    n = cell.n + cell.missing
    return f"{cell.n:,} of {n:,}: " if _lacks_many(cell, figure) else ""


def _has_error(cell: TableCell) -> bool:
    return cell.stderr is not None and not is_zero(cell.stderr)


def _captions(results: CrossTable) -> list[str]:
    unscaled = [repr(figure.name) for figure in results.figures if not figure.fraction]
    means = f"; {', '.join(unscaled)}: the mean, unscaled" if unscaled else ""
    row = f"model and {results.row_label}" if results.row_label else "model"
    column = f", one column per {results.column_label}" if results.column_label else ""
    captions = [
        f"One row per {row}{column}. Per cent{means}. ±: clustered standard error. "
        f"Covers each sample's {which_round(results.round)}.",
        *_counts(results),
        *_kinds(results),
    ]
    cells = [cell for row in results.rows for cell in row.cells]
    if any(cell is None or cell.mean is None for cell in cells):
        captions.append(_NO_VALUE)
    if any(cell and cell.mean is not None and not _has_error(cell) for cell in cells):
        captions.append(_NO_ERROR)
    if results.sources:
        captions.append(f"Figures as in {'; '.join(results.sources)}.")
    return [*captions, *results.notes]


def _counts(results: CrossTable) -> Iterator[str]:
    sizes: dict[str, list[int]] = {"in a cell": [], f"over {OVER_ALL}": []}
    lacking: dict[int, tuple[int, int]] = {}
    for place, column in enumerate(results.columns):
        column_figure = results.figures[column.figure]
        over_all = column.group is None and bool(results.column_label)
        cells = [cell for row in results.rows if (cell := row.cells[place])]
        where = f"over {OVER_ALL}" if over_all else "in a cell"
        where += f" of {column_figure.name} (instances)" * bool(explained(column_figure.score))
        sizes.setdefault(where, []).extend(cell.n for cell in cells)
        grouped = any(
            neighbour.figure == column.figure and neighbour.group for neighbour in results.columns
        )
        if not (over_all and grouped):  # the groups count the same samples
            n_without, total = lacking.get(column.figure, (0, 0))
            n_missing = sum(cell.missing for cell in cells)
            lacking[column.figure] = (
                n_without + n_missing,
                total + n_missing + sum(cell.n for cell in cells),
            )
    texts = [
        f"{min(n):,}" + (f" to {max(n):,}" if min(n) < max(n) else "") + f" {where}"
        for where, n in sizes.items()
        if n
    ]
    yield f"Samples: {', '.join(texts)}."
    excluded = [
        f"{results.figures[place].name} {n:,} of {total:,}"
        for place, (n, total) in lacking.items()
        if n
    ]
    if excluded:
        yield f"Samples without a value, excluded and not counted as 0: {'; '.join(excluded)}."
    if any(
        cell is not None and cell.mean is not None and _lacks_many(cell, figure)
        for row in results.rows
        for figure, _, cell in _cells(results, row)
    ):
        yield (
            "n of m: the value covers n of m samples; "
            f"shown if at least {MOST_UNJUDGED:.0%} lack one."
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
        for figure, group, cell in _cells(results, row):
            if cell is None:
                continue
            figures = flat(cell)
            yield {
                "model": row.model,
                "settings": ", ".join(f"{key}={value}" for key, value in row.settings.items()),
                "runs": "; ".join(row.runs),
                "marks": "; ".join(row.marks),
                "label": results.row_label,
                "group": row.group,
                "figure": figure.name,
                "task": figure.task,
                "column_label": results.column_label,
                "column": group or "",
                **{key: figures[key] for key in keys},
            }


def suite_document(suite: Suite, *, brief: bool = False) -> TableDocument:
    """Build the document of a suite. ``brief`` omits average ranks, differences and tau-b."""
    parts: list[Table | Note] = [_models(suite, brief), *map(Note, _model_notes(suite, brief))]
    if suite.comparisons and not brief:
        methods = dict.fromkeys(
            TESTS[benchmark.comparison.method] for benchmark in suite.comparisons
        )
        note = (
            "Model minus the first model, in the table's units, over the instances that both have; "
            f"p by {' or '.join(methods)}. p (Holm): adjusted for "
            f"{count_of(len(suite.comparisons), 'comparison')}. Each interval is for its row alone."
        )
        parts += [_differences(suite), Note(note)]
    if suite.correlations and not brief:
        parts += [_correlations(suite), Note(_CORRELATION)]
    return TableDocument(
        title=", ".join(suite.table.tasks),
        parts=[*parts, *map(Note, [*suite.table.notes, *suite.notes])],
        records=list(_suite_records(suite)),
        data=suite,
    )


def runs_suite_document(runs: Sequence[RunFolder], *, brief: bool = False) -> TableDocument:
    """Compare models over the tasks of their runs, and build the `suite_document`."""
    return suite_document(suite_of([read_run(run) for run in runs]), brief=brief)


def _models(suite: Suite, brief: bool) -> Table:
    settings = list(suite.table.rows[0].settings)
    ranks = {} if brief else {average_rank.row: average_rank for average_rank in suite.ranks}
    headings = [_heading(suite, figure) for figure in suite.table.figures]
    rows = []
    for place, row in enumerate(suite.table.rows):
        cells: list[object] = [_value(cell, figure) for figure, _, cell in _cells(suite.table, row)]
        rank = ranks.get(place)
        cells.append(_with_interval(rank.rank, rank.ci95, 1, 2) if rank else MISSING)
        rows.append(Row([row.model, *row.settings.values(), *cells], row.marks))
    columns = ["model", *settings, *headings, "average rank" if ranks else None]
    return table(columns, rows, names=1 + len(settings))


def _heading(suite: Suite, figure: ShownFigure) -> str:
    tasks = [any_figure.task for any_figure in suite.table.figures]
    return figure.task if tasks.count(figure.task) == 1 else figure.name


def _value(cell: TableCell | None, figure: ShownFigure) -> Cell:
    if cell is None or cell.mean is None:
        return Cell(None, MISSING)
    text = _with_interval(cell.mean, cell.ci95, *_scale(figure))
    return Cell(cell.mean, _covered(cell, figure) + text)


def _with_interval(
    value: float, ci95: tuple[float, float] | None, scale: int, digits: int, sign: bool = False
) -> str:
    text = number(scale * value, digits, sign)
    if ci95 is None:
        return f"{text} ({UNKNOWN})"
    return f"{text} ({interval((scale * ci95[0], scale * ci95[1]), digits, sign)})"


def _model_notes(suite: Suite, brief: bool) -> Iterator[str]:
    results = suite.table
    unscaled_names = [figure.name for figure in results.figures if not figure.fraction]
    unscaled = f", except {', '.join(unscaled_names)}" if unscaled_names else ""
    yield f"Per cent{unscaled}, with 95% intervals clustered by prompt."
    measures = []
    for figure in results.figures:
        data = suite.datasets.get(figure.task)
        measure = f"{figure.task}: {figure.score or 'pass rate'}"
        measures.append(f"{measure} on the data set {data}" if data else measure)
    yield f"{'; '.join(measures)}."
    yield from _counts(results)
    if any(cell is None or cell.mean is None for row in results.rows for cell in row.cells):
        yield _NO_VALUE
    if suite.failures:
        failure_texts = (
            f"{run}: {', '.join(f'{n:,} {outcome}' for outcome, n in failures.items())}"
            for run, failures in suite.failures.items()
        )
        yield f"Attempts that are not ok: {'; '.join(failure_texts)}."
    if suite.ranks and not brief:
        yield (
            f"average rank: over {', '.join(suite.ranked)}; 1 is best; higher scores are "
            f"taken as better. Interval: {suite.draws:,} bootstrap draws of each benchmark's "
            "prompts, over the instances that all models have. Models whose intervals overlap "
            f"may be in either order. {UNKNOWN}: fewer than {FEWEST_PROMPTS} prompts, or the same "
            "rank in all draws."
        )


def _correlations(suite: Suite) -> Table:
    tau = Column("tau-b", digits=2, sign=True)
    p = Column("p", form=p_value)
    rows = [
        [_pair(suite, rank_tau), rank_tau.tau_b, rank_tau.p_value, rank_tau.n_runs]
        for rank_tau in suite.correlations
    ]
    return table(["benchmarks", tau, p, Column("models", hide=1)], rows)


def _pair(suite: Suite, tau: Tau) -> str:
    figures = suite.table.figures
    return ", ".join(_heading(suite, figures[place]) for place in (tau.first, tau.second))


def _differences(suite: Suite) -> Table:
    rows = []
    for benchmark in suite.comparisons:
        row = suite.table.rows[benchmark.row]
        comparison = benchmark.comparison
        cells = [row_name(row), benchmark.task, _difference(suite, benchmark)]
        cells += [comparison.p_adjusted, comparison.p_value, comparison.n]
        rows.append(Row(cells, row.marks))
    columns: list[Column | str] = ["model", "benchmark", "difference"]
    columns += [Column("p (Holm)", form=p_value), Column("p", form=p_value, hide=1)]
    columns.append(Column("n", hide=2))
    title = f"Against {row_name(suite.table.rows[0])}"
    return table(columns, rows, title=title, names=2, sectioned=True)


def row_name(row: TableRow) -> str:
    """Return a row's name: its model and its settings."""
    return ", ".join([row.model, *(f"{key}={value}" for key, value in row.settings.items())])


def _difference(suite: Suite, benchmark: BenchmarkComparison) -> Cell:
    difference = benchmark.comparison.difference
    if difference is None:
        return Cell(None, UNKNOWN)
    figures = {figure.task: figure for figure in suite.table.figures}
    scale = _scale(figures[benchmark.task])
    return Cell(
        difference, _with_interval(difference, benchmark.comparison.ci95, *scale, sign=True)
    )


def _suite_records(suite: Suite) -> Iterator[Mapping[str, object]]:
    results = suite.table
    keys = ("value", "ci95_low", "ci95_high", "p_value", "p_adjusted", "n")
    empty: dict[str, object] = dict.fromkeys(("row", "model", "benchmark", "score", *keys))

    def record(row: str, figures: Mapping[str, object], **names: object) -> dict[str, object]:
        return empty | {"row": row} | names | {k: figures[k] for k in keys if k in figures}

    for row in results.rows:
        for figure, _, cell in _cells(results, row):
            if cell is not None:
                score = figure.score or PASS_RATE
                names = {"model": row_name(row), "benchmark": figure.task, "score": score}
                yield record("value", flat(cell), **names)
    for benchmark in suite.comparisons:
        names = {
            "model": row_name(results.rows[benchmark.row]),
            "benchmark": benchmark.task,
            "score": benchmark.score,
        }
        figures = flat(benchmark.comparison) | {"value": benchmark.comparison.difference}
        yield record("difference", figures, **names)
    for tau in suite.correlations:
        figures = {"value": tau.tau_b, "n": tau.n_runs}
        yield record("tau_b", figures, benchmark=_pair(suite, tau))
    for rank in suite.ranks:
        low, high = rank.ci95 or (None, None)
        figures = {"value": rank.rank, "ci95_low": low, "ci95_high": high}
        yield record("average_rank", figures, model=row_name(results.rows[rank.row]))
