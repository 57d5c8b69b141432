"""What stands in the page's script elements: data that nothing can break out of, and code.

Data are compressed and in base64, whose letters end no element. Code is allowed to
run by its hash, so that nothing else in the page can.

>>> block("greeting", b"hello").startswith('<script type="application/octet-stream" id="greeting">')
True
"""

from __future__ import annotations

import gzip
import hashlib
from base64 import b64encode
from typing import Any

import msgspec

from harness.records import encodable

LEVEL = 6
"""Of compression: 9 takes twice as long for 2% less."""


def block(name: str, data: bytes) -> str:
    """A data element, for `assets/archive.js`."""
    packed = b64encode(gzip.compress(data, LEVEL, mtime=0)).decode("ascii")
    return f'<script type="application/octet-stream" id="{name}">{packed}</script>\n'


def json_block(name: str, value: Any) -> str:
    """A data element that holds JSON."""
    return block(name, to_json(value))


def to_json(value: Any) -> bytes:
    """As JSON; half a character, which it cannot hold, becomes the replacement character."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(msgspec.to_builtins(value)))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(str(key)): _encodable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    return value


def source_hash(text: str) -> str:
    """Of an inline script or style, as a content security policy names it."""
    if "</script" in text.lower() or "</style" in text.lower() or "<!--" in text:
        raise ValueError("The text would end or hide its own element.")
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
