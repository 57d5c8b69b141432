"""A table of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell.

    text: from anywhere: it is made inert where it is shown.
    href: an anchor of the page.
    notes: what must be said beside it, as badges.
    whole: what it is short for; empty where it is whole.
    """

    text: str
    href: str = ""
    notes: tuple[str, ...] = ()
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first columns are names and whose others are figures.

    label: what it is, for who cannot see it.
    names: how many columns are names.
    """

    label: str
    headings: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    names: int = 1


def table(
    label: str, headings: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1
) -> Table:
    """A table of plain texts."""
    return Table(label, tuple(headings), [[Cell(text) for text in row] for row in rows], names)
