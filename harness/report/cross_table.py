"""Presents a results table as in papers, but without bold: which value is best is uncertain."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.cross_table import CrossTable, ShownFigure, TableCell, TableColumn
from harness.analysis.pass_at_k import explained
from harness.report.table import Cell, Column, Note, Row, TableDocument, flat, table
from harness.report.text import which_round

MISSING = "—"
OVER_ALL = "all"

_NOTHING = 1e-12  # a smaller standard error is a rounding error: all values are equal


def cross_table_document(found: CrossTable) -> TableDocument:
    """Build the document of a results table, with its notes."""
    label = [found.row_label] if found.row_label else []
    names = ["model", *found.rows[0].settings, *label]
    grouped = any(group_of(found, column) for column in found.columns)
    columns: list[str | Column] = [*names]
    for column in found.columns:
        figure, group = found.figures[column.figure].name, group_of(found, column)
        columns.append(Column(group, over=figure) if grouped else figure)
    rows = []
    for row in found.rows:
        cells = [
            _cell(cell, found.figures[column.figure])
            for column, cell in zip(found.columns, row.cells, strict=True)
        ]
        inner = [row.group] if found.row_label else []
        rows.append(Row([row.model, *row.settings.values(), *inner, *cells], row.marks))
    shown = table(columns, rows, names=len(names), sectioned=bool(found.row_label))
    return TableDocument(
        title=", ".join(found.tasks),
        parts=[shown, *map(Note, captions(found))],
        records=list(_records(found)),
        data=found,
    )


def _cell(cell: TableCell | None, figure: ShownFigure) -> Cell:
    """Format a value, with its standard error if known: a fraction in per cent, None as a dash."""
    if cell is None or cell.value is None:
        return Cell(None, MISSING)
    scale, digits = (100, 1) if figure.fraction else (1, 3)
    text = f"{scale * cell.value:z.{digits}f}"
    if not _has_error(cell):
        return Cell(cell.value, text)
    return Cell(cell.value, f"{text} ± {scale * (cell.stderr or 0.0):.{digits}f}")


def _has_error(cell: TableCell) -> bool:
    return cell.stderr is not None and cell.stderr >= _NOTHING


def group_of(found: CrossTable, column: TableColumn) -> str:
    """Return the group in a column's heading: "all" for all groups; empty if columns have none."""
    if column.group is not None:
        return column.group
    return OVER_ALL if found.column_label else ""


def captions(found: CrossTable) -> list[str]:
    """Return the notes that explain a results table."""
    raw = [repr(figure.name) for figure in found.figures if not figure.fraction]
    means = f"; {', '.join(raw)}: the mean, unscaled" if raw else ""
    row = f"model and {found.row_label}" if found.row_label else "model"
    column = f", one column per {found.column_label}" if found.column_label else ""
    told = [
        f"One row per {row}{column}. Per cent{means}. ±: clustered standard error. "
        f"Covers each sample's {which_round(found.round)}.",
        *counts(found),
        *_kinds(found),
    ]
    cells = [cell for row in found.rows for cell in row.cells]
    if any(cell is None or cell.value is None for cell in cells):
        told.append(f"{MISSING}: no run has this figure, or nothing was measured.")
    if any(cell and cell.value is not None and not _has_error(cell) for cell in cells):
        told.append("Without ±: one cluster, or all values alike; the error cannot be estimated.")
    if found.sources:
        told.append(f"Figures as in {'; '.join(found.sources)}.")
    return [*told, *found.notes]


def counts(found: CrossTable) -> Iterator[str]:
    """Yield notes on how many samples the cells cover, and how many have no value."""
    sizes: dict[str, list[int]] = {"in a cell": [], f"over {OVER_ALL}": []}
    lacking: dict[int, tuple[int, int]] = {}
    for at, column in enumerate(found.columns):
        shown = found.figures[column.figure]
        over_all = column.group is None and bool(found.column_label)
        cells = [cell for row in found.rows if (cell := row.cells[at])]
        where = f"over {OVER_ALL}" if over_all else "in a cell"
        where += f" of {shown.name} (instances)" * bool(explained(shown.score))
        sizes.setdefault(where, []).extend(cell.n for cell in cells)
        grouped = any(one.figure == column.figure and one.group for one in found.columns)
        if not (over_all and grouped):  # the groups count the same samples
            without, of = lacking.get(column.figure, (0, 0))
            none = sum(cell.not_measured for cell in cells)
            lacking[column.figure] = without + none, of + none + sum(cell.n for cell in cells)
    told = [
        f"{min(n):,}" + (f" to {max(n):,}" if min(n) < max(n) else "") + f" {where}"
        for where, n in sizes.items()
        if n
    ]
    yield f"Samples: {', '.join(told)}."
    excluded = [f"{found.figures[at].name} {n:,} of {of:,}" for at, (n, of) in lacking.items() if n]
    if excluded:
        yield f"Samples without a value, excluded and not counted as 0: {'; '.join(excluded)}."


def _kinds(found: CrossTable) -> Iterator[str]:
    yield from explained(" and ".join(figure.score for figure in found.figures))
    averages: dict[str, list[str]] = {}
    for figure in found.figures:
        if figure.average not in ("", found.row_label, found.column_label):
            averages.setdefault(figure.average, []).append(figure.name)
    for label, names in averages.items():
        yield f"{', '.join(names)}: each {label} has the same weight."
    for figure in found.figures:
        if figure.of in ("answered", "macro_f1_answered"):
            yield f"{figure.name}: over answers that have the score {figure.score!r} only."
        if figure.of == "partial":
            yield f"{figure.name}: {figure.score!r} or, if that is missing, the verdict."
        if figure.of == "ratio":
            yield f"{figure.name}: the sum of {figure.score!r} over that of {figure.per!r}."
        if figure.of == "consecutive":
            yield f"{figure.name}: the number of {figure.label}s that pass, from the first on."
        if figure.of == "macro_f1":
            yield (
                f"{figure.name}: the mean of both classes' F1 (Opitz and Burst 2021, arXiv "
                "1911.03347); an answer without a verdict is a miss of its class."
            )


def _records(found: CrossTable) -> Iterator[dict[str, object]]:
    for row in found.rows:
        for column, cell in zip(found.columns, row.cells, strict=True):
            if cell is None:
                continue
            figure, figures = found.figures[column.figure], flat(cell)
            keys = ("value", "stderr", "ci95_low", "ci95_high", "n", "n_clusters", "not_measured")
            yield {
                "model": row.model,
                "settings": ", ".join(f"{key}={value}" for key, value in row.settings.items()),
                "runs": "; ".join(row.runs),
                "marks": "; ".join(row.marks),
                "label": found.row_label,
                "group": row.group,
                "figure": figure.name,
                "task": figure.task,
                "column_label": found.column_label,
                "column": column.group or "",
                **{key: figures[key] for key in keys},
            }
