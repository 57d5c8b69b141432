"""What `harness doctor` has found: a line for each thing, and the remedy for each lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.report.transcript import inert_text

State = Literal["ok", "lack", "broken"]

_MARKS = {"ok": Text("ok", "green"), "lack": Text("-", "yellow"), "broken": Text("!!", "bold red")}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    state: ``lack`` is something that some runs need, ``broken`` what every run does.
    remedy: what to do about it.
    """

    state: State
    name: str
    said: str
    remedy: str = ""


def checkup(sections: Mapping[str, Sequence[Finding]]) -> RenderableType:
    """The findings by section."""
    parts: list[RenderableType] = []
    for title, findings in sections.items():
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, min_width=2)
        table.add_column(overflow="fold")
        for finding in findings:
            said = inert_text(f"{finding.name}  {finding.said}".strip())
            said.stylize("bold", 0, len(finding.name))
            if finding.remedy:
                said = Text.assemble(said, "\n", (inert_text(finding.remedy).plain, "dim"))
            table.add_row(_MARKS[finding.state], said)
        parts += [Text(title, style="bold underline"), table, ""]
    return Group(*parts[:-1])
