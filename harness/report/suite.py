"""Presents a suite: models and benchmarks, paired differences, correlations, average ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.analysis.cross_table import ShownFigure, TableCell, TableRow
from harness.analysis.metrics import PASS_RATE
from harness.analysis.suite import BenchmarkComparison, BenchmarkCorrelation, Suite
from harness.report.comparison import TESTS
from harness.report.cross_table import MISSING, counts
from harness.report.table import Cell, Column, Note, Row, Table, TableDocument, flat, table
from harness.report.text import UNKNOWN, number, p_value


def suite_document(found: Suite, *, brief: bool = False) -> TableDocument:
    """Build a suite's document; ``brief`` omits everything but the table of models."""
    parts: list[Table | Note] = [_models(found, brief), *map(Note, _model_notes(found, brief))]
    if found.comparisons and not brief:
        parts += [_differences(found), *map(Note, _difference_notes(found))]
    if found.correlations and not brief:
        parts += [_correlations(found), Note(_CORRELATION)]
    return TableDocument(
        title=", ".join(found.table.tasks),
        parts=[*parts, *map(Note, [*found.table.notes, *found.notes])],
        records=list(_records(found)),
        data=found,
    )


_CORRELATION = (
    "Kendall's tau-b between the benchmarks' rankings of the models; p (two-sided, not adjusted) "
    "treats the models as a random sample. Few models say little: for four, p is at least 0.08."
)


def _models(found: Suite, brief: bool) -> Table:
    shown, settings = found.table, list(found.table.rows[0].settings)
    ranks = {} if brief else {one.row: one for one in found.ranks}
    headings = [_heading(found, figure) for figure in shown.figures]
    rows = []
    for place, row in enumerate(shown.rows):
        cells: list[object] = [
            _value(cell, shown.figures[column.figure])
            for column, cell in zip(shown.columns, row.cells, strict=True)
        ]
        rank = ranks.get(place)
        cells.append(_with(number(rank.rank, 1), rank.ci95, 1, 1) if rank else MISSING)
        rows.append(Row([row.model, *row.settings.values(), *cells], row.marks))
    return table(
        ["model", *settings, *headings, "average rank" if ranks else None],
        rows,
        names=1 + len(settings),
    )


def _heading(found: Suite, figure: ShownFigure) -> str:
    tasks = [one.task for one in found.table.figures]
    return figure.task if tasks.count(figure.task) == 1 else figure.name


def _value(cell: TableCell | None, figure: ShownFigure) -> Cell:
    """Format a value with its 95% interval, a fraction in per cent."""
    if cell is None or cell.value is None:
        return Cell(None, MISSING)
    scale, digits = (100, 1) if figure.fraction else (1, 3)
    text = _with(f"{scale * cell.value:z.{digits}f}", cell.ci95, scale, digits)
    return Cell(cell.value, text)


def _with(
    value: str, ci95: tuple[float, float] | None, scale: int, digits: int, sign: bool = False
) -> str:
    if ci95 is None:
        return f"{value} ({UNKNOWN})"
    low, high = (number(scale * bound, digits, sign) for bound in ci95)
    return f"{value} ({low} to {high})" if sign or ci95[0] < 0 else f"{value} ({low}-{high})"


def _model_notes(found: Suite, brief: bool) -> Iterator[str]:
    shown = found.table
    raw = [figure.name for figure in shown.figures if not figure.fraction]
    unscaled = f", except {', '.join(raw)}" if raw else ""
    yield f"Per cent{unscaled}, with 95% intervals that account for prompts."
    measures = []
    for figure in shown.figures:
        data = found.datasets.get(figure.task)
        measure = f"{figure.task}: {figure.score or 'pass rate'}"
        measures.append(f"{measure} on its data set {data}" if data else measure)
    yield f"{'; '.join(measures)}."
    yield from counts(shown)
    if any(cell is None or cell.value is None for row in shown.rows for cell in row.cells):
        yield f"{MISSING}: no run has this figure, or nothing was measured."
    if found.failures:
        counted = (
            f"{run}: {', '.join(f'{n:,} {outcome}' for outcome, n in failures.items())}"
            for run, failures in found.failures.items()
        )
        yield f"Attempts that are not ok: {'; '.join(counted)}."
    if found.ranks and not brief:
        yield (
            f"average rank: over {', '.join(found.ranked)}; 1 is best; higher scores are "
            f"taken as better. Interval: {found.draws:,} bootstrap draws of each benchmark's "
            "prompts, over the instances that all models have. Models whose intervals overlap "
            "may be in either order."
        )


def _correlations(found: Suite) -> Table:
    columns: list[Column | str] = [
        *("benchmarks", Column("tau-b", digits=2, sign=True)),
        *(Column("p", form=p_value), Column("models", hide=1)),
    ]
    rows = [[_pair(found, one), one.tau_b, one.p_value, one.n_runs] for one in found.correlations]
    return table(columns, rows)


def _pair(found: Suite, one: BenchmarkCorrelation) -> str:
    figures = found.table.figures
    return ", ".join(_heading(found, figures[place]) for place in (one.first, one.second))


def _differences(found: Suite) -> Table:
    rows = [
        Row(
            [_name(found.table.rows[one.row]), one.task, _difference(found, one), c.p_adjusted,
             c.p_value, c.n],
            found.table.rows[one.row].marks,
        )
        for one in found.comparisons
        for c in (one.comparison,)
    ]  # fmt: skip
    columns: list[Column | str] = [
        *("model", "benchmark"),
        Column("difference"),
        Column("p (Holm)", form=p_value),
        Column("p", form=p_value, hide=1),
        Column("n", hide=2),
    ]
    title = f"Against {_name(found.table.rows[0])}"
    return table(columns, rows, title=title, names=2, sectioned=True)


def _name(row: TableRow) -> str:
    return ", ".join([row.model, *(f"{key}={value}" for key, value in row.settings.items())])


def _difference(found: Suite, one: BenchmarkComparison) -> Cell:
    difference = one.comparison.difference
    if difference is None:
        return Cell(None, UNKNOWN)
    figures = {figure.task: figure for figure in found.table.figures}
    scale, digits = (100, 1) if figures[one.task].fraction else (1, 3)
    value = number(scale * difference, digits, sign=True)
    return Cell(difference, _with(value, one.comparison.ci95, scale, digits, sign=True))


def _difference_notes(found: Suite) -> Iterator[str]:
    methods = dict.fromkeys(TESTS[one.comparison.method] for one in found.comparisons)
    yield (
        "Model minus the first model, in the table's units, over the instances that both have; "
        f"p by {' or '.join(methods)}. p (Holm): adjusted over all {len(found.comparisons)} "
        "comparisons. Intervals are of each row alone."
    )


def _records(found: Suite) -> Iterator[Mapping[str, object]]:
    shown, keys = found.table, ("value", "ci95_low", "ci95_high", "p_adjusted", "n")
    empty: dict[str, object] = dict.fromkeys(("row", "model", "benchmark", "score", *keys))
    for row in shown.rows:
        for column, cell in zip(shown.columns, row.cells, strict=True):
            if cell is not None:
                figure, told = shown.figures[column.figure], flat(cell)
                named = {"row": "value", "model": _name(row), "benchmark": figure.task}
                named["score"] = figure.score or PASS_RATE
                yield empty | named | {key: told[key] for key in keys if key in told}
    for one in found.comparisons:
        told = flat(one.comparison)
        named = {"row": "difference", "model": _name(shown.rows[one.row]), "benchmark": one.task}
        figures = {key: told[key] for key in keys if key in told}
        yield empty | named | {"score": one.score} | figures | {"value": told["difference"]}
    for tau in found.correlations:
        named = {"row": "tau_b", "benchmark": _pair(found, tau)}
        yield empty | named | {"value": tau.tau_b, "n": tau.n_runs}
    for rank in found.ranks:
        told = {"value": rank.rank, "ci95_low": rank.ci95[0], "ci95_high": rank.ci95[1]}
        yield empty | {"row": "average_rank", "model": _name(shown.rows[rank.row])} | told
