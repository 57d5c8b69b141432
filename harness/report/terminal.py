"""Shows documents and tables in a terminal, fitted to its width.

If a table is too wide, headings and texts are folded first, then columns are hidden and named in a
note. Columns that still do not fit follow in another table below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from harness.report.table import Cell, Column, Note, Table, TableDocument
from harness.report.text import escape_unprintable, join_in_line, wrap_name

_MARK_STYLE = "bold yellow"
_MAX_UNFOLDED_HEADING = (
    12  # headings up to this many characters are not folded in a table that is too wide
)
_MAX_UNFOLDED_SUBHEADING = 8  # the same for headings below a shared one
_MIN_TEXT_WIDTH = 12  # of text columns, unless all texts are shorter
_MIN_NAME_WIDTH = 18  # of names, unless all are shorter
_PREFERRED_NAME_WIDTH = 40  # names get this width before text columns exceed their minimum
_GAP = 2
_INDENT = "  "


def render_for_terminal(document: TableDocument | Table) -> RenderableType:
    """Render a document or a table for the terminal."""
    if isinstance(document, Table):
        return _TableView(document, "")
    hint = "--format markdown" if document.data is not None else ""
    marks = [Text(escape_unprintable(mark), _MARK_STYLE) for mark in document.marks]
    parts: list[RenderableType] = []
    if document.title and not any(" " in mark for mark in document.marks):
        title = Text(escape_unprintable(document.title), "bold")
        parts.append(join_in_line(Text("  ").join([*marks, title])))  # such as SIMULATED
    else:
        parts += marks
        if document.title:
            parts.append(_title_line(document.title))
    previous_part: Table | Note | None = None
    for part in document.parts:
        if parts and not (isinstance(part, Note) and isinstance(previous_part, Note)):
            parts.append("")
        previous_part = part
        if isinstance(part, Note):
            parts.append(Text(escape_unprintable(part.text), part.style))
        else:
            parts.append(_TableView(part, hint))
    return Group(*parts)


def _title_line(title: str) -> Text:
    return join_in_line(Text(escape_unprintable(title), "bold"))


class _Line(NamedTuple):
    text: str
    style: str = ""
    indent: str = ""  # before the text and before its folded lines


Lines = Sequence[_Line]  # of a cell


@dataclass(slots=True, eq=False)
class _Column:
    """A column: the lines of its heading, its rows' cells and its footer."""

    heading: Sequence[str]
    cells: Sequence[Lines]
    footer: str
    text: bool = True  # left-aligned, and may be folded
    name: str = ""
    over: str = ""
    hide: int = 0
    min_width: int = 0
    max_width: int = 0  # of folded texts
    width: int = 0

    def fold(self, max_width: int) -> None:
        """Fold the texts of a text column to at most ``max_width`` cells, and set the width."""
        if self.text:
            max_width = max(1, min(max_width, self.max_width))
            heading: list[str] = []
            for line in self.heading:
                heading += _wrap_text(line, max_width)
            self.heading = heading
            self.cells = [_wrap_lines(lines, max_width) for lines in self.cells]
        heading_width = max(map(cell_len, (*self.heading, self.footer)))
        self.width = max(heading_width, _max_line_width(self.cells))

    def pad(self, text: str) -> str:
        """Pad a line of the heading or footer to the column's width."""
        blank = " " * (self.width - cell_len(text))
        return text + blank if self.text else blank + text


def _wrap_text(text: str, max_width: int) -> Sequence[str]:
    if cell_len(text) <= max_width:
        return [text]
    parts: list[str] = []
    for line in wrap_name(text, max_width).plain.split("\n"):
        parts += chop_cells(line, max_width) or [""]
    return parts


def _wrap_lines(lines: Lines, max_width: int) -> Lines:
    folded_lines = []
    for text, style, indent in lines:
        for part in _wrap_text(text, max(1, max_width - len(indent))):
            folded_lines.append(_Line(indent + part, style))
    return folded_lines


def _max_line_width(cells: Iterable[Lines]) -> int:
    """Return the width of the widest line of all cells."""
    width = 0
    for lines in cells:
        for line in lines:
            width = max(width, cell_len(line.indent + line.text))
    return width


class _TableView:
    """A table that rich can print, fitted to the console's width.

    ``hint`` is the option that shows all columns, for a note on hidden ones, or "".
    """

    def __init__(self, table: Table, hint: str) -> None:
        self._table = table
        self._hint = hint
        self._rows = list(_row_names(table))
        width = _max_line_width(lines for _, lines in self._rows)
        if table.names:
            width = max(width, cell_len(_names_heading(table)))
        self._min_name_width = min(_MIN_NAME_WIDTH, width)
        self._preferred_name_width = min(_PREFERRED_NAME_WIDTH, width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table
        for mark in table.marks:
            yield join_in_line(Text(escape_unprintable(mark), _MARK_STYLE))
        if table.title:
            yield _title_line(table.title)
        if table.headless:
            yield self._render_facts()
        else:
            yield from self._render_blocks(options.max_width, console)
        for note in table.notes:
            yield Text(escape_unprintable(note), style="dim")

    def _render_blocks(self, width: int, console: Console) -> RenderResult:
        columns = self._layout_columns(fold=False)
        if not self._fits(columns, width, self._preferred_name_width):
            columns = self._layout_columns(fold=True)
        hidden: list[_Column] = []
        visible = columns
        for column in sorted(columns, key=lambda column: column.hide):
            if column.hide and not self._fits(visible, width):
                hidden.append(column)
                visible = [other for other in visible if other is not column]
        for index, block in enumerate(self._pack(visible, width)):
            if index:
                yield ""
            yield from self._render_block(block, width, console)
        if hidden:
            names = ", ".join(column.name for column in columns if column in hidden)
            hint = f" ({self._hint})" if self._hint else ""
            note = f"Hidden: the terminal is too narrow for {names}{hint}."
            yield Text(note, style="dim")

    def _render_facts(self) -> RichTable:
        facts = RichTable.grid(padding=(0, 2, 0, 0))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column()
        for row in self._table.rows:
            texts = []
            for cell, text in zip(row.cells, self._table.texts(row), strict=True):
                texts.append(Text(escape_unprintable(text), _style(cell)))
            facts.add_row(*texts)
        return facts

    def _layout_columns(self, *, fold: bool) -> list[_Column]:
        indices = range(self._table.names, len(self._table.columns))
        return [self._layout_column(index, fold=fold) for index in indices]

    def _layout_column(self, index: int, *, fold: bool) -> _Column:
        table = self._table
        column = table.columns[index]
        texts = [escape_unprintable(column.format(row.cells[index])) for row in table.all_rows]
        heading_width = _heading_width(column, texts, fold=fold)
        heading = _heading_lines(column, heading_width)
        if not column.text:
            texts = align_errors(texts)
        full_width = max(map(cell_len, [*heading, *texts]))
        cells: list[Lines] = []
        for row_index, _ in self._rows:
            if row_index is None:
                cells.append(())
                continue
            text = texts[row_index]
            if not column.text:
                text = text.rjust(full_width)
            cells.append([_Line(text, _style(table.rows[row_index].cells[index]))])
        min_width = full_width
        if column.text:
            min_text_width = _MIN_TEXT_WIDTH if fold else max(_MIN_TEXT_WIDTH, heading_width)
            min_width = min(full_width, min_text_width)
        return _Column(
            heading,
            cells,
            footer=texts[-1] if table.footer else "",
            text=column.text,
            name=escape_unprintable(f"{column.over} {column.heading}".strip()),
            over=column.over,
            hide=column.hide,
            min_width=min_width,
        )

    def _pack(self, columns: Sequence[_Column], width: int) -> Iterator[list[_Column]]:
        """Yield the columns of each block. Those of a shared heading stay together if possible."""
        block: list[_Column] = []
        for over, members in groupby(columns, lambda column: column.over):
            group = list(members)
            parts = [group] if over and self._fits(group, width) else [[column] for column in group]
            for part in parts:
                if block and not self._fits([*block, *part], width):
                    yield block
                    block = []
                block = [*block, *part]
        if block:
            yield block

    def _fits(self, columns: Sequence[_Column], width: int, name_width: int | None = None) -> bool:
        """Return whether columns fit next to names of the given width (None: their minimum)."""
        widths = [column.min_width for column in columns]
        if self._table.names:
            widths.append(self._min_name_width if name_width is None else name_width)
        return sum(widths) + _GAP * (len(widths) - 1) <= width

    def _render_block(
        self, block: Sequence[_Column], width: int, console: Console
    ) -> Iterator[Segment]:
        table = self._table
        footer = table.footer
        spare_width = max(
            0, width - sum(column.min_width + _GAP for column in block) - self._preferred_name_width
        )
        columns = list(block)
        for column in block:
            column.max_width = column.min_width + spare_width
        if table.names:
            names = [lines for _, lines in self._rows]
            footer_name = escape_unprintable(table.texts(footer)[0]) if footer else ""
            heading = [escape_unprintable(_names_heading(table))]
            columns.insert(0, _Column(heading, names, footer_name, max_width=width))
        _fit_columns(columns, width)
        height = max(len(column.heading) for column in columns)
        rule = "─" * (sum(column.width for column in columns) + _GAP * (len(columns) - 1))
        bold = console.get_style("bold")
        for line in range(height):
            texts = []
            for column in columns:
                first_line = height - len(column.heading)  # headings are aligned at the bottom
                texts.append(column.heading[line - first_line] if line >= first_line else "")
            yield from _line_segments(columns, texts, bold)
        yield from (Segment(rule), Segment.line())
        yield from _row_segments(columns, console)
        if footer:
            yield from (Segment(rule), Segment.line())
            yield from _line_segments(columns, [column.footer for column in columns], bold)


def _line_segments(
    columns: Sequence[_Column], texts: Sequence[str], style: Style
) -> Iterator[Segment]:
    """Yield a line of the heading or footer."""
    padded_texts = [column.pad(text) for column, text in zip(columns, texts, strict=True)]
    yield Segment((" " * _GAP).join(padded_texts), style)
    yield Segment.line()


def _heading_width(column: Column, texts: Sequence[str], *, fold: bool) -> int:
    """Return the maximum width of a column's heading, above which it is folded."""
    if not fold:
        return max(cell_len(column.over), cell_len(escape_unprintable(column.heading)))
    max_width = _MAX_UNFOLDED_SUBHEADING if column.over else _MAX_UNFOLDED_HEADING
    if column.text:  # texts may be folded as well
        return max_width
    return max([max_width, *map(cell_len, texts)])


def _heading_lines(column: Column, max_width: int) -> list[str]:
    headings = [column.heading]
    if cell_len(column.heading) > max_width:
        headings = column.heading.replace(" ± s.e.", "\n± s.e.").split("\n")
    lines: list[str] = []
    for heading in (column.over, *headings):
        if heading:
            lines += wrap_name(heading, max_width).plain.split("\n")
    return lines or [""]


def _fit_columns(columns: Sequence[_Column], width: int) -> None:
    """Fold the texts of columns to fit a total width, if possible, and set the columns' widths."""
    total_width = width - _GAP * (len(columns) - 1)
    for column in columns:
        column.fold(total_width)
    text_columns = [column for column in columns if column.text]
    widths = {id(column): column.width for column in columns}
    while text_columns and sum(widths.values()) > total_width:
        widest = max(text_columns, key=lambda column: widths[id(column)])
        if widths[id(widest)] <= 1:
            break
        widths[id(widest)] -= 1
    for column in text_columns:
        if widths[id(column)] < column.width:
            column.fold(widths[id(column)])


def _row_segments(columns: Sequence[_Column], console: Console) -> Iterator[Segment]:
    """Yield the lines of all rows. Texts without a style are joined in one segment, for speed."""
    end = Segment.line()
    gap = " " * _GAP
    styles: dict[str, Style] = {}
    blank = _Line("")
    for cells in zip(*(column.cells for column in columns), strict=True):
        for line_index in range(max(map(len, cells))):
            plain = ""
            for column, lines in zip(columns, cells, strict=True):
                line = lines[line_index] if line_index < len(lines) else blank
                text = line.indent + line.text
                if column is not columns[0]:
                    plain += gap
                if line.style:
                    if line.style not in styles:
                        styles[line.style] = console.get_style(line.style)
                    yield Segment(plain)
                    yield Segment(text, styles[line.style])
                    plain = ""
                else:
                    plain += text
                plain += " " * (column.width - cell_len(text))
            yield Segment(plain)
            yield end


def _names_heading(table: Table) -> str:
    return table.columns[table.names - 1 if table.sectioned else 0].heading


def _row_names(table: Table) -> Iterator[tuple[int | None, list[_Line]]]:
    """Yield the index of each row, or None for the head of a section, and the lines of its name."""
    previous_lines = None
    for index, row in enumerate(table.rows):
        texts = [escape_unprintable(text) for text in table.texts(row)[: table.names]]
        inner_name = texts.pop() if table.sectioned else ""
        lines = _name_lines(table, texts)
        lines += [_Line(escape_unprintable(mark), "yellow") for mark in row.marks]
        if not table.sectioned:
            yield index, lines
            continue
        if lines != previous_lines:
            yield None, lines
        previous_lines = lines
        yield index, [_Line(inner_name, indent=_INDENT)]


def _name_lines(table: Table, texts: Sequence[str]) -> list[_Line]:
    """Return the lines of a row's names: the first name, and the others as ``HEADING=NAME``."""
    style = "bold" if table.names > 1 else ""
    if not texts:
        return [_Line("", style)]
    lines = [_Line(texts[0], style)]
    headings = [column.heading for column in table.columns]
    pairs = zip(headings[1:], texts[1:], strict=False)
    settings = ", ".join(f"{heading}={text}" for heading, text in pairs)
    if settings:
        lines.append(_Line(settings))
    return lines


def _style(cell: object) -> str:
    return cell.style if isinstance(cell, Cell) else ""


def align_errors(cells: Sequence[str]) -> list[str]:
    """Pad the texts of a column so that values and standard errors are aligned.

    >>> align_errors(["100.0", "65.0 ± 6.1"])
    ['100.0      ', ' 65.0 ± 6.1']
    """
    parts = [cell.partition(" ± ") for cell in cells]
    value_width = max((len(value) for value, *_ in parts), default=0)
    error_width = max((len(error) for *_, error in parts), default=0)
    if not error_width:
        return list(cells)
    texts = []
    for value, plus_minus, error in parts:
        sign = plus_minus or "   "
        texts.append(value.rjust(value_width) + sign + error.rjust(error_width))
    return texts
