"""Safe content for the page: visible text, data in script elements, code.

Markup is escaped. Characters that change a line's direction, have no width or control a
terminal are made visible here, and in the browser by ``web/src/text.tsx``. Data are compressed and
base64-encoded, so they cannot end their element. Scripts are allowed by their hash, so no other
code can run.

>>> visible("user\\u202egpj.exe")
'user⟨U+202E⟩gpj.exe'
"""

from __future__ import annotations

import gzip
import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import regex
from markupsafe import Markup, escape

from harness.records import encodable

LEVEL = 6  # compression level: 9 takes twice as long for 2% less

# Invisible characters. Variation selectors 15 and 16 are kept, since emoji use them.
_HIDDEN = regex.compile(
    r"(?![\n\t])([\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef])"
)


def asset(name: str) -> str:
    """Return the text of a file in ``assets``, such as a template or style sheet."""
    return (files("harness.report.html") / "assets" / name).read_text(encoding="utf-8")


@cache
def built(name: str) -> str:
    """Return the text of a file that ``scripts/web`` built, such as the page's script."""
    return (files("harness.report.html") / "dist" / name).read_text(encoding="utf-8")


def visible(text: str) -> str:
    """Return text in which escapes such as ``⟨U+202E⟩`` replace invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    return str(_HIDDEN.sub(lambda found: _escape(found[0]), text))


def marked(text: str) -> Markup:
    """Return text as HTML, with each escape in a span to tell it from a literal ``⟨U+202E⟩``."""
    return Markup("").join(
        Markup('<span class="escape">{}</span>').format(_escape(part)) if at % 2 else escape(part)
        for at, part in enumerate(_HIDDEN.split(text))  # every second part is a separator
    )


def all_visible(value: Any) -> Any:
    """Return a JSON value with `visible` applied to all strings, including keys."""
    return _each_text(value, visible)


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _each_text(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_each_text(each, change) for each in value]
    return value


def _escape(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def block(name: str, data: bytes) -> str:
    """Return a script element that holds compressed data. ``name`` is the element's id."""
    packed = b64encode(gzip.compress(data, LEVEL, mtime=0)).decode("ascii")
    return f'<script type="application/octet-stream" id="{name}">{packed}</script>\n'


def to_json(value: Any) -> bytes:
    """Encode a value as JSON. Lone surrogates become the replacement character."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_each_text(msgspec.to_builtins(value), encodable))


def policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Return a content security policy that allows these styles and scripts, and inline images."""
    return (
        f"default-src 'none'; script-src {' '.join(map(source_hash, scripts))}; "
        f"style-src {' '.join(map(source_hash, styles))}; img-src data: blob:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def source_hash(text: str) -> str:
    """Return a script's or style's hash for the content security policy.

    Raises:
        ValueError: If the text could end or hide its element.
    """
    if "</script" in text.lower() or "</style" in text.lower() or "<!--" in text:
        raise ValueError("The text would end or hide the element that contains it.")
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
