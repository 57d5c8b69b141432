"""Markdown for the card and the report of a benchmark; text from a corpus is never markup.

>>> print(table(["level", "n"], [["word", 3]]))
| level | n |
|---|---:|
| word | 3 |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Cell = str | int | float | None


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Format a table; columns of numbers are aligned right."""
    cells = [list(row) for row in rows]
    numeric = [
        bool(cells) and all(isinstance(row[column], int | float | None) for row in cells)
        for column in range(len(head))
    ]
    rule = "|".join("---:" if each else "---" for each in numeric)
    lines = [" | ".join(head), *(" | ".join(map(_cell, row)) for row in cells)]
    return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])])


def quoted(text: str, longest: int) -> str:
    """Format a text as a quotation of at most ``longest`` characters."""
    shown = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "\n".join(f"> {inline(line)}" if line else ">" for line in shown.splitlines())


def inline(text: str) -> str:
    """Format a text on one line, with every character of Markdown or HTML escaped."""
    return "".join(
        f"\\{c}" if c in "\\`*_[]<>|#&~!$" else c for c in " ".join(text.split()) if c.isprintable()
    )


def _cell(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.3f}"
    return f"{cell:,}" if isinstance(cell, int) else inline(cell)


def settings(mapping: Mapping[str, Any]) -> str:
    """Format a table of names and values, the values as JSON."""
    return table(["setting", "value"], [[key, json.dumps(each)] for key, each in mapping.items()])
