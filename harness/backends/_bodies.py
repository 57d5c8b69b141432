"""Reading a provider's body: strict and fast first, then forgiving.

A reply was paid for. A lone surrogate (half an emoji, where an answer was cut)
or an odd token count must not throw it away, let alone have it paid again.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

import msgspec

from harness.errors import BrokenOff
from harness.records import encodable

T = TypeVar("T")

UNREADABLE = (msgspec.MsgspecError, ValueError, LookupError, RecursionError)
"""What reading a hostile body may raise."""

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
"""A number of tokens; whatever is beyond is none, and no column holds it."""


def read(content: bytes, decoder: msgspec.json.Decoder[T], shape: type[T]) -> T:
    """A body as the shape that its protocol promises.

    Raises: one of `UNREADABLE`.
    """
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        tree = json.loads(content.decode("utf-8", "replace"))
        return msgspec.convert(_encodable(tree), shape)


def _encodable(tree: Any) -> Any:
    """The tree with lone surrogates in its texts replaced."""
    if isinstance(tree, str):
        return encodable(tree)
    if isinstance(tree, list):
        return [_encodable(item) for item in tree]
    if isinstance(tree, dict):
        return {_encodable(key): _encodable(value) for key, value in tree.items()}
    return tree


def text_of(content: object) -> str:
    """The text of a content: a text, a list of parts, or nothing.

    Raises: ValueError for anything else.
    """
    if isinstance(content, list):
        return "".join(
            text_of(part.get("text") if isinstance(part, dict) else part) for part in content
        )
    if content is not None and not isinstance(content, str):
        raise ValueError(f"a content is no {type(content).__name__}")
    return content or ""


def said(value: object) -> str | None:
    """A text field that is one; None for whatever else a server may put there."""
    return value if isinstance(value, str) and value else None


FAILED = frozenset({"error", "abort", "cancelled"})
"""Finish reasons of compatible servers that mean: there is no answer."""


def finish(reason: object) -> str:
    """The finish reason, ``stop`` where none is told.

    Raises: BrokenOff where it says that there is no answer.
    """
    told = said(reason) or "stop"
    if told in FAILED:
        raise BrokenOff(f"The server ended the answer with {told!r}.")
    return told


def counted(usage: object, shape: type[T]) -> T | None:
    """Token counts as a shape; None where the provider's are missing or odd."""
    try:
        return msgspec.convert(usage, shape)
    except msgspec.ValidationError:
        return None
