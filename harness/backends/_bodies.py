"""Reading a provider's body: strict and fast first, then forgiving.

A reply was paid for. A lone surrogate (half an emoji, where an answer was cut)
or an odd token count must not throw it away, let alone have it paid again.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")

UNREADABLE = (msgspec.MsgspecError, ValueError, LookupError, RecursionError)
"""What reading a hostile body may raise."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A number of tokens."""


def read(content: bytes, decoder: msgspec.json.Decoder[T], shape: type[T]) -> T:
    """A body as the shape that its protocol promises.

    Raises: one of `UNREADABLE`.
    """
    try:
        return decoder.decode(content)
    except msgspec.DecodeError:
        tree = json.loads(content.decode("utf-8", "replace"))
        return msgspec.convert(_encodable(tree), shape)


def _encodable(tree: Any) -> Any:
    """The tree with lone surrogates in its texts replaced."""
    if isinstance(tree, str):
        return tree.encode("utf-8", "replace").decode()
    if isinstance(tree, list):
        return [_encodable(item) for item in tree]
    if isinstance(tree, dict):
        return {_encodable(key): _encodable(value) for key, value in tree.items()}
    return tree


def counted(usage: object, shape: type[T]) -> T | None:
    """Token counts as a shape; None where the provider's are missing or odd."""
    try:
        return msgspec.convert(usage, shape)
    except msgspec.ValidationError:
        return None
