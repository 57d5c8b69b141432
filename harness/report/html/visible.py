"""Characters that a page would obey or hide, made visible.

Escaping markup is the template's task. What is left are characters that turn the
direction of a line, that have no width, or that control a terminal: a name with
such a one looks like another name. `assets/text.js` does the same for texts that
are unpacked in the browser.

>>> visible("user\\u202egpj.exe")
'user⟨U+202E⟩gpj.exe'
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any

from markupsafe import Markup, escape

_KEPT = "\n\t"
_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_BLANK = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0"
    "\U000e0100-\U000e01ef"
)
"""Of other categories, and yet nothing to see. Variation selectors 15 and 16 stay: emoji
have them."""


def visible(text: str) -> str:
    """With escapes such as ``⟨U+202E⟩`` in place of what cannot be seen."""
    if text.isascii() and text.isprintable():
        return text
    return _hidden().sub(lambda found: _escape(found[0]), text)


def marked(text: str) -> Markup:
    """As HTML, the escapes marked as such: a text may well hold the characters ``⟨U+202E⟩``.

    >>> marked("<b>\\x00")
    Markup('&lt;b&gt;<span class="escape">⟨U+0000⟩</span>')
    """
    parts = re.split(f"({_hidden().pattern})", text)
    # Every second part is what was split at.
    return Markup("").join(
        Markup('<span class="escape">{}</span>').format(_escape(part)) if at % 2 else escape(part)
        for at, part in enumerate(parts)
    )


def all_visible(value: Any) -> Any:
    """A JSON value with `visible` in place of each of its texts, keys too.

    Keys too, so that a chart's fields are still those of its data.
    """
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(key)): all_visible(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [all_visible(each) for each in value]
    return value


def _escape(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


@cache
def _hidden() -> re.Pattern[str]:
    """Made when first needed: it asks for the category of a million characters."""
    found = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in _CATEGORIES and chr(code) not in _KEPT
    ]
    return re.compile(f"[{_BLANK}{''.join(map(re.escape, found))}]")
