"""Writes Markdown for the card and the report of a benchmark. Corpus text is always escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Cell = str | int | float | None


def document(*blocks: str) -> str:
    """Return the non-empty blocks as one document, with blank lines between them."""
    return "\n\n".join(filter(None, blocks)) + "\n"


def table(rows: Iterable[Mapping[str, Cell]]) -> str:
    """Return rows as a Markdown table, or "" if there are no rows.

    The keys of the first row are the header. A column without strings is right-aligned.
    """
    cells = list(rows)
    if not cells:
        return ""
    head = list(cells[0])
    rule = ["---" if any(isinstance(row[key], str) for row in cells) else "---:" for key in head]
    lines = [f"| {' | '.join(map(_cell, row.values()))} |" for row in cells]
    return "\n".join([f"| {' | '.join(map(inline, head))} |", f"|{'|'.join(rule)}|", *lines])


def quoted(text: str, longest: int) -> str:
    """Return text as a Markdown block quotation, cut to ``longest`` characters."""
    shown = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "\n".join(f"> {inline(line)}" if line else ">" for line in shown.splitlines())


def inline(text: str) -> str:
    """Return text on one line with Markdown escaped and unprintable characters removed."""
    return "".join(
        f"\\{c}" if c in "\\`*_[]<>|#&~!$" else c for c in " ".join(text.split()) if c.isprintable()
    )


def _cell(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.3f}"
    return f"{cell:,}" if isinstance(cell, int) else inline(cell)


def card(name: str, about: str, facts: Mapping[str, Any]) -> str:
    """Return the card of a data set: its name, the text ``about``, and tables of the facts."""
    plain = {key: each for key, each in facts.items() if not isinstance(each, dict | list)}
    blocks = [f"# {inline(name)}", about, _settings(plain)]
    for key, each in facts.items():
        if key in plain:
            continue
        blocks += [
            f"## {key.replace('_', ' ').capitalize()}",
            *map(_settings, each if isinstance(each, list) else [each]),
        ]
    return document(*blocks)


def _settings(mapping: Mapping[str, Any]) -> str:
    return table({"setting": key, "value": json.dumps(each)} for key, each in mapping.items())
