"""The fields of rows: their values as JSON's types, blank ones, and lists written as texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from math import isnan
from typing import Any

import msgspec

from harness.datasets.folder import decode_json
from harness.errors import DataInvalid, raised_as
from harness.records import without_arrays

Row = dict[str, Any]

# Fields with lists or mappings, which may be JSON in a text, as in the cells of tables.
JSON_FIELDS = frozenset(
    {"targets", "choices", "checks", "criteria", "groups", "messages", "rounds", "turns", "user"}
)
TEXT_FIELDS = ("criteria", "user")  # those that may have any text, even one in brackets
OPTIONAL = ("id", "checks", "cluster", "groups", "messages", "turns")  # a blank one is missing
ANSWERS = ("target", "targets", "gold", "choices")  # fields in which times are refused


def read_fields(row: Row, *, earlier: bool = False) -> Row:
    """Return a row without blank `OPTIONAL` fields, and with the values of JSON in `JSON_FIELDS`.

    Args:
        row: The fields, by name.
        earlier: Read JSON in ``choices`` only, as version 0.1.0 did.

    Raises:
        DataInvalid: If a text in brackets is not JSON.
    """
    fields = {}
    for name, value in row.items():
        is_text = isinstance(value, str)
        is_blank = value is None or (is_text and not value.strip())
        if is_blank and name in OPTIONAL:
            continue
        if is_text and name in JSON_FIELDS and (name == "choices" or not earlier):
            with raised_as(DataInvalid, f"{name!r}: "):
                value = _from_json(name, value)
        fields[name] = value
    return fields


def _from_json(name: str, value: str) -> Any:
    text = value.strip()
    brackets = text[:1] + text[1:][-1:]
    if brackets not in ("[]", "{}"):
        return value
    if name in TEXT_FIELDS and text[1:].lstrip()[0] not in "\"'[]{}":
        return value
    kind: Any = list[Any] if brackets == "[]" else dict[str, Any]
    try:
        return decode_json(text.encode(), kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        remedy = 'Write a list with double quotes, as in ["…", "…"].'
        raise DataInvalid(f"not JSON ({error}).", remedy) from None


def plain(value: Any, field: str = "") -> Any:
    """Return a value as JSON's types: null for NaN, and text for dates, decimals and the like.

    A date-time at midnight is a date. NumPy's scalars and arrays, and pandas' timestamps, are
    accepted, too.

    Args:
        value: The value.
        field: The field with the value: its name, or that of the one of `ANSWERS` around it.

    Raises:
        DataInvalid: If binary data is not text, or a field of `ANSWERS` has a time.
        TypeError: If JSON cannot represent the value.
        ValueError: If a mapping has two keys with the same text.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return None if isnan(value) else float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return _plain_mapping(value, field)
    if isinstance(value, list | tuple):
        return [plain(item, field) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return _decoded(bytes(value), field)
    type_name = type(value).__name__  # NumPy and pandas are not imported: that takes time
    if type_name in ("NAType", "NaTType"):
        return None
    if type_name in ("datetime64", "timedelta64") or isinstance(value, _TIMES):
        return _time_text(value, field)
    if type(value) is date:
        return value.isoformat()
    converted = without_arrays(value)
    if converted is value:
        converted = msgspec.to_builtins(value, builtin_types=_CONVERTED)
    return plain(converted, field)


_TIMES = (datetime, time, timedelta)
_CONVERTED = (bytes, bytearray, memoryview, date, *_TIMES)
_MIDNIGHT = re.compile(r"T00:00(:00(\.0+)?)?\Z")


def _plain_mapping(mapping: Mapping[Any, Any], field: str) -> Row:
    converted = {}
    for key, value in mapping.items():
        name = str(plain(key))
        converted[name] = plain(value, field if field in ANSWERS else name)
    if len(converted) < len(mapping):
        raise ValueError("two keys have the same text")
    return converted


def _decoded(content: bytes, field: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        remedy = "Remove the field, or write its content as text."
        raise DataInvalid(f"{field!r:.60} is binary data, not UTF-8 text.", remedy) from None


def _time_text(value: Any, field: str) -> str | None:
    """Return the text of a date-time, time or duration (None for NumPy's NaT).

    Its text depends on the source, so that as an answer it could fail every reply.
    """
    if type(value) in _TIMES:
        text: str = msgspec.to_builtins(value)
    else:
        text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    if text == "NaT":
        return None
    is_date = type(value).__name__ == "datetime64" and "T" not in text
    if field in ANSWERS and not is_date:
        problem = f"{field!r} is a date or time ({text}), whose text may differ from what is shown."
        raise DataInvalid(problem, "Convert the column to text, and check the answers.")
    return _MIDNIGHT.sub("", text)
