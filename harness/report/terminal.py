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

from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from harness.report.table import Cell, Note, Row, Table, TableDocument
from harness.report.text import folded, inert, one_line, printable

_MARK = "bold yellow"
_HEADING = 12
_HEADING_BELOW = 8
"""Fewest characters of a heading, and of one below a shared heading, before it is folded."""
_LEAST_TEXT = 10
_GENEROUS = 40
"""Characters of a name, before further room goes to columns of text."""
_INDENT = "  "


def terminal(document: TableDocument | Table, hint: str = "") -> RenderableType:
    """Render a document or a table with `rich`.

    Args:
        document: What to show.
        hint: How to see hidden columns; by default another format, if available.
    """
    if isinstance(document, Table):
        return _Drawn(document, hint)
    if not hint and document.data is not None:
        hint = "--format markdown"
    parts: list[RenderableType] = [Text(printable(mark), _MARK) for mark in document.marks]
    if document.title:
        parts.append(titled(document.title))
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


def titled(title: str) -> Text:
    """Return a headline on one line."""
    return one_line(Text(printable(title), "bold"))


def grid() -> RichTable:
    """Return an empty list of facts, with columns for name and value."""
    facts = RichTable.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    return facts


@dataclass(frozen=True, slots=True)
class _Shown:
    """A column as it is drawn.

    Attributes:
        cells: Its texts, the footer last; numbers are padded to align.
        full: The width of its widest line.
        least: The same, after folding text.
    """

    place: int
    name: str
    over: str
    heading: Text
    cells: Sequence[str]
    text: bool
    hide: int

    @property
    def full(self) -> int:
        return max(map(cell_len, [*self.heading.plain.split("\n"), *self.cells]))

    @property
    def least(self) -> int:
        return min(self.full, _LEAST_TEXT) if self.text else self.full


class _Drawn:
    """A table that is laid out once the width is known."""

    def __init__(self, table: Table, hint: str) -> None:
        self._table = table
        self._hint = hint

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table
        for mark in table.marks:
            yield one_line(Text(printable(mark), _MARK))
        if table.title:
            yield titled(table.title)
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
        facts = grid()
        for row in self._table.rows:
            facts.add_row(
                *(
                    Text(printable(text), cell.style if isinstance(cell, Cell) else "")
                    for cell, text in zip(row.cells, self._table.texts(row), strict=True)
                )
            )
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
        gap = 2 if self._table.names else 0
        return self._least_name() + sum(one.least + 2 for one in columns) - 2 + gap <= width

    def _least_name(self) -> int:
        return min(self._table.name_width, self._full_name())

    def _full_name(self) -> int:
        table = self._table
        if not table.names:
            return 0
        said = [table.columns[table.names - 1].heading]
        for row in table.rows:
            lines, inner = self._name_lines(row)
            said += [*lines, *row.marks, *([_INDENT + inner] if inner else [])]
        return max(cell_len(printable(text)) for text in said)

    def _name_lines(self, row: Row) -> tuple[list[str], str]:
        """Return the lines that name a row or its section, and its name within the section."""
        table = self._table
        texts = table.texts(row)[: table.names]
        inner = texts.pop() if table.sectioned else ""
        first, *others = texts
        headings = [column.heading for column in table.columns[1:]]
        pairs = zip(headings, others, strict=False)
        settings = ", ".join(f"{name}={text}" for name, text in pairs)
        return [text for text in (first, settings) if text], inner

    def _columns(self, *, brief: bool) -> list[_Shown]:
        table = self._table
        rows = [*table.rows, *([table.footer] if table.footer else [])]
        found = []
        for place in range(table.names, len(table.columns)):
            column = table.columns[place]
            texts = []
            for row in rows:
                cell = row.cells[place]
                short = cell.brief if brief and isinstance(cell, Cell) else None
                texts.append(printable(column.show(cell) if short is None else short))
            least = max([_HEADING_BELOW if column.over else _HEADING, *map(cell_len, texts)])
            headings = [column.over, *column.heading.replace(" ± s.e.", "\n± s.e.").split("\n")]
            if cell_len(column.heading) <= least:
                headings = [column.over, column.heading]
            lines = [folded(part, least) for part in headings if part]
            name = " ".join(printable(part) for part in (column.over, column.heading) if part)
            shown = texts if column.text else aligned(texts)
            heading = Text("\n").join(lines)
            found.append(_Shown(place, name, column.over, heading, shown, column.text, column.hide))
        return found

    def _block(self, block: Sequence[_Shown], width: int) -> RichTable:
        table = self._table
        drawn = RichTable(
            box=SIMPLE,
            show_edge=False,
            show_footer=table.footer is not None,
            padding=(0, 1, 0, 0),
            pad_edge=False,
            header_style="bold",
            footer_style="bold",
        )
        # Names come first, up to a point; then texts; what is left is the names' again.
        names = max(self._least_name(), min(self._full_name(), _GENEROUS))
        spare = width - sum(one.least + 2 for one in block) - self._least_name()
        names = max(1, min(names, self._least_name() + spare))
        spare -= names - self._least_name()
        room = {}
        for one in block:
            more = max(0, min(spare, one.full - one.least))
            room[one.place] = one.least + more
            spare -= more
        names = max(1, names + spare)
        footer = [] if table.footer is None else table.texts(table.footer)
        if table.names:
            heading = printable(table.columns[table.names - 1].heading)
            drawn.add_column(
                Text(heading if cell_len(heading) <= names else ""),
                footer=Text(printable(footer[0])) if footer else "",
                max_width=names,
            )
        for one in block:
            last = one.cells[-1] if footer else ""
            if one.text:
                drawn.add_column(one.heading, footer=last, max_width=room[one.place])
                continue
            one.heading.justify = "right"
            # Padded here: right-justified text would lose the blanks that align its errors.
            drawn.add_column(one.heading, footer=Text(last.rjust(one.full)), no_wrap=True)
        before = None
        for at, row in enumerate(table.rows):
            name = self._name(row, names) if table.names else None
            if table.sectioned:
                lines, inner = self._name_lines(row)
                if (lines, row.marks) != before:
                    drawn.add_row(name)
                before = lines, row.marks
                parts = folded(inner, max(1, names - len(_INDENT))).plain.split("\n")
                name = Text("\n".join(f"{_INDENT}{part}" for part in parts))
            cells = [self._cell(row, one, one.cells[at], room[one.place]) for one in block]
            drawn.add_row(*([] if name is None else [name]), *cells)
        return drawn

    def _name(self, row: Row, room: int) -> Text:
        table = self._table
        lines, _ = self._name_lines(row)
        style = "bold" if table.names > 1 else ""
        if not table.fold:
            return inert(lines[0] if lines else "")
        first = [folded(line, room, "" if at else style) for at, line in enumerate(lines)]
        return Text("\n").join([*first, *(folded(mark, room, "yellow") for mark in row.marks)])

    def _cell(self, row: Row, column: _Shown, text: str, room: int) -> Text:
        cell = row.cells[column.place]
        style = cell.style if isinstance(cell, Cell) else ""
        if not column.text:
            return Text(text.rjust(column.full), style)
        return folded(text, room, style) if self._table.fold else one_line(Text(text, style))


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
