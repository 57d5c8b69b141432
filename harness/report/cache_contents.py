"""What the cache of paid replies holds, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from harness.report.cells import inert

_WIDE = 75


class Kept(NamedTuple):
    """The replies of one model by one backend.

    size: bytes of the replies themselves.
    oldest, newest: seconds since the epoch.
    """

    backend: str
    model: str
    replies: int
    size: int
    oldest: float
    newest: float


class KeptTable:
    """A row for each model, and the sum; dates go where the terminal is narrow."""

    def __init__(self, kept: Sequence[Kept]) -> None:
        self._kept = kept

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept, wide = self._kept, options.max_width >= _WIDE
        table = Table(
            box=SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0),
            show_footer=len(kept) > 1,
        )  # fmt: skip
        table.add_column("backend", footer="all")
        table.add_column("model")
        total = sum(row.replies for row in kept), sum(row.size for row in kept)
        for heading, footer in (("replies", f"{total[0]:,}"), ("size", size_text(total[1]))):
            table.add_column(heading, footer=footer, justify="right", no_wrap=True)
        for heading in ("oldest", "newest") if wide else ():
            table.add_column(heading, no_wrap=True)
        for row in kept:
            dates = (date_text(row.oldest), date_text(row.newest)) if wide else ()
            figures = f"{row.replies:,}", size_text(row.size)
            table.add_row(inert(row.backend), inert(row.model), *figures, *dates)
        yield table


def date_text(seconds: float) -> str:
    """A day of the local calendar."""
    return datetime.fromtimestamp(seconds).astimezone().date().isoformat()


def size_text(size: float) -> str:
    """Bytes as people read them.

    >>> size_text(1_234_567)
    '1.2 MB'
    """
    units = ["GB", "MB", "kB"]
    if size < 1000:
        return f"{size:.0f} B"
    size /= 1000
    while size >= 999.95 and len(units) > 1:
        size /= 1000
        units.pop()
    return f"{size:.1f} {units[-1]}"
