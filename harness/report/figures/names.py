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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from harness.report.text import UNKNOWN, printable

LONGEST = 120
"""Characters of a name in tables and tooltips."""

_LINE = 24
_WIDE_LINE = 34
"""Of a name that two lines of `_LINE` do not hold."""
_KEY = 34
"""Characters of a name in a legend."""
_MANY = 4
_BREAKS = (re.compile(" +"), re.compile("[_./:-]+"))
"""Where a name may be parted, better ones first."""


def shown(names: Iterable[str]) -> dict[str, str]:
    """Each name on one line, inert, of a bearable length, and unlike the others."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        text = printable(name[:LONGEST]).strip()[:LONGEST] or "(empty)"
        found[name] = _unlike(text, set(found.values()))
    return found


def on_axis(names: Iterable[str], instead: Mapping[str, str] | None = None) -> dict[str, str]:
    """Each shown name in one or two short lines, parted by a line feed, unlike the others.

    instead: what is written in place of a name.
    """
    instead = instead or {}
    every = dict.fromkeys(names)
    texts = [instead.get(name, name) for name in every]
    return dict(zip(every, _apart(texts, _folded), strict=True))


def in_legend(names: Iterable[str]) -> list[str]:
    """Each shown name on one short line, unlike the others."""
    return _apart(list(names), _cut)


def _beginning(every: Sequence[str]) -> str:
    """What all of some texts begin with."""
    low, high = min(every), max(every)
    same = 0
    while same < len(low) and low[same] == high[same]:
        same += 1
    return low[:same]


def kinds_on_axis(kinds: Iterable[str]) -> dict[str, str]:
    """Kinds of constraints in fewer words: what is the same in all of them is left out.

    Kinds that would become one are left as they differ.

    >>> kinds_on_axis(["with the 4th, 8th words to be '…', '…' respectively"])
    {"with the 4th, 8th words to be '…', '…' respectively": "the 4th, 8th words to be '…'"}
    """
    found = {kind: kind for kind in kinds}
    for form in _SHORTER:
        shorter = {kind: form(kind) for kind in found if found[kind] == kind}
        taken = Counter(shorter.values()) + Counter(found[k] for k in found if k not in shorter)
        found |= {
            kind: text
            for kind, text in shorter.items()
            if text and taken[text] == 1 and text not in found
        }
    return found


def _bare(kind: str) -> str:
    return re.sub(r",? respectively$", "", kind.removeprefix("with "))


_SHORTER: tuple[Callable[[str], str], ...] = (
    lambda kind: _bare(re.sub(r"'…'(?:, '…')+", "'…'", kind)),
    _bare,
    lambda kind: kind.removeprefix("with "),
)
"""Shorter forms of a kind, the shortest first."""


def _apart(texts: Sequence[str], cut: Callable[[str, int], str]) -> list[str]:
    """The texts cut, and where two would then look alike, cut so that they differ.

    cut: makes a text short; of a long one the place that is given must stay.
    """
    found = [cut(text, len(text)) for text in texts]
    alike: dict[str, list[str]] = {}
    for text, short in zip(texts, found, strict=True):
        alike.setdefault(short, []).append(text)
    taken: set[str] = set()
    for place, text in enumerate(texts):
        others = [other for other in alike[found[place]] if other != text]
        if others:
            found[place] = cut(text, max(len(_beginning([text, other])) for other in others))
        found[place] = _unlike(found[place], taken)
        taken.add(found[place])
    return found


def _folded(name: str, place: int) -> str:
    """One line, or two, of a name; of a longer one its beginning and its end."""
    if len(name) <= _LINE:
        return name
    for line in (_LINE, _WIDE_LINE):
        for at in _breaks(name, line):
            first, rest = name[:at].rstrip(), name[at:].lstrip()
            if len(rest) <= line:
                return f"{first}\n{rest}"
    at = max(_breaks(name, _WIDE_LINE))
    return f"{name[:at].rstrip()}\n{_part(name, at, place, _WIDE_LINE)}"


def _cut(name: str, place: int) -> str:
    """One line."""
    if len(name) <= _KEY:
        return name
    at = _KEY // 3
    return name[:at] + _part(name, at, place, _KEY - at)


def _part(name: str, after: int, place: int, most: int) -> str:
    """What of a name is shown after its beginning: its end, or where it is unlike another."""
    start = len(name) - (most - 1)
    if not after <= place < start:
        return f"…{name[start:]}"
    start = max(after, place - most // 4)
    return f"…{name[start : start + most - 2]}…"


def _breaks(name: str, line: int) -> list[int]:
    """Where a name may be parted, lines of like length first."""
    for where in _BREAKS:
        found = [at for at in (one.end() for one in where.finditer(name[:line])) if at >= line // 4]
        if found:
            return sorted(found, key=lambda at: (max(at, len(name) - at), -at))
    return [line]


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
            runs_by.setdefault(printable(mark), []).append(run)
    if not runs_by:
        return "", ""
    words = dict.fromkeys(mark.split(" ")[0] for mark in runs_by)
    told = " ".join(f"{mark}: {', '.join(runs)}." for mark, runs in runs_by.items())
    return f" ({', '.join(words)})", told
