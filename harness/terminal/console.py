"""Prints results to stdout, and everything else to stderr."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping

from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from harness.report.table import FORMATS, Table, TableDocument
from harness.report.terminal import render_for_terminal
from harness.report.text import escape_text

PIPED_SIZE = (160, 24)  # columns and lines of output to a file or program, unless COLUMNS is set
_width = None if sys.stdout.isatty() else shutil.get_terminal_size(PIPED_SIZE).columns
output = Console(highlight=False, width=_width)
messages = Console(stderr=True, highlight=False)


def say(text: str, style: str = "") -> None:
    """Print a message to stderr, with control characters escaped and markup not interpreted."""
    messages.print(escape_text(text), style=style or None, soft_wrap=True)


def write(text: str) -> None:
    """Print a line of results to stdout, with control characters escaped."""
    output.print(escape_text(text), soft_wrap=True)


class ExactOutput:
    """A writer of exact data to stdout. It escapes control characters only for a terminal."""

    def write(self, text: str) -> int:
        """Write text, and return its length. For a terminal, control characters are escaped."""
        if sys.stdout.isatty():
            text = escape_text(text).plain
        return sys.stdout.write(text)


def show(document: TableDocument | Table, form: str = "table") -> None:
    """Print a table or document as text tables, or in another of the `FORMATS`."""
    if form == "table" or isinstance(document, Table):
        output.print(render_for_terminal(document))
    else:
        ExactOutput().write(FORMATS[form](document))


def print_listing(listing: RenderableType, data: object, form: str) -> None:
    """Print a listing if ``form`` is "table", and otherwise its ``data`` as JSON."""
    if form == "table":
        output.print(listing)
    else:
        show(TableDocument(parts=[], data=data), form)


def print_facts(facts: Mapping[str, str], style: str = "") -> None:
    """Print one line per fact: its name, and its text in a Rich style."""
    table = Grid.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(style=style, overflow="fold")
    for name, text in facts.items():
        table.add_row(Text(name), escape_text(text))
    output.print(table)
