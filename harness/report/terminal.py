"""Shows documents and tables in a terminal, fitted to its width.

If a table is too wide, headings and texts are folded first, then columns are hidden and named in a
note. Columns that still do not fit follow in another table below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from harness.report.table import Cell, Note, Table, TableDocument
from harness.report.text import folded, one_line, printable

_MARK = "bold yellow"
_HEADING = 12  # headings up to this many characters are not folded in a table that is too wide
_HEADING_BELOW = 8  # the same for headings below a shared one
_LEAST_TEXT = 12  # minimum width of a text column, unless all its texts are shorter
_LEAST_NAME = 18  # minimum width of names, unless all are shorter
_USUAL_NAME = 40  # names get this width before text columns get more than their minimum
_GAP = 2
_INDENT = "  "


def terminal(document: TableDocument | Table) -> RenderableType:
    """Render a document or a table for the terminal."""
    if isinstance(document, Table):
        return _Drawn(document, "")
    hint = "--format markdown" if document.data is not None else ""
    marks = [Text(printable(mark), _MARK) for mark in document.marks]
    parts: list[RenderableType] = []
    if document.title and not any(" " in mark for mark in document.marks):
        title = Text(printable(document.title), "bold")
        parts.append(one_line(Text("  ").join([*marks, title])))  # such as SIMULATED
    else:
        parts += marks
        if document.title:
            parts.append(_titled(document.title))
    before: Table | Note | None = None
    for part in document.parts:
        if parts and not (isinstance(part, Note) and isinstance(before, Note)):
            parts.append("")
        before = part
        if isinstance(part, Note):
            parts.append(Text(printable(part.text), part.style))
        else:
            parts.append(_Drawn(part, hint))
    return Group(*parts)


def _titled(title: str) -> Text:
    return one_line(Text(printable(title), "bold"))


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
            self.heading = [part for line in self.heading for part in _parts(line, room)]
            self.cells = [
                [
                    _Line(indent + part, style)
                    for text, style, indent in lines
                    for part in _parts(text, max(1, room - len(indent)))
                ]
                for lines in self.cells
            ]
        widths = {cell_len(line.indent + line.text) for lines in self.cells for line in lines}
        self.width = max([*widths, *map(cell_len, (*self.heading, self.footer))])

    def placed(self, text: str) -> str:
        """Return a line of the heading or footer, filled up to the width."""
        blank = " " * (self.width - cell_len(text))
        return text + blank if self.text else blank + text


def _parts(text: str, room: int) -> Sequence[str]:
    if cell_len(text) <= room:
        return [text]
    lines = folded(text, room).plain.split("\n")
    return [part for line in lines for part in chop_cells(line, room) or [""]]


class _Drawn:
    def __init__(self, table: Table, hint: str) -> None:
        self._table = table
        self._hint = hint
        self._rows = list(_names(table))
        widths = [cell_len(_names_heading(table))] if table.names else [0]
        for _, lines in self._rows:
            widths += [cell_len(line.indent + line.text) for line in lines]
        self._least_name = min(_LEAST_NAME, max(widths))
        self._usual_name = min(_USUAL_NAME, max(widths))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table
        for mark in table.marks:
            yield one_line(Text(printable(mark), _MARK))
        if table.title:
            yield _titled(table.title)
        if table.headless:
            yield self._facts()
        else:
            yield from self._blocks(options.max_width, console)
        for note in table.notes:
            yield Text(printable(note), style="dim")

    def _blocks(self, width: int, console: Console) -> RenderResult:
        columns = list(self._columns(fold=False))
        if not self._fit(columns, width, self._usual_name):
            columns = list(self._columns(fold=True))
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
            texts = zip(row.cells, self._table.texts(row), strict=True)
            facts.add_row(*(Text(printable(text), _style(cell)) for cell, text in texts))
        return facts

    def _columns(self, *, fold: bool) -> Iterator[_Column]:
        table = self._table
        rows = [*table.rows, *([table.footer] if table.footer else [])]
        for place, column in enumerate(table.columns[table.names :], start=table.names):
            texts = [printable(column.show(row.cells[place])) for row in rows]
            parts = [part for part in (column.over, column.heading) if part]
            if fold:
                widths = [] if column.text else map(cell_len, texts)  # texts may be narrowed
                room = max([_HEADING_BELOW if column.over else _HEADING, *widths])
            else:
                room = max(cell_len(column.over), cell_len(printable(column.heading)))
            name = " ".join(map(printable, parts))
            if cell_len(column.heading) > room:
                parts = [column.over, *column.heading.replace(" ± s.e.", "\n± s.e.").split("\n")]
            lines = Text("\n").join(folded(part, room) for part in parts if part)
            heading = lines.plain.split("\n")
            texts = texts if column.text else aligned(texts)
            full = max(map(cell_len, [*heading, *texts]))
            cells: list[Lines] = []
            for row, _ in self._rows:
                if row is None:
                    cells.append(())
                    continue
                text = texts[row] if column.text else texts[row].rjust(full)
                cells.append([_Line(text, _style(table.rows[row].cells[place]))])
            least_text = _LEAST_TEXT if fold else max(_LEAST_TEXT, room)
            yield _Column(
                heading,
                cells,
                footer=texts[-1] if table.footer else "",
                text=column.text,
                name=name,
                over=column.over,
                hide=column.hide,
                least=min(full, least_text) if column.text else full,
            )

    def _packed(self, columns: Sequence[_Column], width: int) -> Iterator[list[_Column]]:
        """Yield the columns of each block, with those below a shared heading in the same one."""
        block: list[_Column] = []
        for over, members in groupby(columns, lambda column: column.over):
            group = list(members)
            keep_together = over and self._fit(group, width)
            for part in [group] if keep_together else [[column] for column in group]:
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
            last = printable(table.texts(footer)[0]) if footer else ""
            heading = [printable(_names_heading(table))]
            columns.insert(0, _Column(heading, names, last, limit=width))
        _fit_columns(columns, width)
        height = max(len(drawn.heading) for drawn in columns)
        rule = "─" * (sum(drawn.width for drawn in columns) + _GAP * (len(columns) - 1))
        gap = " " * _GAP
        bold = console.get_style("bold")
        for number in range(height):
            texts = []
            for drawn in columns:
                skipped = height - len(drawn.heading)
                text = drawn.heading[number - skipped] if number >= skipped else ""
                texts.append(drawn.placed(text))
            yield from (Segment(gap.join(texts), bold), Segment.line())
        yield from (Segment(rule), Segment.line())
        yield from _row_segments(columns, console)
        if footer:
            texts = [drawn.placed(drawn.footer) for drawn in columns]
            yield from (Segment(rule), Segment.line())
            yield from (Segment(gap.join(texts), bold), Segment.line())


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
    names = {line.style for column in columns for lines in column.cells for line in lines}
    styles = {name: console.get_style(name) for name in names if name}
    blank = _Line("")
    for cells in zip(*(column.cells for column in columns), strict=True):
        for number in range(max(map(len, cells))):
            plain = ""
            for column, lines in zip(columns, cells, strict=True):
                line = lines[number] if number < len(lines) else blank
                text = line.indent + line.text
                if column is not columns[0]:
                    plain += " " * _GAP
                if line.style:
                    yield from (Segment(plain), Segment(text, styles[line.style]))
                    plain = ""
                else:
                    plain += text
                plain += " " * (column.width - cell_len(text))
            yield from (Segment(plain), end)


def _names_heading(table: Table) -> str:
    return table.columns[table.names - 1 if table.sectioned else 0].heading


def _names(table: Table) -> Iterator[tuple[int | None, list[_Line]]]:
    """Yield the index of each row (None: the head of a section) and the lines that name it."""
    before = None
    for number, row in enumerate(table.rows):
        texts = [printable(text) for text in table.texts(row)[: table.names]]
        inner = texts.pop() if table.sectioned else ""
        settings = ", ".join(
            f"{column.heading}={text}"
            for column, text in zip(table.columns[1:], texts[1:], strict=False)
        )
        lines = [_Line(texts[0] if texts else "", "bold" if table.names > 1 else "")]
        lines += [_Line(settings)] if settings else []
        lines += [_Line(printable(mark), "yellow") for mark in row.marks]
        if not table.sectioned:
            yield number, lines
            continue
        if lines != before:
            yield None, lines
        before = lines
        yield number, [_Line(inner, indent=_INDENT)]


def _style(cell: object) -> str:
    return cell.style if isinstance(cell, Cell) else ""


def aligned(cells: Sequence[str]) -> list[str]:
    """Return a column's texts, padded so that values and standard errors are aligned.

    >>> aligned(["100.0", "65.0 ± 6.1"])
    ['100.0      ', ' 65.0 ± 6.1']
    """
    parted = [cell.partition(" ± ") for cell in cells]
    before = max((len(value) for value, *_ in parted), default=0)
    after = max((len(error) for *_, error in parted), default=0)
    if not after:
        return list(cells)
    return [
        f"{value:>{before}} ± {error:>{after}}" if error else f"{value:>{before}}{'':{after + 3}}"
        for value, _, error in parted
    ]
