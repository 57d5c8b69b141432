"""A results table in a terminal: models with their groups as rows, figures as columns.

All figures stand side by side where there is room, with their standard errors or without;
else in several tables, as many in each as fit, and in the end a figure's columns are parted.
No figure is cut, and nothing is set in bold: the best of several uncertain values is not told
by looking.

>>> Console(width=80).print(results_table(found))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from harness.analysis.cross_table import CrossTable, TableRow
from harness.report.ablation_figures import whole
from harness.report.ablation_table import folded
from harness.report.cells import column_width, empty_table, inert, one_line
from harness.report.cross_table_figures import aligned, captions, cell_text, group_of, settings_text

LEAST_NAME = 18
"""Columns of a name, if it is longer: the rest is folded."""

_LEAST_HEADING = 8
_INDENT = "  "


def results_table(found: CrossTable) -> RenderableType:
    """The table, with what must be said of it."""
    title = one_line(Text(", ").join(map(inert, found.tasks)))
    title.stylize("bold")
    notes = [Text(caption, style="dim") for caption in captions(found)]
    return Group(title, "", _Figures(found), "", *notes)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A column as text. figure, group: its heading, in two parts."""

    figure: str
    group: str
    cells: list[str]

    def heading(self, with_figure: bool) -> Text:
        least = max(_LEAST_HEADING, *map(cell_len, self.cells))
        parts = [self.figure] if with_figure else []
        parts += [self.group] if self.group else []
        return Text("\n").join([folded(part, least) for part in parts])

    def cell(self, at: int, with_figure: bool) -> str:
        """As wide as the column."""
        return self.cells[at].rjust(self._widest(with_figure))

    def width(self, with_figure: bool) -> int:
        return column_width(self._widest(with_figure))

    def _widest(self, with_figure: bool) -> int:
        lines = self.heading(with_figure).plain.split("\n")
        return max(map(cell_len, [*lines, *self.cells]))


class _Figures:
    """The figures in as many tables as the width asks for."""

    def __init__(self, found: CrossTable) -> None:
        self._found = found
        self._sections = _sections(found.rows)
        self._names = [whole(figure.name) for figure in found.figures]
        names = [whole(row.group) for row in found.rows] if found.row_label else []
        names += [line for rows in self._sections for line in _section_lines(rows[0])]
        self._least = min(LEAST_NAME, max(map(cell_len, names)) + len(_INDENT))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        with_errors, without = self._figures(stderr=True), self._figures(stderr=False)
        for figures in (with_errors, without):
            if self._fits([column for figure in figures for column in figure], width):
                chosen = figures
                break
        else:
            fitting = all(self._fits(figure, width, False) for figure in with_errors)
            chosen = with_errors if fitting else without
        for number, block in enumerate(self._packed(chosen, width)):
            if number:
                yield ""
            several = len({column.figure for column in block}) > 1 or len(self._names) == 1
            if not several:
                yield folded(block[0].figure, width, "bold")
            yield self._table(block, width, several)
        if chosen is without:
            left_out = "Left out for want of room: standard errors (--format markdown)."
            yield Text(left_out, style="dim")

    def _figures(self, *, stderr: bool) -> list[list[_Shown]]:
        """The columns of each figure."""
        found: list[list[_Shown]] = [[] for _ in self._names]
        for at, column in enumerate(self._found.columns):
            figure = self._found.figures[column.figure]
            texts = [cell_text(row.cells[at], figure, stderr=stderr) for row in self._found.rows]
            group = whole(group_of(self._found, column))
            shown = _Shown(self._names[column.figure], group, aligned(texts))
            found[column.figure].append(shown)
        return found

    def _fits(self, block: Sequence[_Shown], width: int, with_figure: bool = True) -> bool:
        return self._least + sum(column.width(with_figure) for column in block) <= width

    def _packed(self, figures: Sequence[list[_Shown]], width: int) -> Iterator[list[_Shown]]:
        """As many whole figures in a table as fit; one that is too wide, in several."""
        block: list[_Shown] = []
        for figure in figures:
            if block and not self._fits([*block, *figure], width):
                yield from self._parted(block, width)
                block = []
            block = [*block, *figure]
        yield from self._parted(block, width)

    def _parted(self, block: list[_Shown], width: int) -> Iterator[list[_Shown]]:
        """A block in as many as it needs; a column is never parted."""
        several = len({column.figure for column in block}) > 1 or len(self._names) == 1
        while block:
            fitting = 1
            while fitting < len(block) and self._fits(block[: fitting + 1], width, several):
                fitting += 1
            yield block[:fitting]
            block = block[fitting:]

    def _table(self, block: Sequence[_Shown], width: int, with_figure: bool) -> Table:
        room = max(1, width - sum(column.width(with_figure) for column in block))
        table = empty_table()
        label = whole(self._found.row_label or "model")  # the notes have it, too
        table.add_column(Text(label if cell_len(label) <= room else ""), max_width=room)
        for column in block:
            heading = column.heading(with_figure)
            heading.justify = "right"
            # Not right, too: that takes away the blanks behind a figure without an error.
            table.add_column(heading, no_wrap=True)
        at = 0
        for rows in self._sections:
            name = _section_name(rows[0], room)
            if self._found.row_label:
                table.add_row(name)
            for row in rows:
                if self._found.row_label:
                    inner = folded(row.group, max(1, room - len(_INDENT))).plain.split("\n")
                    name = Text("\n".join(f"{_INDENT}{line}" for line in inner))
                table.add_row(name, *(Text(column.cell(at, with_figure)) for column in block))
                at += 1
        return table

    def _left_out(self, stderr: bool) -> Iterator[RenderableType]:
        if not stderr:
            yield Text(
                "Left out for want of room: standard errors (--format markdown).", style="dim"
            )


def _sections(rows: Sequence[TableRow]) -> list[list[TableRow]]:
    """The rows of one model and its settings together, as they stand."""
    found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[TableRow]] = {}
    for row in rows:
        key = row.model, tuple(row.settings.values()), tuple(row.marks)
        found.setdefault(key, []).append(row)
    return list(found.values())


def _section_lines(row: TableRow) -> list[str]:
    return [whole(text) for text in (row.model, settings_text(row), *row.marks) if text]


def _section_name(row: TableRow, room: int) -> Text:
    lines = [folded(row.model, room, "bold")]
    if row.settings:
        lines.append(folded(settings_text(row), room))
    lines += [folded(mark, room, "yellow") for mark in row.marks]
    return Text("\n").join(lines)
