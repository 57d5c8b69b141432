"""YAML with the core schema of YAML 1.2, built from the parser's events.

What a plain word means is the 1.2 rule, as users expect it: ``no``, ``on``, ``1_000`` and
``2020-01-01`` are texts, ``0o17`` is 15, ``true`` is a boolean. A key is the text that is written,
so ``1:`` and ``no:`` are the keys "1" and "no". Merge keys (``<<: *base``) work.

No tag but those of the core schema is followed, so nothing is ever executed. An alias counts as all
that it stands for; a key written twice, a second document, ``.nan`` and ``.inf`` are refused.

>>> read("a: &x [no, 0o17]")
{'a': ['no', 15]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from harness.scoring.validators.numbers import exact, whole
from harness.scoring.validators.unreadable import Unreadable, check_length
from harness.scoring.validators.yaml_events import events, where

TAG = "tag:yaml.org,2002:"
_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"true|True|TRUE|(false|False|FALSE)")
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def read(text: str) -> Any:
    """The value of the text's one document.

    Raises: Unreadable, with line and column.
    """
    check_length(text)
    found = events(text)
    value = _Builder(found).value(next(found))
    for _ in found:  # to the text's end, where a second document may be
        pass
    return value


def plain(text: str) -> Any:
    """What a plain (unquoted) scalar means in the core schema.

    Raises: Unreadable for numbers that JSON cannot hold.
    """
    if _NULL.fullmatch(text):
        return None
    found = _BOOL.fullmatch(text)
    if found:
        return found[1] is None
    if _INT.fullmatch(text):
        return whole(text)
    if _FLOAT.fullmatch(text):
        return exact(text)
    if _BASED.fullmatch(text):
        return whole(text, 0)
    if _NO_NUMBER.fullmatch(text):
        raise Unreadable(f"{text} is no JSON number")
    return text


class _Merge:
    """The plain key ``<<``."""


_MERGE = _Merge()


class _Builder:
    """Makes values of events; containers are built once and shared by their aliases."""

    def __init__(self, found: Iterator[Any]) -> None:
        self.next = found.__next__
        self.anchors: dict[str, Any] = {}

    def value(self, event: Any) -> Any:
        """The value that begins with this event: recursion is bounded by the events' depth."""
        import yaml

        if isinstance(event, yaml.AliasEvent):
            return self.anchors[event.anchor or ""]
        if isinstance(event, yaml.ScalarEvent):
            made = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            _expect(event, "seq")
            made = []
            while not isinstance(part := self.next(), yaml.SequenceEndEvent):
                made.append(self.value(part))
        else:
            _expect(event, "map")
            made = self.mapping(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = made
        return made

    def mapping(self, start: Any) -> dict[str, Any]:
        import yaml

        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := self.next(), yaml.MappingEndEvent):
            key = self.key(event)
            value = self.value(self.next())
            if isinstance(key, _Merge):
                for base in value if isinstance(value, list) else [value]:
                    if not isinstance(base, dict):
                        raise Unreadable(f"<< merges what is no mapping{where(event)}")
                    merged = base | merged  # an earlier base goes before a later one
            elif key in own:
                raise Unreadable(
                    f"the key {key[:60]!r} is there twice in one mapping{where(event)}"
                )
            else:
                own[key] = value
        return {**merged, **own} if merged else own

    def key(self, event: Any) -> str | _Merge:
        import yaml

        if isinstance(event, yaml.ScalarEvent):
            if event.value == "<<" and event.implicit[0] and event.tag is None:
                return _MERGE
            _scalar(event)  # for its tag
            if event.anchor is not None:
                self.anchors[event.anchor] = event.value
            return str(event.value)
        if isinstance(event, yaml.AliasEvent):
            known = self.anchors[event.anchor or ""]
            if isinstance(known, str):
                return known
        raise Unreadable(f"a key that is no text{where(event)}")


def _expect(event: Any, kind: str) -> None:
    if event.tag not in (None, "!", TAG + kind):
        raise Unreadable(f"the tag {event.tag[:60]!r} is not followed{where(event)}")


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.tag in (None, "!"):
        return plain(text) if event.implicit[0] and event.tag is None else text
    kind = event.tag.removeprefix(TAG)
    if kind == "str":
        return text
    if kind in ("null", "bool", "int", "float"):
        value = plain(text)
        if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value) if abs(value) < 2**53 else value
        names = {"null": type(None), "bool": bool, "int": int, "float": object}
        number = not isinstance(value, (str, bool, type(None)))
        if type(value) is names[kind] or (kind == "float" and number):
            return value
        raise Unreadable(f"{text[:60]!r} is no {kind}{where(event)}")
    raise Unreadable(f"the tag {event.tag[:60]!r} is not followed{where(event)}")


def write(value: Any) -> str:
    """A value's text in block style; reads the same by YAML 1.1 (``yaml.safe_load``).

    The value is one that `harness.scoring.validators.documents.render` has checked.
    """
    import yaml

    from harness.scoring.validators.yaml_dumper import dumper

    text = yaml.dump(
        value,
        Dumper=dumper(),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=float("inf"),
    )
    return str(text).removesuffix("...\n")
