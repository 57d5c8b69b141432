"""A matrix of runs in a terminal: columns have the numbers of the rows, and no figure is cut.

Where the terminal is narrow, columns are put below each other.

>>> Console(width=80).print(matrix_table(matrix))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from harness.analysis.rankings import InducedRankings
from harness.analysis.run_comparison import PairMatrix
from harness.report.ablation_figures import whole
from harness.report.ablation_table import folded
from harness.report.cells import column_width, empty_table, inert, one_line
from harness.report.matrix_figures import (
    RUN_HEADINGS,
    matrix_captions,
    p_cells,
    ranking_captions,
    run_cells,
    run_name,
    scoring_names,
    tau_cells,
    value_text,
)

LEAST_NAME = 18
"""Columns of a name, if it is longer: the rest is folded."""


def matrix_table(matrix: PairMatrix, rankings: InducedRankings | None = None) -> RenderableType:
    """The runs, the matrix, what each group makes of the runs, and the notes."""
    title = one_line(inert(f"{matrix.task}: {matrix.score}"))
    title.stylize("bold")
    names = [f"{number} {run_name(row)}" for number, row in enumerate(matrix.rows, start=1)]
    numbers = [str(number) for number in range(1, len(names) + 1)]
    marks = [row.marks for row in matrix.rows]
    parts: list[RenderableType] = [
        title,
        "",
        NumberedTable("run", names, RUN_HEADINGS, [run_cells(row) for row in matrix.rows], marks),
    ]
    several = len(matrix.rows) > 1
    if several:
        parts += ["", NumberedTable("p", names, numbers, p_cells(matrix))]
    captions = matrix_captions(matrix)
    if rankings is not None:
        captions += ranking_captions(rankings)
        if rankings.label:
            parts += ["", _groups(rankings, numbers)]
    if rankings is not None and several:
        scorings = [f"{at} {name}" for at, name in enumerate(scoring_names(rankings), start=1)]
        columns = [str(at) for at in range(1, len(scorings))]  # the last one's are all in its row
        cells = [row[:-1] for row in tau_cells(rankings)]
        parts += ["", NumberedTable("tau-b", scorings[1:], columns, cells[1:], first=scorings[0])]
    return Group(*parts, "", *(Text(caption, style="dim") for caption in captions))


def _groups(found: InducedRankings, numbers: Sequence[str]) -> RenderableType:
    chosen = [one for one in found.scorings if one.kind == "group"]
    names = [one.name for one in chosen]
    cells = [[value_text(value) for value in one.values] for one in chosen]
    return NumberedTable(found.label, names, numbers, cells)


class NumberedTable:
    """Rows of figures by name; as many columns in each table as fit.

    first: a row's name that stands above without figures.
    """

    def __init__(
        self,
        label: str,
        names: Sequence[str],
        headings: Sequence[str],
        cells: Sequence[Sequence[str]],
        marks: Sequence[Sequence[str]] = (),
        first: str = "",
    ) -> None:
        self._label = label
        self._names = [first, *names] if first else list(names)
        self._headings = headings
        self._cells = [[""] * len(headings), *cells] if first else list(cells)
        self._marks = marks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        said = [self._label, *self._names, *(mark for marks in self._marks for mark in marks)]
        least = min(LEAST_NAME, max(cell_len(whole(text)) for text in said))
        blocks: list[list[int]] = [[]]
        left = options.max_width - least
        for at in range(len(self._headings)):
            width = column_width(self._width(at))
            if blocks[-1] and width > left:
                blocks.append([])
                left = options.max_width - least
            blocks[-1].append(at)
            left -= width
        for number, block in enumerate(blocks):
            if number:
                yield ""
            room = options.max_width - sum(column_width(self._width(at)) for at in block)
            yield self._table(block, max(1, room))

    def _width(self, at: int) -> int:
        return max(map(cell_len, [self._headings[at], *(row[at] for row in self._cells)]))

    def _table(self, block: Sequence[int], room: int) -> RenderableType:
        table = empty_table()
        table.add_column(Text(whole(self._label)), max_width=room)
        for at in block:
            table.add_column(self._headings[at], justify="right", no_wrap=True)
        for number, (name, row) in enumerate(zip(self._names, self._cells, strict=True)):
            shown = folded(name, room)
            for mark in self._marks[number] if self._marks else ():
                shown = Text("\n").join([shown, folded(mark, room, "yellow")])
            table.add_row(shown, *(Text(row[at]) for at in block))
        return table
