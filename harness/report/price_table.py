"""The prices of models, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.config.prices import Entry, Price, Rates
from harness.report.cells import inert
from harness.report.transcript import inert_text

_UNSTATED = "-"
_OWN = "*"


def price_table(entries: Sequence[Entry], own_file: str | None) -> RenderableType:
    """A row for each model, below its host, with sources and notes at the foot.

    own_file: the user's file, whose rows are marked.
    """
    table = Table(box=SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", overflow="fold")
    for heading in ("input", "cached", "output", "batch"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("as of", no_wrap=True)
    table.add_column("", no_wrap=True)
    notes: dict[str, int] = {}
    host = None
    for entry in entries:
        if entry.host != host:
            if host is not None:
                table.add_row()
            host = entry.host
            table.add_row(Text(inert(host).plain, style="bold", overflow="fold"))
        table.add_row(
            Text(inert(entry.model).plain, overflow="fold"),
            *_figures(entry.price),
            str(entry.as_of or _UNSTATED),
            _marks(entry, notes),
        )
        if long := entry.price.long_context:
            above = Text(f"  above {long.above_tokens:,} tokens in", style="dim")
            table.add_row(above, *(Text(figure, style="dim") for figure in _figures(long)))
    return Group(table, Text(), *_foot(entries, notes, own_file))


def _marks(entry: Entry, notes: dict[str, int]) -> str:
    """The marks of a row; what they stand for is numbered as it is met."""
    until = f"until {entry.until}" if entry.until else None
    said = [text for text in (entry.source, until, entry.note) if text]
    marks = [str(notes.setdefault(text, len(notes) + 1)) for text in said]
    return " ".join([_OWN, *marks] if entry.own else marks)


def _figures(rates: Price | Rates) -> tuple[str, str, str, str]:
    batch = _UNSTATED
    if not rates.batch_input is rates.batch_output is None:
        batch = f"{_usd(rates.batch_input)}/{_usd(rates.batch_output)}"
    return _usd(rates.input), _usd(rates.cached_input), _usd(rates.output), batch


def _usd(figure: float | None) -> str:
    """A figure in full, never rounded.

    >>> _usd(0.0375), _usd(30.0), _usd(None)
    ('0.0375', '30', '-')
    """
    if figure is None:
        return _UNSTATED
    text = format(Decimal(repr(figure)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _foot(entries: Sequence[Entry], notes: dict[str, int], own_file: str | None) -> list[Table]:
    foot = Table.grid(padding=(0, 1, 0, 0))
    foot.add_column(no_wrap=True, justify="right", style="dim")
    foot.add_column(overflow="fold", style="dim")
    for text, number in notes.items():
        foot.add_row(str(number), inert_text(text))
    if own_file is not None and any(entry.own for entry in entries):
        foot.add_row(_OWN, inert_text(f"yours: {own_file}"))
    foot.add_row("", "US dollars per million tokens; batch is input/output; - is not stated.")
    return [foot]
