"""Pickles that would fill the memory, never end, or crash the interpreter."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.datasets.pickles import (
    APPEND,
    APPENDS,
    BUILD,
    EMPTY_DICT,
    EMPTY_LIST,
    EMPTY_TUPLE,
    MARK,
    MEMOIZE,
    NEWOBJ,
    NONE,
    SETITEM,
    TUPLE1,
    TUPLE2,
    get,
    named,
    pickled,
    text,
)

MANY = 120_000


def laughs(times: int = 60) -> bytes:
    """A list that holds another twice, which holds another twice, …"""
    lists = b"".join(
        EMPTY_LIST + MEMOIZE + MARK + get(level) * 2 + APPENDS for level in range(times)
    )
    return pickled(MARK, EMPTY_LIST, MEMOIZE, lists, b"t")


def tuple_laughs(times: int = 60) -> bytes:
    """The same of tuples, and as a key: to hash it takes 2**60 steps."""
    nested = EMPTY_TUPLE + MEMOIZE
    for level in range(times):
        nested += get(level) + TUPLE2 + MEMOIZE
    return pickled(EMPTY_DICT, nested, NONE, SETITEM)


def text_laughs() -> bytes:
    """A megabyte, named a hundred thousand times."""
    return pickled(EMPTY_LIST, MARK, text("x" * 2**20), MEMOIZE, get(0) * 100_000, APPENDS)


def key_laughs() -> bytes:
    """The same with the megabyte as a key."""
    large = EMPTY_DICT + text("x" * 2**20) + NONE + SETITEM + MEMOIZE
    return pickled(EMPTY_LIST, MARK, large, get(0) * 100_000, APPENDS)


def own_part() -> bytes:
    """A list that holds itself, often."""
    return pickled(EMPTY_LIST, MEMOIZE, MARK, get(0) * MANY, APPENDS)


def deep_records() -> bytes:
    """An object in an object in an object."""
    count = named("collie.constraints", "Count") + MEMOIZE
    new = EMPTY_TUPLE + NEWOBJ + EMPTY_DICT + text("count_target")
    inner = 40_000
    begun = count + new + (get(0) + new) * inner
    return pickled(begun, NONE, (SETITEM + BUILD) * (inner + 1))


PICKLES: dict[str, Callable[[], bytes]] = {
    "billion laughs": laughs,
    "billion laughs as a key": tuple_laughs,
    "laughs of text": text_laughs,
    "laughs of keys": key_laughs,
    "a list in itself": own_part,
    "deep lists": lambda: pickled(EMPTY_LIST * MANY, APPEND * (MANY - 1)),
    "deep tuples": lambda: pickled(EMPTY_TUPLE, TUPLE1 * MANY),
    "deep tuples as a key": lambda: pickled(EMPTY_DICT, EMPTY_TUPLE, TUPLE1 * MANY, NONE, SETITEM),
    "deep records": deep_records,
    "deep marks": lambda: pickled(MARK * MANY),
    "a memo of 2**32": lambda: pickled(NONE, b"r\xff\xff\xff\xff"),
    "a bytearray of 2**40": lambda: pickled(b"\x96" + struct.pack("<Q", 2**40)),
    "bytes of 2**40": lambda: pickled(b"\x8e" + struct.pack("<Q", 2**40)),
    "a text of 2**40": lambda: pickled(b"\x8d" + struct.pack("<Q", 2**40)),
    "a text of 2**32": lambda: pickled(b"X\xff\xff\xff\xff"),
    "a number of 2**31": lambda: pickled(b"\x8b\xff\xff\xff\x7f"),
    "a number in digits": lambda: pickled(b"L" + b"9" * 4_000_000 + b"L\n"),
    "a frame of 2**60": lambda: pickled(b"\x95" + struct.pack("<Q", 2**60), EMPTY_LIST, b"a"),
    "many operations": lambda: pickled(EMPTY_DICT * 600_000),
    "many large texts": lambda: pickled((text("\U0001f600" * 1_700) + MEMOIZE) * 1_200, b"a" * 2),
    "a large file": lambda: pickled(text("x" * 9_000_000)),
}

REFUSED = {
    "billion laughs": "1,000,000 parts",
    "billion laughs as a key": "a tuple as a key",
    "laughs of text": "67,108,864 characters",
    "laughs of keys": "67,108,864 characters",
    "a list in itself": "in themselves",
    "deep lists": "64 deep",
    "deep tuples": "64 deep",
    "deep tuples as a key": "a tuple as a key",
    "deep records": "64 deep",
    "deep marks": "empty stack",
    "a memo of 2**32": "the operation LONG_BINPUT",
    "a bytearray of 2**40": "no pickle",
    "bytes of 2**40": "no pickle",
    "a text of 2**40": "no pickle",
    "a text of 2**32": "no pickle",
    "a number of 2**31": "no pickle",
    "a number in digits": "no pickle",
    "a frame of 2**60": "empty stack",
    "many operations": "500,000 operations",
    "many large texts": "it appends to a str",
    "a large file": "8,388,608 bytes",
}
