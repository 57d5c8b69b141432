"""How names and numbers are written in figures, and the order of names.

Names are escaped, and two different names never look the same because they were cut.

>>> shown(["a", "a\\u202e", ""])
{'a': 'a', 'a\\u202e': 'a\\\\u202e', '': '(empty)'}
>>> sorted(["w10", "w9"], key=natural)
['w9', 'w10']
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from os.path import commonprefix

from harness.report.text import UNKNOWN, printable

LONGEST = 120
"""Characters of a name in tables and tooltips."""

_LINE = 24
_WIDE_LINE = 34
"""Characters of a line on an axis; the wider one is for names too long for two short lines."""
_KEY = 34
"""Characters of a name in a legend."""
_MANY = 4
_BREAKS = (re.compile(" +"), re.compile("[_./:-]+"))
"""Where a name may be broken, better places first."""


def shown(names: Iterable[str]) -> dict[str, str]:
    """Return each name on one line, printable, at most `LONGEST` characters, and distinct."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        text = printable(name[:LONGEST]).strip()[:LONGEST] or "(empty)"
        found[name] = _unlike(text, set(found.values()))
    return found


def on_axis(names: Iterable[str], instead: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return each shown name as one or two short lines, separated by a line feed, and distinct.

    Args:
        names: As `shown` returns them.
        instead: Texts that replace names.
    """
    instead = instead or {}
    every = dict.fromkeys(names)
    texts = [instead.get(name, name) for name in every]
    return dict(zip(every, _apart(texts, _folded), strict=True))


def in_legend(names: Iterable[str]) -> list[str]:
    """Return each shown name on one short line, and distinct."""
    return _apart(list(names), _cut)


def kinds_on_axis(kinds: Iterable[str]) -> dict[str, str]:
    """Shorten kinds of constraints, except those that would become the same.

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
    """Shorten texts so that they stay distinct.

    Args:
        texts: If two are the same, one is numbered.
        cut: Shortens a text, but keeps the character at a given place.
    """
    found = [cut(text, len(text)) for text in texts]
    alike: dict[str, list[str]] = {}
    for text, short in zip(texts, found, strict=True):
        alike.setdefault(short, []).append(text)
    taken: set[str] = set()
    for place, text in enumerate(texts):
        others = [other for other in alike[found[place]] if other != text]
        if others:
            found[place] = cut(text, max(len(commonprefix([text, other])) for other in others))  # noqa: RUF071 (no paths)
        found[place] = _unlike(found[place], taken)
        taken.add(found[place])
    return found


def _folded(name: str, place: int) -> str:
    """Return a name on one or two lines; of a longer one, its beginning and its end."""
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
    """Return a name on one line."""
    if len(name) <= _KEY:
        return name
    at = _KEY // 3
    return name[:at] + _part(name, at, place, _KEY - at)


def _part(name: str, after: int, place: int, most: int) -> str:
    """Return what is shown after a name's beginning: its end, or where it differs from another."""
    start = len(name) - (most - 1)
    if not after <= place < start:
        return f"…{name[start:]}"
    start = max(after, place - most // 4)
    return f"…{name[start : start + most - 2]}…"


def _breaks(name: str, line: int) -> list[int]:
    """Return where a name may be broken, lines of similar length first."""
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
    """Return a sentence on how many of something each run contributes to a figure.

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
    """Return the marks of runs as the end of a title, and as the start of a caption.

    Args:
        marks: By the shown name of the run.
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
