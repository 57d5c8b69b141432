"""What all tables have in common: how a name, a figure, an interval and a sum of money are written.

Nothing that comes from data is taken for markup or reaches the terminal as a control
character. A figure that is not known is shown as such, never as 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from harness.analysis.metrics import Mean, Metrics, Rate

UNKNOWN = "n/a"
SIMULATED = Text("SIMULATED", style="bold yellow", no_wrap=True, overflow="ellipsis")

_LONGEST_NAME = 120


def inert(name: str) -> Text:
    """A name from data on one line: no markup, no control, invisible or bidi character.

    >>> inert("[bold]a\\x1b[2J").plain
    '[bold]a\\\\x1b[2J'
    """
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in name[:_LONGEST_NAME]
    )
    return one_line(Text(shown))


def measure_of(metrics: Metrics, scores: Mapping[str, Mean]) -> Mean | None:
    """Of the run's scores or a group's, the one that the task is measured by."""
    return scores.get(metrics.measure) if metrics.measure else None


def empty_table(metrics: Metrics | None = None, show_footer: bool = False) -> Table:
    """An empty table; of a simulated run, one that says so."""
    return Table(
        title=SIMULATED if metrics and metrics.simulated else None,
        title_justify="left",
        box=SIMPLE,
        show_edge=False,
        show_footer=show_footer,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="bold",
        footer_style="bold",
    )


def column_width(width: int) -> int:
    """What a further column of that width takes, with the space before it."""
    return width + 2


def empty_facts() -> Table:
    """An empty table of facts: what, and how much."""
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    return facts


def one_line(*parts: Text) -> Text:
    """Text that is cut where it does not fit, and never wrapped."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def with_error(value: float | None, stderr: float | None, digits: int = 3) -> str:
    """A figure and its standard error."""
    if value is None:
        return UNKNOWN
    return f"{figure(value, digits)} ± {figure(stderr, digits)}"


def figure(value: float | None, digits: int = 3) -> str:
    """A figure, or that it is not known."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def interval_text(estimate: Rate | Mean | None, digits: int = 3) -> str:
    """A 95% interval, or that there is none."""
    if estimate is None or estimate.ci95 is None:
        return UNKNOWN
    low, high = estimate.ci95
    return f"{low:.{digits}f}-{high:.{digits}f}"


def usd(cost: float | None) -> str:
    """A sum of money; cents' fractions where it is below a dollar."""
    if cost is None:
        return "unknown"
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"
