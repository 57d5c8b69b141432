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
_MIN_TEXT_WIDTH = 12  # minimum width of a text column, unless all its texts are shorter
_MIN_NAME_WIDTH = 18  # minimum width of names, unless all are shorter
_USUAL_NAME_WIDTH = 40  # names get this width before text columns get more than their minimum
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
    before: Table | Note | None = None
    for part in document.parts:
        if parts and not (isinstance(part, Note) and isinstance(before, Note)):
            parts.append("")
        before = part
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
    indent: str = ""


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
    least: int = 0  # minimum width
    limit: int = 0  # maximum width of folded texts
    width: int = 0

    def fold(self, room: int) -> None:
        """Fold texts that are longer than ``room``, and set the width."""
        if self.text:
            room = max(1, min(room, self.limit))
            heading: list[str] = []
            for line in self.heading:
                heading += _wrap_text(line, room)
            self.heading = heading
            self.cells = [_wrap_lines(lines, room) for lines in self.cells]
        heading_width = max(map(cell_len, (*self.heading, self.footer)))
        self.width = max(heading_width, _max_line_width(self.cells))

    def placed(self, text: str) -> str:
        """Return a line of the heading or footer, filled up to the width."""
        blank = " " * (self.width - cell_len(text))
        return text + blank if self.text else blank + text


def _wrap_text(text: str, room: int) -> Sequence[str]:
    if cell_len(text) <= room:
        return [text]
    parts: list[str] = []
    for line in wrap_name(text, room).plain.split("\n"):
        parts += chop_cells(line, room) or [""]
    return parts


def _wrap_lines(lines: Lines, room: int) -> Lines:
    folded_lines = []
    for text, style, indent in lines:
        for part in _wrap_text(text, max(1, room - len(indent))):
            folded_lines.append(_Line(indent + part, style))
    return folded_lines


def _max_line_width(cells: Iterable[Lines]) -> int:
    """Return the width of the widest line of some cells."""
    width = 0
    for lines in cells:
        for line in lines:
            width = max(width, cell_len(line.indent + line.text))
    return width


class _TableView:
    def __init__(self, table: Table, hint: str) -> None:
        self._table = table
        self._hint = hint
        self._rows = list(_row_names(table))
        width = _max_line_width(lines for _, lines in self._rows)
        if table.names:
            width = max(width, cell_len(_names_heading(table)))
        self._least_name = min(_MIN_NAME_WIDTH, width)
        self._usual_name = min(_USUAL_NAME_WIDTH, width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table
        for mark in table.marks:
            yield join_in_line(Text(escape_unprintable(mark), _MARK_STYLE))
        if table.title:
            yield _title_line(table.title)
        if table.headless:
            yield self._facts()
        else:
            yield from self._blocks(options.max_width, console)
        for note in table.notes:
            yield Text(escape_unprintable(note), style="dim")

    def _blocks(self, width: int, console: Console) -> RenderResult:
        columns = self._columns(fold=False)
        if not self._fit(columns, width, self._usual_name):
            columns = self._columns(fold=True)
        hidden: list[_Column] = []
        visible = columns
        for column in sorted(columns, key=lambda column: column.hide):
            if column.hide and not self._fit(visible, width):
                hidden.append(column)
                visible = [c for c in visible if c is not column]
        for number, block in enumerate(self._packed(visible, width)):
            if number:
                yield ""
            yield from self._block(block, width, console)
        if hidden:
            names = ", ".join(column.name for column in columns if column in hidden)
            hint = f" ({self._hint})" if self._hint else ""
            note = f"Hidden: the terminal is too narrow for {names}{hint}."
            yield Text(note, style="dim")

    def _facts(self) -> RichTable:
        facts = RichTable.grid(padding=(0, 2, 0, 0))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column()
        for row in self._table.rows:
            texts = []
            for cell, text in zip(row.cells, self._table.texts(row), strict=True):
                texts.append(Text(escape_unprintable(text), _style(cell)))
            facts.add_row(*texts)
        return facts

    def _columns(self, *, fold: bool) -> list[_Column]:
        places = range(self._table.names, len(self._table.columns))
        return [self._column(place, fold=fold) for place in places]

    def _column(self, place: int, *, fold: bool) -> _Column:
        table = self._table
        column = table.columns[place]
        texts = [escape_unprintable(column.show(row.cells[place])) for row in table.all_rows]
        room = _heading_room(column, texts, fold=fold)
        heading = _heading_lines(column, room)
        if not column.text:
            texts = align_errors(texts)
        full = max(map(cell_len, [*heading, *texts]))
        cells: list[Lines] = []
        for row, _ in self._rows:
            if row is None:
                cells.append(())
                continue
            text = texts[row]
            if not column.text:
                text = text.rjust(full)
            cells.append([_Line(text, _style(table.rows[row].cells[place]))])
        narrowest = full
        if column.text:
            narrowest = min(full, _MIN_TEXT_WIDTH if fold else max(_MIN_TEXT_WIDTH, room))
        return _Column(
            heading,
            cells,
            footer=texts[-1] if table.footer else "",
            text=column.text,
            name=escape_unprintable(f"{column.over} {column.heading}".strip()),
            over=column.over,
            hide=column.hide,
            least=narrowest,
        )

    def _packed(self, columns: Sequence[_Column], width: int) -> Iterator[list[_Column]]:
        """Yield the columns of each block, with those below a shared heading in the same one."""
        block: list[_Column] = []
        for over, members in groupby(columns, lambda column: column.over):
            parts = [[column] for column in members]
            group = [column for [column] in parts]
            if over and self._fit(group, width):
                parts = [group]
            for part in parts:
                if block and not self._fit([*block, *part], width):
                    yield block
                    block = []
                block = [*block, *part]
        if block:
            yield block

    def _fit(self, columns: Sequence[_Column], width: int, name: int | None = None) -> bool:
        widths = [column.least for column in columns]
        if self._table.names:
            widths.append(self._least_name if name is None else name)
        return sum(widths) + _GAP * (len(widths) - 1) <= width

    def _block(self, block: Sequence[_Column], width: int, console: Console) -> Iterator[Segment]:
        table = self._table
        footer = table.footer
        spare = max(0, width - sum(column.least + _GAP for column in block) - self._usual_name)
        columns = list(block)
        for column in block:
            column.limit = column.least + spare
        if table.names:
            names = [lines for _, lines in self._rows]
            last = escape_unprintable(table.texts(footer)[0]) if footer else ""
            heading = [escape_unprintable(_names_heading(table))]
            columns.insert(0, _Column(heading, names, last, limit=width))
        _fit_columns(columns, width)
        height = max(len(drawn.heading) for drawn in columns)
        rule = "─" * (sum(drawn.width for drawn in columns) + _GAP * (len(columns) - 1))
        bold = console.get_style("bold")
        for number in range(height, 0, -1):
            texts = []
            for drawn in columns:
                begins = len(drawn.heading) >= number
                texts.append(drawn.heading[-number] if begins else "")
            yield from _line_segments(columns, texts, bold)
        yield from (Segment(rule), Segment.line())
        yield from _row_segments(columns, console)
        if footer:
            yield from (Segment(rule), Segment.line())
            yield from _line_segments(columns, [drawn.footer for drawn in columns], bold)


def _line_segments(
    columns: Sequence[_Column], texts: Sequence[str], style: Style
) -> Iterator[Segment]:
    """Yield a line of the heading or footer."""
    placed = [column.placed(text) for column, text in zip(columns, texts, strict=True)]
    yield Segment((" " * _GAP).join(placed), style)
    yield Segment.line()


def _heading_room(column: Column, texts: Sequence[str], *, fold: bool) -> int:
    """Return the width at which a column's heading is folded."""
    if not fold:
        return max(cell_len(column.over), cell_len(escape_unprintable(column.heading)))
    room = _MAX_UNFOLDED_SUBHEADING if column.over else _MAX_UNFOLDED_HEADING
    if column.text:  # texts may be narrowed
        return room
    return max([room, *map(cell_len, texts)])


def _heading_lines(column: Column, room: int) -> list[str]:
    headings = [column.heading]
    if cell_len(column.heading) > room:
        headings = column.heading.replace(" ± s.e.", "\n± s.e.").split("\n")
    lines: list[str] = []
    for heading in (column.over, *headings):
        if heading:
            lines += wrap_name(heading, room).plain.split("\n")
    return lines or [""]


def _fit_columns(columns: Sequence[_Column], width: int) -> None:
    """Fold the texts of columns so that they fit the width, if possible."""
    room = width - _GAP * (len(columns) - 1)
    for column in columns:
        column.fold(room)
    narrowed = [column for column in columns if column.text]
    widths = {id(column): column.width for column in columns}
    while narrowed and sum(widths.values()) > room:
        widest = max(narrowed, key=lambda column: widths[id(column)])
        if widths[id(widest)] <= 1:
            break
        widths[id(widest)] -= 1
    for column in narrowed:
        if widths[id(column)] < column.width:
            column.fold(widths[id(column)])


def _row_segments(columns: Sequence[_Column], console: Console) -> Iterator[Segment]:
    """Yield the lines of all rows. Texts without a style are joined, which saves most time."""
    end = Segment.line()
    gap = " " * _GAP
    styles: dict[str, Style] = {}
    blank = _Line("")
    for cells in zip(*(column.cells for column in columns), strict=True):
        for number in range(max(map(len, cells))):
            plain = ""
            for column, lines in zip(columns, cells, strict=True):
                line = lines[number] if number < len(lines) else blank
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
    """Yield the index of each row (None: the head of a section) and the lines that name it."""
    before = None
    for number, row in enumerate(table.rows):
        texts = [escape_unprintable(text) for text in table.texts(row)[: table.names]]
        inner = texts.pop() if table.sectioned else ""
        lines = _name_lines(table, texts)
        lines += [_Line(escape_unprintable(mark), "yellow") for mark in row.marks]
        if not table.sectioned:
            yield number, lines
            continue
        if lines != before:
            yield None, lines
        before = lines
        yield number, [_Line(inner, indent=_INDENT)]


def _name_lines(table: Table, texts: Sequence[str]) -> list[_Line]:
    """Return the lines for a row's names: its first name, and the others as settings."""
    if not texts:
        return [_Line("", "bold" if table.names > 1 else "")]
    lines = [_Line(texts[0], "bold" if table.names > 1 else "")]
    headings = [column.heading for column in table.columns]
    pairs = zip(headings[1:], texts[1:], strict=False)
    settings = ", ".join(f"{heading}={text}" for heading, text in pairs)
    if settings:
        lines.append(_Line(settings))
    return lines


def _style(cell: object) -> str:
    return cell.style if isinstance(cell, Cell) else ""


def align_errors(cells: Sequence[str]) -> list[str]:
    """Return a column's texts, padded so that values and standard errors are aligned.

    >>> align_errors(["100.0", "65.0 ± 6.1"])
    ['100.0      ', ' 65.0 ± 6.1']
    """
    parted = [cell.partition(" ± ") for cell in cells]
    before = max((len(value) for value, *_ in parted), default=0)
    after = max((len(error) for *_, error in parted), default=0)
    if not after:
        return list(cells)
    texts = []
    for value, plus_minus, error in parted:
        padding = " " * (before - len(value))
        texts.append(padding + value + (plus_minus or "   ") + error.rjust(after))
    return texts
