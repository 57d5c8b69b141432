"""Documents and tables in a terminal of any width. No number is ever cut.

If a table is too wide, columns are shortened (to values without errors), then hidden (those that
allow it, with a note), and what still does not fit continues in another table below, with the names
repeated.

>>> Console(width=80).print(terminal(document))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from harness.report.table import Cell, Note, Row, Table, TableDocument
from harness.report.text import folded, one_line, printable

_MARK = "bold yellow"
_HEADING = 12
_HEADING_BELOW = 8
"""Fewest characters of a heading, and of one below a shared heading, before it is folded."""
_LEAST_TEXT = 10
_GENEROUS = 40
"""Characters of a name that come before further columns of text."""
_GAP = 2
_INDENT = "  "


def terminal(document: TableDocument | Table, hint: str = "") -> RenderableType:
    """Render a document or a table; ``hint`` is how to see hidden columns."""
    if isinstance(document, Table):
        return _Drawn(document, hint)
    if not hint and document.data is not None:
        hint = "--format markdown"
    parts: list[RenderableType] = [Text(printable(mark), _MARK) for mark in document.marks]
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


@dataclass(frozen=True, slots=True)
class _Folded:
    """Text that is folded to the width of its column."""

    lines: Sequence[_Line]

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, max(map(cell_len, (text.plain for text in self._at(options)))))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._at(options)

    def _at(self, options: ConsoleOptions) -> Iterator[Text]:
        for text, style, indent in self.lines:
            room = max(1, options.max_width - len(indent))
            for part in folded(text, room).plain.split("\n"):
                yield Text(indent + part, style, overflow="fold")


@dataclass(frozen=True, slots=True)
class _Shown:
    """A column as it is drawn; the texts of its cells end with the footer's."""

    place: int
    name: str
    over: str
    heading: Text
    cells: Sequence[str]
    text: bool
    hide: int

    @property
    def full(self) -> int:
        """The width of its widest line."""
        return max(map(cell_len, [*self.heading.plain.split("\n"), *self.cells]))

    @property
    def least(self) -> int:
        """The width of its widest line once text is folded."""
        return min(self.full, _LEAST_TEXT) if self.text else self.full


class _Drawn:
    """A table that is laid out once the width is known."""

    def __init__(self, table: Table, hint: str) -> None:
        self._table = table
        self._hint = hint
        self._names = list(_names(table))
        heading = [_Line(table.columns[table.names - 1].heading)] if table.names else []
        lines = [*heading, *(line for _, lines in self._names for line in lines)]
        full = max((cell_len(line.indent + line.text) for line in lines), default=0)
        self._full_name = full
        self._least_name = min(table.name_width, full)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table
        for mark in table.marks:
            yield one_line(Text(printable(mark), _MARK))
        if table.title:
            yield _titled(table.title)
        if table.headless:
            yield self._facts()
        else:
            blocks, hidden = self._arranged(options.max_width)
            for number, block in enumerate(blocks):
                if number:
                    yield ""
                yield self._block(block, options.max_width)
            if hidden:
                hint = f" ({self._hint})" if self._hint else ""
                told = f"Hidden: the terminal is too narrow for {', '.join(hidden)}{hint}."
                yield Text(told, style="dim")
        for note in table.notes:
            yield Text(printable(note), style="dim")

    def _facts(self) -> RichTable:
        facts = RichTable.grid(padding=(0, 2, 0, 0))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column()
        for row in self._table.rows:
            texts = zip(row.cells, self._table.texts(row), strict=True)
            facts.add_row(*(Text(printable(text), _style(cell)) for cell, text in texts))
        return facts

    def _arranged(self, width: int) -> tuple[list[list[_Shown]], list[str]]:
        """Return the tables that fit below each other, and the names of hidden columns."""
        full, brief = self._columns(brief=False), self._columns(brief=True)
        shortened = any(one.cells != other.cells for one, other in zip(full, brief, strict=True))
        errors = ["standard errors"]
        if self._fit(full, width):
            return [full], []
        if shortened and self._fit(brief, width):
            return [brief], errors
        shown = list(full)
        for column in sorted((one for one in full if one.hide), key=lambda one: one.hide):
            if self._fit(shown, width):
                break
            shown.remove(column)
        hidden = [one.name for one in full if one not in shown]
        if self._fit(shown, width):
            return [shown], hidden
        if shortened and not all(self._fit(group, width) for group in _groups(shown)):
            places = {one.place for one in shown}
            shown, hidden = [one for one in brief if one.place in places], [*hidden, *errors]
        return list(self._packed(shown, width)), hidden

    def _packed(self, columns: Sequence[_Shown], width: int) -> Iterator[list[_Shown]]:
        """Yield tables with as many columns as fit; those with a shared heading stay together."""
        block: list[_Shown] = []
        for group in _groups(columns):
            whole = self._fit(group, width)
            for part in [group] if whole else [[column] for column in group]:
                if block and not self._fit([*block, *part], width):
                    yield block
                    block = []
                block = [*block, *part]
            if block and not whole:
                yield block
                block = []
        if block:
            yield block

    def _fit(self, columns: Sequence[_Shown], width: int) -> bool:
        widths = [one.least for one in columns] + ([self._least_name] if self._table.names else [])
        return sum(widths) + _GAP * (len(widths) - 1) <= width

    def _columns(self, *, brief: bool) -> list[_Shown]:
        table = self._table
        rows = [*table.rows, *([table.footer] if table.footer else [])]
        found = []
        for place, column in enumerate(table.columns[table.names :], start=table.names):
            texts = []
            for row in rows:
                cell = row.cells[place]
                short = cell.brief if brief and isinstance(cell, Cell) else None
                texts.append(printable(column.show(cell) if short is None else short))
            least = max([_HEADING_BELOW if column.over else _HEADING, *map(cell_len, texts)])
            headings = [column.over, *column.heading.replace(" ± s.e.", "\n± s.e.").split("\n")]
            if cell_len(column.heading) <= least:
                headings = [column.over, column.heading]
            heading = Text("\n").join(folded(part, least) for part in headings if part)
            name = " ".join(printable(part) for part in (column.over, column.heading) if part)
            shown = texts if column.text else aligned(texts)
            found.append(_Shown(place, name, column.over, heading, shown, column.text, column.hide))
        return found

    def _rooms(self, block: Sequence[_Shown], width: int) -> dict[int, int]:
        """Return the most characters of each column of text where texts are cut, not folded.

        Names come first, up to a point, since a cut name cannot be typed.
        """
        if self._table.fold:
            return {}
        spare = width - sum(one.least + _GAP for one in block) - self._least_name
        spare -= min(spare, max(0, min(self._full_name, _GENEROUS) - self._least_name))
        rooms = {}
        for one in block:
            if one.text:
                rooms[one.place] = min(one.full, one.least + max(0, spare))
                spare -= rooms[one.place] - one.least
        return rooms

    def _block(self, block: Sequence[_Shown], width: int) -> RichTable:
        table, footer, rooms = self._table, self._table.footer, self._rooms(block, width)
        drawn = RichTable(
            box=SIMPLE,
            show_edge=False,
            show_footer=footer is not None,
            padding=(0, 1, 0, 0),
            pad_edge=False,
            header_style="bold",
            footer_style="bold",
        )
        if table.names:
            drawn.add_column(
                one_line(Text(printable(table.columns[table.names - 1].heading))),
                footer=Text(printable(table.texts(footer)[0])) if footer else "",
            )
        for one in block:
            last = one.cells[-1] if footer else ""
            if one.text:
                drawn.add_column(one.heading, footer=last, max_width=rooms.get(one.place))
                continue
            one.heading.justify = "right"
            # Padded here: right-justified text would lose the blanks that align its errors.
            drawn.add_column(one.heading, footer=Text(last.rjust(one.full)), no_wrap=True)
        for at, lines in self._names:
            name = _Folded(lines) if table.fold else one_line(Text(lines[0].text))
            cells = [] if at is None else [self._cell(table.rows[at], one, at) for one in block]
            drawn.add_row(*([name] if table.names else []), *cells)
        return drawn

    def _cell(self, row: Row, column: _Shown, at: int) -> RenderableType:
        text, style = column.cells[at], _style(row.cells[column.place])
        if not column.text:
            return Text(text.rjust(column.full), style)
        if self._table.fold:
            return _Folded([_Line(text, style)])
        return one_line(Text(text, style))


def _names(table: Table) -> Iterator[tuple[int | None, list[_Line]]]:
    """Yield the lines that name each row, with its index; None for the head of a section."""
    before = None
    for at, row in enumerate(table.rows):
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
            yield at, lines
            continue
        if lines != before:
            yield None, lines
        before = lines
        yield at, [_Line(inner, indent=_INDENT)]


def _style(cell: object) -> str:
    return cell.style if isinstance(cell, Cell) else ""


def _groups(columns: Sequence[_Shown]) -> list[list[_Shown]]:
    """Group columns with a shared heading; every other column is separate."""
    found: list[list[_Shown]] = []
    for over, group in groupby(columns, lambda one: one.over):
        members = list(group)
        found += [members] if over else [[one] for one in members]
    return found


def aligned(cells: Sequence[str]) -> list[str]:
    """Pad the texts of a column so that values stand under values, and errors under errors.

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
