"""How names and numbers are written in figures, and the order of names.

Names are escaped, and two different names never look the same because they were cut.

>>> shown(["a", "a\\u202e", ""])
{'a': 'a', 'a\\u202e': 'a\\\\u202e', '': '(empty)'}
>>> sorted(["w10", "w9"], key=natural)
['w9', 'w10']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from harness.report.text import UNKNOWN, printable

LONGEST = 120
"""Characters of a name in tables and tooltips."""

_SHORT = 24
_LINE = 34
"""Characters of a name on one line of an axis, and of each of two lines or of a legend's line."""
_MANY = 4


def shown(names: Iterable[str]) -> dict[str, str]:
    """Return each name on one line, printable, at most `LONGEST` characters, and distinct."""
    every = list(dict.fromkeys(names))
    texts = (printable(name[:LONGEST]).strip()[:LONGEST] or "(empty)" for name in every)
    return dict(zip(every, _distinct(texts), strict=True))


def on_axis(names: Iterable[str], instead: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return each shown name as one or two short lines, distinct; some have a text ``instead``."""
    every = list(dict.fromkeys(names))
    texts = (_folded((instead or {}).get(name, name)) for name in every)
    return dict(zip(every, _distinct(texts), strict=True))


def in_legend(names: Iterable[str]) -> list[str]:
    """Return each shown name on one short line, and distinct."""
    return _distinct(_cut(name, _LINE // 3) for name in names)


def _distinct(texts: Iterable[str]) -> list[str]:
    """Append a number to each text that repeats an earlier one."""
    found: dict[str, None] = {}
    for text in texts:
        candidate, number = text, 2
        while candidate in found:
            candidate = f"{text} ({number})"
            number += 1
        found[candidate] = None
    return list(found)


def _folded(name: str) -> str:
    """Return a name on one or two lines of similar length; of a longer one, its two ends."""
    if len(name) <= _SHORT:
        return name
    breaks = [found.end() for found in re.finditer(r"[ _./:-]+", name[:_LINE])] or [_LINE]
    at = min(breaks, key=lambda at: abs(len(name) - 2 * at))
    return f"{name[:at].rstrip()}\n{_cut(name[at:].lstrip(), 0)}"


def _cut(name: str, start: int) -> str:
    """Shorten a name to one line, keeping its start and its end."""
    return name if len(name) <= _LINE else f"{name[:start]}…{name[start + 1 - _LINE :]}"


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that orders numbers within names by value."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def slug(name: str) -> str:
    """Return a name for a file and an anchor: lower-case letters, digits and ``_``."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40].strip("_") or "label"


def number(value: float | None, sign: bool = False) -> str:
    """A number with three decimals, or three digits if it is large or tiny; ``n/a`` for None."""
    if value is None:
        return UNKNOWN
    form = ".3f" if value == 0 or 0.001 <= abs(value) < 1000 else ".3g"
    return format(value, ("+" if sign else "") + form)


def interval(ci95: tuple[float, float] | None, sign: bool = False) -> str:
    """Return a 95% interval; ``n/a`` for None."""
    return UNKNOWN if ci95 is None else f"{number(ci95[0], sign)} to {number(ci95[1], sign)}"


def counted(n: Mapping[str, int], of: str) -> str:
    """Return a sentence on how many of something each run contributes to a figure."""
    sizes = sorted(set(n.values()))
    if len(sizes) == 1:
        return f"n = {sizes[0]:,} {of}" + (" a run." if len(n) > 1 else ".")
    if len(n) > _MANY:
        return f"n = {sizes[0]:,} to {sizes[-1]:,} {of} a run."
    return f"n, {of}: " + ", ".join(f"{run} {size:,}" for run, size in n.items()) + "."
