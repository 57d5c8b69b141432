"""Formats names and numbers for figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from harness.report.table import ShownUnit
from harness.report.text import UNKNOWN, percentage, printable
from harness.report.text import number as with_decimals

LONGEST = 120  # maximum characters of a name in tables and tooltips
LINE = 34  # maximum characters per line of a name in axes and legends


def display_names(names: Iterable[str]) -> dict[str, str]:
    """Map names to distinct display names, each on one line, cut to about `LONGEST` characters."""
    every = list(dict.fromkeys(names))
    texts = (printable(name[:LONGEST]).strip()[:LONGEST] or "(empty)" for name in every)
    return dict(zip(every, distinct(texts), strict=True))


def in_legend(names: Iterable[str]) -> list[str]:
    """Return display names cut to one line of about `LINE` characters, still distinct."""
    return distinct(_without_middle(name, LINE // 3) for name in names)


def on_axis(names: Iterable[str]) -> list[str]:
    """Return display names on at most two lines of about `LINE` characters, still distinct."""
    return distinct(map(_folded, names))


def _folded(name: str) -> str:
    if len(name) <= LINE:
        return name
    at = max(name.rfind(end, 0, LINE) for end in " _./:-") + 1 or LINE
    return f"{name[:at].rstrip()}\n{_without_middle(name[at:].lstrip(), 0)}"


def _without_middle(name: str, start: int) -> str:
    return name if len(name) <= LINE else f"{name[:start]}…{name[start + 1 - LINE :]}"


def distinct(texts: Iterable[str], form: str = "{} ({})") -> list[str]:
    """Return texts made distinct: ``form`` combines a repeated text with a number from 2 up."""
    found: dict[str, None] = {}
    for text in texts:
        candidate, number = text, 2
        while candidate in found:
            candidate = form.format(text, number)
            number += 1
        found[candidate] = None
    return list(found)


def slug(name: str) -> str:
    """Return a name for a file or anchor: 1 to 40 lower-case letters, digits and ``_``."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40].strip("_") or "label"


NUMBER = ShownUnit(percent=False)


def number(value: float | None, sign: bool = False, unit: ShownUnit = NUMBER) -> str:
    """Format a value as a percentage or a number, depending on ``unit``, or as ``n/a`` for None."""
    if value is None:
        return UNKNOWN
    if unit.percent:
        return percentage(value, unit.digits, sign)
    if value == 0 or 0.001 <= abs(value) < 1000:
        return with_decimals(value, sign=sign)
    return format(value, ("+" if sign else "") + ".3g")


def interval(ci95: tuple[float, float] | None, sign: bool = False, unit: ShownUnit = NUMBER) -> str:
    """Format a 95% interval, or ``n/a`` for None."""
    return UNKNOWN if ci95 is None else " to ".join(number(end, sign, unit) for end in ci95)


def sample_sizes(n: Mapping[str, int], of: str) -> str:
    """Return the range of the runs' n as a sentence, such as ``n = 10 to 12 samples per run.``"""
    low, high = min(n.values()), max(n.values())
    return f"n = {low:,}" + (f" to {high:,}" if low < high else "") + f" {of} per run."
