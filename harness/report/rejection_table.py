"""Rejected schemas in a terminal: by keyword, and what the provider said.

>>> Console(width=80).print(rejection_table(found))  # doctest: +SKIP
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from harness.analysis.constraints import Rejections
from harness.report.cells import empty_table, inert

MOST_MESSAGES = 5


def rejection_table(found: Rejections) -> RenderableType:
    """A row for each feature that a rejected constraint has."""
    told = f"{found.n_rejected:,} of {found.n:,} constraints were rejected by the provider."
    parts: list[RenderableType] = [Text(told)]
    rejected = [one for one in found.features if one.n_rejected]
    if rejected:
        table = empty_table()
        table.add_column("has")
        for heading in ("n", "rejected", "share"):
            table.add_column(heading, justify="right", no_wrap=True)
        for one in rejected:
            share = f"{one.n_rejected / one.n:.0%}"
            table.add_row(inert(one.name), f"{one.n:,}", f"{one.n_rejected:,}", share)
        parts.append(table)
        without = [one.name for one in found.features if not one.n_rejected]
        if without:
            names = inert(", ".join(without))
            names.no_wrap, names.overflow = False, "fold"
            names.stylize("dim")
            parts.append(Text.assemble(("Never rejected: ", "dim"), names))
        parts.append(Text("What the provider said:"))
        for message, count in list(found.messages.items())[:MOST_MESSAGES]:
            parts.append(Text(f"  {count:,} x ") + inert(message))
        if len(found.messages) > MOST_MESSAGES:
            parts.append(Text(f"  and {len(found.messages) - MOST_MESSAGES:,} others", style="dim"))
    if found.n_failed:
        parts.append(
            Text(f"{found.n_failed:,} failed for other reasons: not counted.", style="yellow")
        )
    return Group(*parts)
