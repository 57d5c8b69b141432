"""Whether a message is about program code, by two signs.

``word``: the letters "code", anywhere and in any case: the paper's rule, which also takes a dress
code, a postcode and whatever is decoded. ``shape``: a fence of Markdown, or lines that stand as
code does. What is about code and shows neither is for the model's filter, which says no to it.

>>> signs("```\\nx = 1\\n```", ("word", "shape")), signs("Decode this.", ("shape",))
('shape', '')
"""

from __future__ import annotations

import re
from collections.abc import Collection

LONGEST = 20_000
"""Characters that are looked at."""

LINES = 2
"""Lines of code that make a message one about it."""

_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)
_LINE = re.compile(
    r"""[ \t]*(?:
        (?:def|class)\ \w+\s{0,3}[(:]                       # Python
      | (?:import\ [\w.]+|from\ [\w.]+\ import\ [\w*][\w, ]*)\s*\Z
      | (?:for|while|if|elif|with)\ .{1,200}:\s*\Z(?<=[)\w\]]:)
      | return\b.{0,200};?\s*\Z
      | (?:const|let|var)\ \w+\s*=                          # JavaScript
      | (?:public|private|static|void|int|float|double|char)\ [\w<>\[\] ]{1,80}[({=;]
      | \#(?:include|define|ifdef)\b                        # C
      | (?:SELECT|INSERT|UPDATE|DELETE|CREATE)\b.{1,200}\b(?:FROM|INTO|SET|TABLE)\b
      | </?[a-z][a-z0-9]{0,20}(?:\ [^<>]{0,200})?/?>\s*\Z   # HTML
      | \w[\w.\[\]]{0,60}\ {0,2}[-+*/]?=\ {0,2}[^=\s].{0,200}[;)\]]\s*\Z
      | [\w.]{1,60}\([^()]{0,200}\);?\s*\Z
      | .{0,200}\w\([^()]{0,200}\)\ ?;\s*\Z
      | .{0,200}[)\w]\ ?\{\s*\Z
      | [})\]]{1,3};?\s*\Z
    )""",
    re.VERBOSE,
)


def signs(text: str, of: Collection[str]) -> str:
    """The first sign of code that a text shows; empty where it shows none.

    of: ``word``, ``shape``.
    """
    text = text[:LONGEST]
    if "word" in of and "code" in text.lower():
        return "word"
    if "shape" in of and (_FENCE.search(text) or _lines(text) >= LINES):
        return "shape"
    return ""


def _lines(text: str) -> int:
    return sum(_LINE.match(line) is not None for line in text.splitlines())
