"""How names from data and figures are written in pictures.

Owns that nothing in them is obeyed, that two names never become one by being
cut, and their order.

>>> shown(["a", "a\\u202e", ""])
{'a': 'a', 'a\\u202e': 'a\\\\u202e', '': '(empty)'}
>>> sorted(["w10", "w9"], key=natural)
['w9', 'w10']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from harness.report.ablation_figures import whole
from harness.report.cells import UNKNOWN

LONGEST = 120
"""Characters of a name in tables and tooltips."""

_LINE = 24
_MANY = 4
_BREAKS = (re.compile(" +"), re.compile("[_./:-]+"))
"""Where a name may be parted, better ones first."""


def shown(names: Iterable[str]) -> dict[str, str]:
    """Each name on one line, inert, of a bearable length, and unlike the others."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        text = whole(name[:LONGEST]).strip()[:LONGEST] or "(empty)"
        found[name] = _unlike(text, set(found.values()))
    return found


def on_axis(names: Iterable[str]) -> dict[str, str]:
    """Each shown name in one or two short lines, parted by a line feed, unlike the others."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        found[name] = _unlike("\n".join(_lines(name)), set(found.values()))
    return found


def _lines(name: str) -> list[str]:
    """One line, or two, of a name; of a longer one its beginning and its end.

    Names that data gives to what is alike are alike in their beginnings.
    """
    if len(name) <= _LINE:
        return [name]
    at = _LINE
    for where in _BREAKS:
        breaks = [found.end() for found in where.finditer(name[:_LINE])]
        if breaks and breaks[-1] >= _LINE // 4:
            at = breaks[-1]
            break
    first, rest = name[:at].rstrip(), name[at:].lstrip()
    return [first, rest if len(rest) <= _LINE else f"…{rest[1 - _LINE :]}"]


def _unlike(text: str, others: set[str]) -> str:
    candidate, number = text, 2
    while candidate in others:
        candidate = f"{text} ({number})"
        number += 1
    return candidate


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts numbers within names by their size."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def slug(name: str) -> str:
    """A name for a file and an anchor: small letters, digits and ``_``."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40].strip("_") or "label"


def number(value: float | None, sign: bool = False) -> str:
    """A figure with three decimals, or three digits where it is large or tiny; ``n/a`` of none.

    sign: before what is more than 0, too.
    """
    if value is None:
        return UNKNOWN
    form = ".3f" if value == 0 or 0.001 <= abs(value) < 1000 else ".3g"
    return format(value, ("+" if sign else "") + form)


def interval(ci95: tuple[float, float] | None, sign: bool = False) -> str:
    """A 95% interval, or that there is none."""
    return UNKNOWN if ci95 is None else f"{number(ci95[0], sign)} to {number(ci95[1], sign)}"


def counted(n: Mapping[str, int], of: str) -> str:
    """What figures are made of, in a sentence.

    n: of each run; of: what is counted.

    >>> counted({"a": 20, "b": 20}, "samples")
    'n = 20 samples a run.'
    """
    sizes = sorted(set(n.values()))
    if len(sizes) == 1:
        return f"n = {sizes[0]:,} {of}" + (" a run." if len(n) > 1 else ".")
    if len(n) > _MANY:
        return f"n = {sizes[0]:,} to {sizes[-1]:,} {of} a run."
    return f"n, {of}: " + ", ".join(f"{run} {size:,}" for run, size in n.items()) + "."


def said_of(marks: Mapping[str, Iterable[str]]) -> tuple[str, str]:
    """What a title must end with, and a caption, for runs that are not what they seem.

    marks: of each run, by its shown name.
    """
    runs_by: dict[str, list[str]] = {}
    for run, said in marks.items():
        for mark in said:
            runs_by.setdefault(whole(mark), []).append(run)
    if not runs_by:
        return "", ""
    words = dict.fromkeys(mark.split(" ")[0] for mark in runs_by)
    told = " ".join(f"{mark}: {', '.join(runs)}." for mark, runs in runs_by.items())
    return f" ({', '.join(words)})", told
