"""A text that knows where its keywords stand: the spans move with the text as it is put together.

>>> (Marked("{ ") + marked("type", at="/type")).spans
{'/type': (2, 6)}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Marked:
    """A text and the spans in it, by pointer."""

    text: str = ""
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __add__(self, other: Marked | str) -> Marked:
        return joined([self, other])


def marked(part: Marked | str, *, at: str) -> Marked:
    """A text that is, from end to end, where a keyword stands."""
    text, inside = (part, {}) if isinstance(part, str) else (part.text, part.spans)
    return Marked(text, {at: (0, len(text)), **inside})


def joined(parts: Iterable[Marked | str], between: str = "") -> Marked:
    """The parts, one after the other. A keyword that stands twice is where it stood first."""
    texts: list[str] = []
    spans: dict[str, tuple[int, int]] = {}
    offset = 0
    for number, part in enumerate(parts):
        if number:
            texts.append(between)
            offset += len(between)
        text = part if isinstance(part, str) else part.text
        if isinstance(part, Marked):
            for name, (start, end) in part.spans.items():
                spans.setdefault(name, (start + offset, end + offset))
        texts.append(text)
        offset += len(text)
    return Marked("".join(texts), spans)
