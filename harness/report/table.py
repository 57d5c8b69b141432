"""The one table type: what a report shows, apart from how it is rendered.

Every kind of analysis becomes a `Document` of `Table` values. `harness.report.render` prints a
document in a terminal and writes it as Markdown, LaTeX, CSV and JSON; the HTML report shows the
same tables. Values stay typed until then: an unknown value is None, never 0.

>>> Column("mean ± s.e.").show(WithError(0.5, 0.1)), Column("95%").show(None)
('0.500 ± 0.100', 'n/a')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.report.text import interval, number, with_error


class WithError(NamedTuple):
    """A value with its standard error. Either is None where it is not known."""

    value: float | None
    stderr: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A value that needs more than its column says.

    Attributes:
        value: The typed value, as CSV has it.
        text: How it is shown; None for the column's own format.
        brief: A shorter text, without the standard error, for narrow terminals.
        style: A rich style for the terminal.
        href: An anchor of the HTML page.
        title: The full text that ``text`` abbreviates; the HTML page shows it on hover.
    """

    value: object = None
    text: str | None = None
    brief: str | None = None
    style: str = ""
    href: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column and the format of its values.

    Attributes:
        heading: Its heading.
        key: Its name in CSV.
        digits: Decimals of floats.
        sign: Whether positive numbers have a plus.
        form: A format of its own for values other than texts.
        text: Whether it holds left-aligned text, which may be folded.
        hide: Narrow terminals hide columns in ascending order of this number; 0 for never.
        over: A heading shared with its neighbours, shown above its own.
    """

    heading: str
    key: str = ""
    digits: int = 3
    sign: bool = False
    form: Callable[[Any], str] | None = None
    text: bool = False
    hide: int = 0
    over: str = ""

    def show(self, value: object) -> str:
        """The text of a value."""
        if isinstance(value, Cell):
            return self.show(value.value) if value.text is None else value.text
        if isinstance(value, str):
            return value
        if self.form is not None:
            return self.form(value)
        if isinstance(value, int):
            return f"{value:,}"
        if isinstance(value, WithError):
            return with_error(*value, self.digits, self.sign)
        if isinstance(value, tuple):
            return interval(value, self.digits, self.sign)
        return number(value if isinstance(value, float) else None, self.digits, self.sign)


@dataclass(frozen=True, slots=True)
class Row:
    """A row. ``marks`` qualify its name: SIMULATED, INCOMPLETE and the like."""

    cells: Sequence[object]
    marks: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table whose first columns name its rows.

    Attributes:
        rows: Each with a cell for every column.
        title: What it is; on the HTML page its caption.
        marks: What qualifies the whole table, such as SIMULATED.
        notes: Sentences below it.
        names: How many columns name a row.
        sectioned: Whether rows are indented below a line with all names but the last.
        footer: A last row, set apart.
        headless: Whether it is a list of facts without headings.
        fold: Whether long names are folded in a terminal; otherwise they are cut.
        name_width: Fewest characters of a name in a terminal, unless all are shorter.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    marks: Sequence[str] = ()
    notes: Sequence[str] = ()
    names: int = 1
    sectioned: bool = False
    footer: Row | None = None
    headless: bool = False
    fold: bool = True
    name_width: int = 18

    def texts(self, row: Row) -> list[str]:
        """The texts of a row's cells."""
        return [column.show(cell) for column, cell in zip(self.columns, row.cells, strict=True)]


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph of a document, with its style in a terminal."""

    text: str
    style: str = "dim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What an analysis has to say, in reading order.

    Attributes:
        parts: Tables and paragraphs.
        title: A headline.
        marks: What qualifies everything in it, such as SIMULATED.
        records: The table that is written as CSV, in full precision; None where CSV is not
            offered.
        data: What is written as JSON; None where no file format is offered.
    """

    parts: Sequence[Table | Note]
    title: str = ""
    marks: Sequence[str] = ()
    records: Table | None = None
    data: object = None


def names(heading: str, *others: Column) -> list[Column]:
    """The columns of a table whose rows have one name."""
    return [Column(heading, text=True), *others]


def text_table(
    title: str, headings: Sequence[str], rows: Iterable[Row | Sequence[object]], names: int = 1
) -> Table:
    """A table whose first columns are names, and whose others need no format."""
    columns = [Column(heading, text=place < names) for place, heading in enumerate(headings)]
    every = [row if isinstance(row, Row) else Row(row) for row in rows]
    return Table(columns=columns, rows=every, title=title, names=names)


def facts(pairs: Iterable[tuple[object, object]]) -> Table:
    """A list of facts: what, and how much."""
    columns = (Column("", text=True), Column("", text=True))
    return Table(columns=columns, rows=[Row(pair) for pair in pairs], headless=True)


def records(keys: Iterable[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table for CSV: raw values under the keys of its columns."""
    return Table(columns=[Column(key, key) for key in keys], rows=[Row(row) for row in rows])
