"""A table of attempts as CSV: exact data, for programs.

A text is always in quotes, with its newlines as they are and its quotes doubled (RFC 4180); what
is not known is nothing at all, so that it differs from the empty text, which is two quotes.
Nothing is put before a text that a spreadsheet would take for a formula: the data would be
others. Read it there as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from harness.exchange.attempt_rows import AttemptRows, Cell


def write_csv(rows: AttemptRows, file: TextIO) -> None:
    """Write the table with a line of names; lines end with a newline alone.

    file: open for text in UTF-8 that changes no newline.
    """
    file.write(_line(rows.columns))
    for row in rows:
        file.write(_line(row))


def _line(cells: Iterable[Cell]) -> str:
    return ",".join([_cell(cell) for cell in cells]) + "\n"


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return '"' + cell.replace('"', '""') + '"'
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return repr(cell)
