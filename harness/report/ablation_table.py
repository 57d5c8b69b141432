"""An ablation in a terminal: what each variant gains, what each field adds, which claims hold.

Owns the layout. Where the terminal is narrow, columns are left out and said to
be, and long names are folded: no figure is ever cut.

>>> Console(width=80).print(ablation_table(findings))  # doctest: +SKIP
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from harness.analysis.ablation import Ablation, AblationRow
from harness.analysis.claims import ClaimVerdict, FieldGain, Findings
from harness.report.ablation_figures import (
    by_mean,
    by_percent,
    by_size,
    captions,
    cells,
    field_cells,
    field_notes,
    whole,
)
from harness.report.cells import inert

LEAST_NAME = 24
"""Columns of a name, if it is longer: the rest is folded."""

_GROUPS, _INTERVAL, _P = 0, 4, 5
"""Places of figures in `cells`."""

_HEADING = 16

_STYLES = {
    "holds": "bold green",
    "undecided": "yellow",
    "does not hold": "bold red",
    "not tested": "dim",
}


def ablation_table(findings: Findings) -> RenderableType:
    """The rows with their notes, the fields, the claims."""
    names = [findings.table.task, findings.table.model or ""]
    title = Text("  ").join(inert(name) for name in names if name)
    title.stylize("bold")
    title.no_wrap, title.overflow = True, "ellipsis"
    parts: list[RenderableType] = [title, "", _Rows(findings.table)]
    if findings.table.by:
        parts += ["", _ByGroups(findings.table)]
    if findings.fields:
        parts += ["", _Fields(findings)]
    if findings.claims:
        parts += ["", _claims(findings.claims)]
    if any(claim.verdict in ("holds", "undecided") for claim in findings.claims):
        parts.append(
            _note(
                "holds: more, and so is all of the 95% interval; undecided: more, but the "
                "interval includes 0."
            )
        )
    if findings.silent and (findings.fields or findings.claims):
        silent = ", ".join(inert(name).plain for name in findings.silent)
        parts.append(
            _note(
                "In no field or claim, for they are incomplete, simulated, or differ from the "
                f"baseline in more than the prompt: {silent}."
            )
        )
    return Group(*parts)


class _Rows:
    """The variants; narrow, first the number of groups goes, then the interval, then p."""

    def __init__(self, table: Ablation) -> None:
        self._table = table
        self._over = inert(table.over).plain
        self._figures = [list(cells(row, self._over).values()) for row in table.rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = list(cells(self._table.rows[0], self._over))
        headings = [folded(name, _HEADING) for name in names]
        widths = [
            _wide([*heading.plain.split("\n"), *(figures[place] for figures in self._figures)])
            for place, heading in enumerate(headings)
        ]
        shown = list(range(len(names)))
        for place in (_GROUPS, _INTERVAL, _P):
            if _least(self._table) + sum(widths[kept] for kept in shown) > options.max_width:
                shown.remove(place)
        name_width = max(1, options.max_width - sum(widths[place] for place in shown))
        table = _table()
        table.add_column("variant", max_width=name_width)
        for place in shown:
            table.add_column(headings[place], justify="right", no_wrap=True)
        for row, figures in zip(self._table.rows, self._figures, strict=True):
            table.add_row(_name(row, name_width), *(Text(figures[place]) for place in shown))
        yield table
        left_out = [name for place, name in enumerate(names) if place not in shown]
        if left_out:
            yield _note(f"Left out for want of room: {', '.join(left_out)} (--format markdown).")
        yield from map(_note, captions(self._table))


class _ByGroups:
    """Mean and gain of each variant in each group: as many tables as the width asks for."""

    def __init__(self, table: Ablation) -> None:
        self._table = table
        self._groups = list(table.rows[0].by)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = self._table.rows
        columns = []
        for name in self._groups:
            heading = folded(name, _HEADING).append(f"\n{by_size(self._table, name)}")
            figures = [f"{by_mean(row, name):>6} {by_percent(row, name):>7}" for row in rows]
            columns.append((heading, figures, _wide([*heading.plain.split("\n"), *figures])))
        least = _least(self._table)
        while columns:
            fitting = 1
            while (
                fitting < len(columns)
                and least + sum(width for *_, width in columns[: fitting + 1]) <= options.max_width
            ):
                fitting += 1
            shown, columns = columns[:fitting], columns[fitting:]
            room = max(1, options.max_width - sum(width for *_, width in shown))
            table = _table()
            table.add_column("variant", max_width=room)
            for heading, *_ in shown:
                table.add_column(heading, no_wrap=True)
            for place, row in enumerate(rows):
                table.add_row(
                    folded(row.variant, room), *(figures[place] for _, figures, _ in shown)
                )
            yield table
            if columns:
                yield ""
        yield _note("Mean x 100, and the gain over the baseline's in per cent.")


def _least(table: Ablation) -> int:
    """Columns that the variants' names must have."""
    return min(LEAST_NAME, max(cell_len(inert(row.variant).plain) for row in table.rows))


class _Fields:
    """What each single field adds; narrow, the interval goes first, then the names are folded."""

    def __init__(self, findings: Findings) -> None:
        self._over = inert(findings.table.over).plain
        self._gains = findings.fields

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = [(self._names(gain), field_cells(gain)) for gain in self._gains]
        headings = ["difference", "95%", f"more on ({self._over})"]
        widths = [
            _wide([heading, *(figures[place] for _, figures in rows)])
            for place, heading in enumerate(headings)
        ]
        places = [0, 1, 2]
        for least in (2, 1):
            if options.max_width - sum(widths[place] for place in places) < LEAST_NAME:
                places.remove(least)
        room = max(1, options.max_width - sum(widths[place] for place in places))
        table = _table()
        table.add_column("field added", max_width=room)
        for place in places:
            table.add_column(Text(headings[place]), justify="right", no_wrap=True)
        for names, figures in rows:
            told = Text("\n").join(folded(name, room, style) for name, style in names)
            table.add_row(told, *(Text(figures[place]) for place in places))
        yield table
        yield from map(_note, field_notes(self._gains))

    @staticmethod
    def _names(gain: FieldGain) -> Iterator[tuple[str, str]]:
        yield f"{gain.field}{'†' if gain.other_forms else ''}", ""
        yield f" {gain.less} → {gain.more}", "dim"


def _claims(claims: list[ClaimVerdict]) -> Table:
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for claim in claims:
        said = Text.assemble(
            f"“{whole(claim.says)}” ", (f"{whole(claim.source)}: ", "dim"), whole(claim.evidence)
        )
        facts.add_row(Text(claim.verdict, style=_STYLES[claim.verdict]), said)
    return facts


def _name(row: AblationRow, width: int) -> Text:
    lines = [folded(row.variant, width)]
    lines += [folded(mark, width, "yellow") for mark in row.marks]
    return Text("\n").join(lines)


def folded(name: str, width: int, style: str = "") -> Text:
    """A name from data in as many lines as it needs, broken behind _ . - and spaces.

    >>> folded("definition_prompt_avoid", 12).plain.split()
    ['definition_', 'prompt_avoid']
    """
    lines = [""]
    for piece in re.findall(r"[^_.\s-]+[_.\s-]?|[_.\s-]", whole(name)):
        if cell_len(lines[-1]) + cell_len(piece.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece
    return Text("\n".join(line.rstrip() for line in lines), style=style, overflow="fold")


def _note(text: str) -> Text:
    return Text(text, style="dim")


def _wide(texts: list[str]) -> int:
    """What a further column takes, with the space before it."""
    return 2 + max(map(cell_len, texts))


def _table() -> Table:
    return Table(
        box=SIMPLE, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold"
    )
