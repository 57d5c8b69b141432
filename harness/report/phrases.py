"""Words for values, differences and lists in the sentences of `harness.report.answer`."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.comparison import Comparison
from harness.analysis.metrics import PASS_RATE
from harness.records import EXAMPLE
from harness.report.comparison import score_name
from harness.report.table import Column, ShownUnit
from harness.report.text import number, printable
from harness.scoring import cut

MOST_NAMED = 4  # runs in a sentence
LONGEST = 90  # characters of a reason in a sentence


def listed(texts: Sequence[str]) -> str:
    """Join texts with commas and "and", and count those after the first `MOST_NAMED`."""
    first, more = texts[:MOST_NAMED], len(texts) - MOST_NAMED
    if more > 0:
        return f"{', '.join(first)} and {more:,} more"
    return " and ".join(filter(None, [", ".join(first[:-1]), first[-1]]))


def show(value: float | None, unit: ShownUnit) -> str:
    """Return a value of the primary metric as text."""
    return unit.show(value, Column("", rate=True))


def verb_for(
    score: str | None, value: float | None, unit: ShownUnit, *, plural: bool = False
) -> str:
    """Return a verb with a value, such as ``passes 50%`` or ``has f1 0.500``."""
    told = show(value, unit)
    if score in (None, PASS_RATE):
        return f"pass{'' if plural else 'es'} {told}"
    named = f"{told} by its own measure" if " and " in score else f"{score_name(score)} {told}"
    return f"{'have' if plural else 'has'} {named}"


def between(ci95: tuple[float, float] | None, unit: ShownUnit, sign: bool = False) -> str:
    """Return an interval in parentheses after a space, such as `` (39 to 81)``, or ""."""
    if ci95 is None:
        return ""
    scale, digits = (100, unit.digits) if unit.percent else (1, 3)
    low, high = (scale * end for end in ci95)
    upper = number(high, digits, sign=sign and low < 0 < high)
    return f" ({number(low, digits)} to {upper})"


def change_of(found: Comparison, unit: ShownUnit) -> str:
    """Format a difference and its interval, such as ``+60 points (39 to 81)``, as far as known."""
    if found.difference is None:
        return "no difference known"
    scale, digits = (100, unit.digits) if unit.percent else (1, 3)
    points = " points" if unit.percent else ""
    interval = between(found.ci95, unit, sign=True) or " (how sure is not known)"
    return f"{number(scale * found.difference, digits, sign=True)}{points}{interval}"


def short(reason: str) -> str:
    """Return a reason for a failure without its example, cut to `LONGEST` characters."""
    return cut(printable(reason.partition(EXAMPLE)[0]).removesuffix("."), LONGEST)
