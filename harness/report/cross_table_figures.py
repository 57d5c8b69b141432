"""The figures of a results table as text, its headings, and what must be said of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.cross_table import CrossTable, ShownFigure, TableCell, TableColumn, TableRow
from harness.report.ablation_figures import whole

MISSING = "—"
OVER_ALL = "all"

_NOTHING = 1e-12
"""Standard errors below this are rounding: the values are all alike, and it says nothing."""


def cell_text(cell: TableCell | None, figure: ShownFigure, *, stderr: bool = True) -> str:
    """A figure, per cent where it is a fraction, and its standard error where there is one."""
    if cell is None or cell.value is None:
        return MISSING
    scale, digits = (100, 1) if figure.fraction else (1, 3)
    told = f"{scale * cell.value:z.{digits}f}"
    if not stderr or not has_error(cell):
        return told
    return f"{told} ± {scale * (cell.stderr or 0.0):.{digits}f}"


def aligned(cells: Sequence[str]) -> list[str]:
    """The texts of a column, figures under figures: where none has an error, as they are.

    >>> aligned(["100.0", "65.0 ± 6.1"])
    ['100.0      ', ' 65.0 ± 6.1']
    """
    parted = [cell.partition(" ± ") for cell in cells]
    before = max(len(value) for value, *_ in parted)
    after = max(len(error) for *_, error in parted)
    if not after:
        return list(cells)
    return [
        f"{value:>{before}} ± {error:>{after}}" if error else f"{value:>{before}}{'':{after + 3}}"
        for value, _, error in parted
    ]


def has_error(cell: TableCell) -> bool:
    """Whether anything is known of how sure a figure is."""
    return cell.stderr is not None and cell.stderr >= _NOTHING


def group_of(table: CrossTable, column: TableColumn) -> str:
    """What stands under a figure's name; empty where it has one column."""
    if column.group is not None:
        return column.group
    return OVER_ALL if table.column_label else ""


def settings_text(row: TableRow) -> str:
    """What tells a row's runs apart, beside the model."""
    return ", ".join(f"{key}={value}" for key, value in row.settings.items())


def captions(table: CrossTable) -> list[str]:
    """What must be known to read the table."""
    when = {None: "last round", 1: "first answer"}.get(
        table.round, f"last round up to {table.round}"
    )
    raw = [repr(whole(figure.name)) for figure in table.figures if not figure.fraction]
    means = f"; {', '.join(raw)}: the mean as it is" if raw else ""
    row = f"model and {whole(table.row_label)}" if table.row_label else "model"
    column = f", a column per {whole(table.column_label)}" if table.column_label else ""
    told = [
        f"A row per {row}{column}. Per cent{means}. ±: clustered standard error. "
        f"Of each sample's {when}.",
        *_counts(table),
        *_kinds(table),
    ]
    cells = [cell for row in table.rows for cell in row.cells]
    if any(cell is None or cell.value is None for cell in cells):
        told.append(f"{MISSING}: no run has the figure there, or nothing of it was measured.")
    if any(cell and cell.value is not None and not has_error(cell) for cell in cells):
        told.append("Without ±: one cluster, or all values alike, of which no error can be said.")
    if table.sources:
        told.append(f"Figures as in {whole('; '.join(table.sources))}.")
    return [*told, *map(whole, table.notes)]


def _counts(table: CrossTable) -> Iterator[str]:
    """How many samples the cells are of, and what they lack."""
    grouped = {True: "in a cell", False: f"over {OVER_ALL}"}
    told = []
    for inner, name in grouped.items():
        sizes = [
            cell.n
            for row in table.rows
            for column, cell in zip(table.columns, row.cells, strict=True)
            if cell and inner is (column.group is not None or not table.column_label)
        ]
        if sizes:
            low, high = min(sizes), max(sizes)
            told.append(f"{low:,}" + (f" to {high:,}" if low < high else "") + f" {name}")
    yield f"Samples: {', '.join(told)}."
    lacking = []
    for number, figure in enumerate(table.figures):
        places = [at for at, column in enumerate(table.columns) if column.figure == number]
        groups = [at for at in places if table.columns[at].group is not None] or places
        cells = [cell for row in table.rows for at in groups if (cell := row.cells[at])]
        if without := sum(cell.not_measured for cell in cells):
            every = without + sum(cell.n for cell in cells)
            lacking.append(f"{whole(figure.name)} {without:,} of {every:,}")
    if lacking:
        yield f"Samples without a value, left out and not taken for 0: {'; '.join(lacking)}."


def _kinds(table: CrossTable) -> Iterator[str]:
    """What the figures are that are neither rates of all answers nor means."""
    for figure in table.figures:
        name = whole(figure.name)
        if figure.of == "answered":
            yield f"{name}: of the answers alone that have the score {whole(figure.score)!r}."
        if figure.of == "macro_f1":
            yield (
                f"{name}: the mean of both classes' F1 (Opitz and Burst 2021, arXiv 1911.03347); "
                "an answer without a verdict is a miss of its class."
            )
