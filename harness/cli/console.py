"""The two streams of the command line: results on stdout, everything else on stderr."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from harness.report.text import inert_text

if TYPE_CHECKING:
    from harness.report.table import Table, TableDocument

PIPED = (160, 24)
"""Width and height of output to a file or another program, unless COLUMNS is set."""

output = Console(
    highlight=False, width=None if sys.stdout.isatty() else shutil.get_terminal_size(PIPED).columns
)
messages = Console(stderr=True, highlight=False)


def say(text: str, style: str = "") -> None:
    """Print a message on stderr, without markup or control characters."""
    messages.print(inert_text(text), style=style or None, soft_wrap=True)


def write(text: str) -> None:
    """Print a line of the results, without markup or control characters."""
    output.print(inert_text(text), soft_wrap=True)


class ExactOutput:
    """Stdout for data that go to a file or a program unchanged.

    Only a terminal would obey control characters, so what is written to one is escaped.
    """

    def write(self, text: str) -> int:
        """Write text as it is, or escaped to a terminal."""
        return sys.stdout.write(inert_text(text).plain if sys.stdout.isatty() else text)


def show(document: TableDocument | Table, form: str = "table") -> None:
    """Print tables; formats other than the table may go to a file, so they are not folded."""
    from harness.report.table import FORMATS, Table
    from harness.report.terminal import terminal

    if form == "table" or isinstance(document, Table):
        output.print(terminal(document))
    else:
        ExactOutput().write(FORMATS[form](document))


def show_facts(facts: Mapping[str, str], style: str = "") -> None:
    """Print facts by name, one per line."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(style=style, overflow="fold")
    for name, value in facts.items():
        table.add_row(Text(name), Text(value))
    output.print(table)
