"""A comparison of runs in a terminal: a row for each run, and for each group.

Where the terminal is narrow, columns are left out and said to be; no figure is cut.

>>> Console(width=80).print(comparison_table(found))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from harness.analysis.comparison import Comparison
from harness.analysis.run_comparison import Against, RunComparison
from harness.report.ablation_table import folded
from harness.report.cells import column_width, empty_table, inert, one_line
from harness.report.comparison_figures import HEADINGS, captions, cells, details

LEAST_NAME = 20

_EXPENDABLE = ("n", "baseline", "run", "worse", "better", "p", "95%")
"""What is left out for want of room, in this order."""


def comparison_table(found: RunComparison, *, brief: bool = False) -> RenderableType:
    """The runs, what is known of each, its groups, and the notes.

    brief: the runs and the notes alone.
    """
    title = one_line(inert(f"{found.task}: against {found.baseline}"))
    title.stylize("bold")
    parts: list[RenderableType] = [title]
    if found.marks:
        parts.append(Text(f"{found.baseline}: {', '.join(found.marks)}", style="bold yellow"))
    marks = {one.run: one.marks for one in found.others}
    parts += ["", _Rows("run", {one.run: one.overall for one in found.others}, marks)]
    for one in () if brief else found.others:
        parts += ["", *_about(one, found)]
    parts.append("")
    parts += [Text(caption, style="dim") for caption in captions(found)]
    return Group(*parts)


def _about(one: Against, found: RunComparison) -> list[RenderableType]:
    told = Text(" ".join(details(one, found)))
    name = inert(one.run)
    name.stylize("bold")
    parts: list[RenderableType] = [Text.assemble(name, ": ", told)]
    if one.groups:
        parts += ["", _Rows(found.asked.by, one.groups, {})]
    if one.constraints:
        changes = {kind: change.comparison for kind, change in one.constraints.items()}
        parts += ["", _Rows("constraint", changes, {})]
    return parts


class _Rows:
    """Comparisons by name."""

    def __init__(
        self,
        label: str,
        comparisons: Mapping[str, Comparison],
        marks: Mapping[str, Sequence[str]],
    ) -> None:
        self._label = label
        self._figures = {name: cells(found) for name, found in comparisons.items()}
        self._marks = marks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = {
            heading: column_width(
                max(map(cell_len, [heading, *(row[at] for row in self._figures.values())]))
            )
            for at, heading in enumerate(HEADINGS)
        }
        marks = (mark for said in self._marks.values() for mark in said)
        longest = max(cell_len(inert(name).plain) for name in (self._label, *self._figures, *marks))
        shown = list(HEADINGS)
        for heading in _EXPENDABLE:
            if min(LEAST_NAME, longest) + sum(widths[kept] for kept in shown) > options.max_width:
                shown.remove(heading)
        room = max(1, options.max_width - sum(widths[heading] for heading in shown))
        table = empty_table()
        table.add_column(inert(self._label), max_width=room)
        for heading in shown:
            table.add_column(heading, justify="right", no_wrap=True)
        for name, figures in self._figures.items():
            said = folded(name, room)
            for mark in self._marks.get(name, ()):
                said = Text("\n").join([said, folded(mark, room, "yellow")])
            kept = [figures[HEADINGS.index(heading)] for heading in shown]
            table.add_row(said, *map(Text, kept))
        yield table
        left_out = [heading for heading in HEADINGS if heading not in shown]
        if left_out:
            yield Text(
                f"Left out for want of room: {', '.join(left_out)} (--format markdown).",
                style="dim",
            )
