"""Tables, figures and notes in the form in which the page draws them: JSON with formatted texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from harness.analysis.metrics import Statistic
from harness.report.figure import Figure
from harness.report.table import Cell, Row, ShownUnit, Table

STYLES = {"green": "good", "yellow": "warn", "red": "bad", "bold": "bold", "dim": "dim"}
"""Classes of cells on the page, by the word of a terminal's style."""


class CellPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cell of a table: its text, sort key, tooltip and style, and a link to attempts."""

    text: str
    sort: float | None = None
    title: str = ""
    style: str = ""
    href: str = ""


class ColumnPart(Struct, frozen=True):
    """A column of a table. Neighbouring columns may share ``over``, a heading above their own."""

    heading: str
    over: str = ""
    numeric: bool = False


class RowPart(Struct, frozen=True):
    """A row of a table, with ``marks``: warnings about its run."""

    cells: list[CellPart]
    marks: Sequence[str] = ()


class TablePart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="table"):
    """A table, whose first ``names`` columns hold the names of its rows."""

    title: str
    names: int = 1
    headless: bool = False
    folded: bool = False
    columns: list[ColumnPart]
    rows: list[RowPart]
    footer: RowPart | None = None
    notes: Sequence[str] = ()


class FigurePart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="figure"):
    """A chart, and a table of the numbers in it."""

    name: str
    title: str
    caption: str
    chart: Mapping[str, Any]
    table: TablePart


class NotePart(Struct, frozen=True, tag_field="kind", tag="note"):
    """A paragraph of text."""

    text: str


Part = TablePart | FigurePart | NotePart


def table_part(table: Table, unit: ShownUnit, *, folded: bool = False) -> TablePart:
    """Convert a table for the page. Values in columns marked `rate` are shown in ``unit``."""
    return TablePart(
        title=table.title,
        names=0 if table.headless else table.names,
        headless=table.headless,
        folded=folded,
        columns=[
            ColumnPart(one.heading, one.over, place >= table.names and not one.text)
            for place, one in enumerate(table.columns)
        ],
        rows=[_row(table, row, unit) for row in table.rows],
        footer=_row(table, table.footer, unit) if table.footer else None,
        notes=table.notes,
    )


def _row(table: Table, row: Row, unit: ShownUnit) -> RowPart:
    cells = []
    for column, value in zip(table.columns, row.cells, strict=True):
        own = value if isinstance(value, Cell) else Cell(value)
        text = own.text if own.text is not None else unit.show(own.value, column)
        words = [STYLES[word] for word in own.style.split() if word in STYLES]
        told = {"title": own.title, "style": " ".join(words), "href": own.href}
        cells.append(CellPart(text=text, sort=_sort(own.value), **told))
    return RowPart(cells, row.marks)


def _sort(value: object) -> float | None:
    first = value.mean if isinstance(value, Statistic) else value
    first = first[0] if isinstance(first, tuple) and first else first
    return first if isinstance(first, int | float) and not isinstance(first, bool) else None


def figure_part(figure: Figure) -> FigurePart:
    """Convert a figure for the page."""
    columns = [ColumnPart(heading, "", bool(at)) for at, heading in enumerate(figure.headings)]
    rows = [RowPart([CellPart(text=text) for text in row]) for row in figure.rows]
    return FigurePart(
        name=figure.name,
        title=figure.title,
        caption=figure.caption,
        chart=figure.chart,
        table=TablePart(title=figure.title, columns=columns, rows=rows),
    )
