"""Reads documents in JSON (RFC 8259) and in the formats that plug-ins bring.

NaN, Infinity, repeated keys and lone surrogates are refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, NoReturn

from harness.plugin_loader import Kind
from harness.scoring.validators import limits
from harness.scoring.validators.limits import UnparseableDocument

_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def read(text: str, format: str = "json", *, schema: Any = True) -> Any:
    """Return the value of a document.

    Args:
        text: The document.
        format: ``json``, or a format that a plug-in brings.
        schema: The schema that the value should satisfy. In some formats, it determines types.

    Raises:
        ConfigError: If no plug-in brings the format.
        UnparseableDocument: If the document is not in the format, or exceeds a limit.
    """
    if format == "json":
        return read_json(text)
    return Kind("document_formats").load(format)(text, schema)


def read_json(text: str) -> Any:
    """Return the value of a JSON document.

    Raises:
        UnparseableDocument: If the text is not a valid document. For a syntax error, the message
            states the line and the column.
    """
    limits.check_length(text)
    value = decoded(_DECODER, text)
    # Skip the walk if the text alone shows that the value is neither too deep nor too large.
    if len(text) > limits.MOST_NODES or text.count("[") + text.count("{") > limits.DEEPEST:
        limits.check_size(value)
    if _HALF.search(text) and not limits.is_encodable(value):
        raise UnparseableDocument(limits.HALF_PAIR)
    return value


def decoded(decoder: json.JSONDecoder, text: str) -> Any:
    """Return what a decoder reads, with its error as `UnparseableDocument`."""
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        place = f"(line {error.lineno}, column {error.colno})"
        raise UnparseableDocument(f"{problem} {place}") from None
    except RecursionError:
        raise UnparseableDocument(limits.TOO_DEEP, "limit") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        key = next(key for key, count in counts.items() if count > 1)
        raise UnparseableDocument(f"the key {json.dumps(key)[:60]} occurs twice in one object")
    return members


def _constant(name: str) -> NoReturn:
    raise UnparseableDocument(f"{name} is not a JSON number")


_NUMBERS: Any = {"parse_float": limits.exact, "parse_int": limits.whole}
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, **_NUMBERS)
