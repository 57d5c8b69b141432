"""Tables and documents, and their formats Markdown, LaTeX, CSV and JSON.

Values stay typed until they are written, and an unknown value is None, never 0. In CSV and JSON,
values are not rounded. Control characters are escaped, except newlines and tabs in CSV. Markdown
and LaTeX escape markup as well.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any

import msgspec
from msgspec import Struct

from harness.analysis.metrics import Statistic
from harness.report.text import (
    UNKNOWN,
    escape_unprintable,
    format_interval,
    format_number,
    format_with_error,
)

_UNSIGNED = r"\d[\d,]*(?:\.\d+)?"
_NUMBER = rf"[+-]?{_UNSIGNED}"
_INTERVAL = rf"{_NUMBER} to {_NUMBER}|{_UNSIGNED}-{_UNSIGNED}"
_NUMBER_OR_INTERVAL = re.compile(rf"{_NUMBER}|{_INTERVAL}|{_NUMBER} \((?:{_INTERVAL})\)")
_LATEX = str.maketrans({
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "—": "---",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
})  # fmt: skip
_MARKDOWN = str.maketrans({mark: f"\\{mark}" for mark in "\\|<>[]`*"})


@dataclass(frozen=True, slots=True)
class Cell:
    """A value with its style, link and tooltip; if ``text`` is None, the column formats it."""

    value: object = None
    text: str | None = None
    style: str = ""
    href: str = ""
    title: str = ""  # the tooltip


@dataclass(frozen=True, slots=True)
class Column:
    """A column with the format of its values."""

    heading: str
    digits: int = 3
    sign: bool = False  # whether numbers above 0 have a plus sign
    formatter: Callable[[Any], str] | None = None  # a custom format for values other than text
    text: bool = False  # left-aligned, and may be folded
    hide: int = 0  # the order in which narrow terminals hide columns; 0 for never
    over: str = ""  # a heading shared with neighbouring columns
    rate: bool = False  # whether values are fractions or their differences, shown in per cent

    def format(self, value: object) -> str:
        """Format a cell's value as text. An unknown value is ``n/a``."""
        if isinstance(value, Cell):
            return self.format(value.value) if value.text is None else value.text
        if isinstance(value, str):
            return value
        if self.formatter is not None:
            return self.formatter(value)
        if isinstance(value, int):
            return f"{value:,}"
        if isinstance(value, Statistic):
            return format_with_error(value.mean, value.stderr, self.digits, self.sign)
        if isinstance(value, tuple):
            return format_interval(value, self.digits, self.sign)
        if not isinstance(value, float):
            return UNKNOWN
        return format_number(value, self.digits, self.sign)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table. ``marks`` are warnings shown next to its name, such as SIMULATED."""

    cells: Sequence[object]
    marks: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table, built by `table`. Its first ``names`` columns hold the names of its rows."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    marks: Sequence[str] = ()
    notes: Sequence[str] = ()
    names: int = 1
    sectioned: bool = False  # rows are indented below a line of all their names but the last
    footer: Row | None = None  # a last row, separated from the others
    headless: bool = False  # a list of facts without headings

    @property
    def all_rows(self) -> Sequence[Row]:
        """The rows and, if there is one, the footer."""
        if self.footer is None:
            return self.rows
        return [*self.rows, self.footer]

    def texts(self, row: Row) -> list[str]:
        """Return the texts of a row's cells, formatted by their columns."""
        texts = []
        for column, cell in zip(self.columns, row.cells, strict=True):
            texts.append(column.format(cell))
        return texts


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph of a document, with its style in a terminal."""

    text: str
    style: str = "dim"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDocument:
    """The tables and notes of an analysis, in reading order."""

    parts: Sequence[Table | Note]
    title: str = ""
    marks: Sequence[str] = ()  # warnings that apply to the whole document
    records: Sequence[Mapping[str, object]] | None = None  # rows of the CSV; None if there is none
    data: object = None  # the content of the JSON; None if there is none


def table(
    columns: Iterable[Column | str | None], rows: Iterable[Row | Sequence[object]], **options: Any
) -> Table:
    """Build a `Table`.

    Args:
        columns: The columns. A string is a heading; None omits a column and its cells.
        rows: The rows, or their cells.
        options: The table's other fields.
    """
    names = options.get("names", 1)
    column_by_index: dict[int, Column] = {}
    for index, column in enumerate(columns):
        if isinstance(column, str):
            column = Column(column, text=index < names)
        if column is not None:
            column_by_index[index] = column
    table_rows = []
    for row in rows:
        if not isinstance(row, Row):
            row = Row(row)
        cells = [row.cells[index] for index in column_by_index]
        table_rows.append(Row(cells, row.marks))
    return Table(columns=list(column_by_index.values()), rows=table_rows, **options)


def facts_table(pairs: Iterable[tuple[object, object]]) -> Table:
    """Build a table of (name, value) pairs, without headings."""
    return table(["", Column("", text=True)], pairs, headless=True)


def flatten_statistic(statistic: Struct) -> dict[str, object]:
    """Convert a statistic to a record of CSV: ``ci95`` becomes ``ci95_low`` and ``ci95_high``."""
    fields: dict[str, Any] = msgspec.to_builtins(statistic)
    low, high = fields.pop("ci95", None) or (None, None)
    return {**fields, "ci95_low": low, "ci95_high": high}


def as_markdown(document: TableDocument) -> str:
    """Format all parts of a document as Markdown."""
    blocks = []
    if document.title:
        marks = f" ({'; '.join(document.marks)})" if document.marks else ""
        blocks.append(f"**{escape_markdown(document.title + marks)}**")
    for notes, parts in groupby(document.parts, lambda part: isinstance(part, Note)):
        separator = "\n" if notes else "\n\n"
        blocks.append(separator.join(map(_markdown_part, parts)))
    return "\n\n".join(blocks) + "\n"


def as_latex(document: TableDocument) -> str:
    """Format each table as a LaTeX tabular (package booktabs). Notes become comments."""
    lines: list[str] = []
    for part in document.parts:
        if isinstance(part, Table):
            lines += _latex_lines(part)
            lines += (f"% {escape_unprintable(note)}" for note in part.notes)
        else:
            lines.append(f"% {escape_unprintable(part.text)}")
    return "\n".join(lines) + "\n"


def as_csv(document: TableDocument) -> str:
    """Format a document's records as CSV, in full precision.

    Raises:
        ValueError: If the document has no records.
    """
    if document.records is None:
        raise ValueError("the document has no records")
    keys: dict[str, None] = {}
    for record in document.records:
        keys |= dict.fromkeys(record)
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(map(escape_unprintable, keys))
    for record in document.records:
        row = []
        for value in map(record.get, keys):
            row.append(escape_unprintable(value, "\n\t") if isinstance(value, str) else value)
        writer.writerow(row)
    return output.getvalue()


def as_json(document: TableDocument) -> str:
    """Format the data of a document as JSON."""
    data = msgspec.to_builtins(document.data, str_keys=True)
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


FORMATS: Mapping[str, Callable[[TableDocument], str]] = {
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
    "json": as_json,
}


def escape_markdown(text: str) -> str:
    """Escape text for Markdown and terminals, on one line."""
    return escape_unprintable(text).translate(_MARKDOWN)


def escape_latex(text: str) -> str:
    """Escape text for LaTeX and terminals, on one line."""
    return escape_unprintable(text).translate(_LATEX)


def _markdown_part(part: Table | Note) -> str:
    if isinstance(part, Note):
        return escape_markdown(part.text)
    headings = [f"{column.over} {column.heading}".strip() for column in part.columns]
    lines = [_markdown_row(headings), f"|{'---|' * len(headings)}"]
    lines += [_markdown_row(_row_texts(part, row)) for row in part.all_rows]
    lines += map(escape_markdown, part.notes)
    if part.title:
        lines = [f"**{escape_markdown(part.title)}**", "", *lines]
    return "\n".join(lines)


def _markdown_row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape_markdown, texts))} |"


def _row_texts(table: Table, row: Row) -> list[str]:
    """Return the texts of a row's cells, with its marks after the first."""
    texts = table.texts(row)
    if row.marks:
        texts[0] += f" ({'; '.join(row.marks)})"
    return texts


def _latex_lines(table: Table) -> Iterator[str]:
    if table.title:
        yield f"% {escape_unprintable(table.title)}"
    alignment = "".join("l" if column.text else "r" for column in table.columns)
    yield rf"\begin{{tabular}}{{{alignment}}}"
    yield r"\toprule"
    yield from _latex_headings(table.columns)
    previous_name = None
    for row in table.rows:
        texts = _row_texts(table, row)
        if previous_name is None or (table.sectioned and texts[0] != previous_name):
            yield r"\midrule"
        previous_name = texts[0]
        yield _latex_row(texts, table.columns)
    if table.footer is not None:
        yield r"\midrule"
        yield _latex_row(_row_texts(table, table.footer), table.columns)
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _latex_headings(columns: Sequence[Column]) -> Iterator[str]:
    spans = []
    rules = []
    start = 1
    for over, group in groupby(columns, lambda column: column.over):
        n = len(list(group))
        if over:
            spans.append(rf"\multicolumn{{{n}}}{{c}}{{{escape_latex(over)}}}")
            rules.append(rf"\cmidrule(lr){{{start}-{start + n - 1}}}")
        else:
            spans += [""] * n
        start += n
    if rules:
        yield " & ".join(spans) + r" \\"
        yield " ".join(rules)
    yield _latex_row([column.heading for column in columns], [])


def _latex_row(texts: Sequence[str], columns: Sequence[Column]) -> str:
    cells = []
    for text, column in zip_longest(texts, columns):
        is_text = column is None or column.text
        cells.append(escape_latex(text) if is_text else _latex_cell(text))
    return " & ".join(cells) + r" \\"


def _latex_cell(text: str) -> str:
    if not _NUMBER_OR_INTERVAL.fullmatch(text):
        return escape_latex(text)
    signed = re.sub(r"(?<!\d)-(?=\d)", "$-$", text)
    return re.sub(r"(?<=\d)-(?=\d)", "--", signed)
