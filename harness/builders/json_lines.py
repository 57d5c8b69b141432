"""JSONL as it is found: a line that is no object is told as a problem, and the others are read.

>>> json_object(b'{"text": "half a smile: \\\\ud83d"}')
{'text': 'half a smile: \ufffd'}
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from harness.datasets.folder import numbered_lines
from harness.records import encodable

MARK = b"\xef\xbb\xbf"
"""Of byte order: some programs begin a file with it."""


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Each line's number, from 1, and its object, or what is wrong with it; none of blank ones.

    Raises: DataInvalid, DataMissing where the file cannot be read.
    """
    for number, line in numbered_lines(path):
        try:
            yield number, json_object(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            yield number, f"not a JSON object ({error})"


def json_object(line: bytes) -> dict[str, Any]:
    """An object of JSON; half of a surrogate pair in it, as of a cut emoji, becomes U+FFFD.

    Raises: MsgspecError, ValueError, RecursionError.
    """
    line = line.removeprefix(MARK)
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.MsgspecError:
        plain = encodable(json.dumps(json.loads(line), ensure_ascii=False))
        return msgspec.json.decode(plain, type=dict[str, Any])
