"""Pickles by hand, operation by operation, and COLLIE's in small."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

PROTO, STOP, MARK = b"\x80\x04", b".", b"("
MEMOIZE, EMPTY_LIST, EMPTY_DICT, EMPTY_TUPLE = b"\x94", b"]", b"}", b")"
APPEND, APPENDS, SETITEM, SETITEMS = b"a", b"e", b"s", b"u"
TUPLE1, TUPLE2, TUPLE = b"\x85", b"\x86", b"t"
NEWOBJ, BUILD, REDUCE, STACK_GLOBAL, NONE = b"\x81", b"b", b"R", b"\x93", b"N"


def pickled(*operations: bytes) -> bytes:
    return PROTO + b"".join(operations) + STOP


def text(value: str) -> bytes:
    encoded = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def get(index: int) -> bytes:
    return b"j" + struct.pack("<I", index)


def named(module: str, name: str) -> bytes:
    return text(module) + text(name) + STACK_GLOBAL


def called(module: str, name: str, *arguments: str) -> bytes:
    return named(module, name) + MARK + b"".join(map(text, arguments)) + TUPLE + REDUCE


def record(name: str, **fields: Any) -> bytes:
    """An object of a class of `collie.constraints`, as dill writes it."""
    new = named("collie.constraints", name) + EMPTY_TUPLE + NEWOBJ
    return new + value(fields) + BUILD if fields else new


def value(given: Any) -> bytes:
    """Any plain value; bytes are operations already."""
    if isinstance(given, bytes):
        return given
    if given is None:
        return NONE
    if given is ...:
        return called("dill._dill", "_eval_repr", "Ellipsis")
    if isinstance(given, int):
        return number(given)
    if isinstance(given, str):
        return text(given)
    if isinstance(given, Mapping):
        items = b"".join(text(key) + value(part) for key, part in given.items())
        return EMPTY_DICT + MARK + items + SETITEMS
    parts = b"".join(map(value, given))
    return MARK + parts + TUPLE if isinstance(given, tuple) else EMPTY_LIST + MARK + parts + APPENDS


def constraint(**changes: Any) -> bytes:
    """Exactly n words, with parts to change."""
    parts = {
        "input_level": record("InputLevel", level=None),
        "target_level": record("TargetLevel", level="word"),
        "transformation": record("Count", count_target=None),
        "relation": record("Relation", operand="=="),
        "reduction": record("Reduction", reduction=None, value=None),
    }
    return record("Constraint", **(parts | changes))


def official(**changes: Any) -> bytes:
    """A file of one instance, with its parts to change."""
    instance = {"example": "One two.", "metadata": {}, "targets": 2, "constraint": constraint()}
    return pickled(value({"wiki_c04": [instance | {"prompt": "Two words, please."} | changes]}))
