"""YAML with the core schema of YAML 1.2, built from PyYAML's parser events.

Plain words mean what users expect: ``no``, ``on``, ``1_000`` and ``2020-01-01`` are strings,
``0o17`` is 15, ``true`` is a boolean. A key is the text as written, so ``1:`` and ``no:`` are the
keys "1" and "no". Merge keys (``<<: *base``) work.

Only tags of the core schema are followed, so nothing is ever executed. An alias counts as all that
it stands for; a key written twice, a second document, ``.nan`` and ``.inf`` are refused.

>>> read("a: &x [no, 0o17]")
{'a': ['no', 15]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from harness.scoring.validators.limits import (
    UnparseableDocument,
    check_length,
    exact,
    too_deep,
    whole,
    written,
)
from harness.scoring.validators.paths import Node, Span
from harness.scoring.validators.yaml_events import events_of, where

MOST_CHARACTERS_AS_PAPER = 100_000
"""PyYAML's own parser, which ``yaml.safe_load`` uses, reads some 50,000 characters a second."""

_TAG = "tag:yaml.org,2002:"
_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"true|True|TRUE|(false|False|FALSE)")
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_A_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def read(text: str) -> Any:
    """Read the value of the text's one document.

    Raises:
        UnparseableDocument: It is not such a document; the message has line and column.
    """
    check_length(text)
    events = events_of(text, _fast_loader())
    value = _Builder(events).value(next(events))
    for _ in events:  # to the end of the text, where a second document may be
        pass
    return value


def read_as_paper(text: str) -> Any:
    """Read the value as ``yaml.safe_load`` does, within the limits.

    Raises:
        UnparseableDocument: It cannot be read.
    """
    import yaml

    if len(text) > MOST_CHARACTERS_AS_PAPER:
        raise UnparseableDocument(
            f"more than {MOST_CHARACTERS_AS_PAPER:,} characters of YAML", "limit"
        )
    try:
        for _ in events_of(text, yaml.SafeLoader):
            pass
    except UnparseableDocument as error:
        if error.kind == "limit":  # anything else is for safe_load to judge
            raise
    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise too_deep() from None
    except Exception as error:  # a date of month 13 is a ValueError, a list as a key a TypeError
        raise UnparseableDocument(f"no YAML: {' '.join(str(error).split())[:200]}") from None


def _fast_loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Merge:
    """The plain key ``<<``."""


_MERGE = _Merge()


class _Builder:
    """Builds values from events; containers are built once and shared by their aliases."""

    def __init__(self, events: Iterator[Any]) -> None:
        self.next = events.__next__
        self.anchors: dict[str, Any] = {}

    def value(self, event: Any) -> Any:
        """Build the value that begins with this event; the events' depth bounds the recursion."""
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
            made = self.mapping()
        if event.anchor is not None:
            self.anchors[event.anchor] = made
        return made

    def mapping(self) -> dict[str, Any]:
        import yaml

        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := self.next(), yaml.MappingEndEvent):
            key = self.key(event)
            value = self.value(self.next())
            if isinstance(key, _Merge):
                for base in value if isinstance(value, list) else [value]:
                    if not isinstance(base, dict):
                        raise UnparseableDocument(f"<< merges what is no mapping{where(event)}")
                    merged = base | merged  # an earlier base wins over a later one
            elif key in own:
                raise UnparseableDocument(
                    f"the key {key[:60]!r} is there twice in one mapping{where(event)}"
                )
            else:
                own[key] = value
        return {**merged, **own} if merged else own

    def key(self, event: Any) -> str | _Merge:
        import yaml

        if isinstance(event, yaml.ScalarEvent):
            if _is_merge(event):
                return _MERGE
            _scalar(event)  # for its tag
            if event.anchor is not None:
                self.anchors[event.anchor] = event.value
            return str(event.value)
        if isinstance(event, yaml.AliasEvent):
            known = self.anchors[event.anchor or ""]
            if isinstance(known, str):
                return known
        raise UnparseableDocument(f"a key that is no text{where(event)}")


def _is_merge(event: Any) -> bool:
    return (event.value, event.tag, event.implicit[0]) == ("<<", None, True)


def _expect(event: Any, kind: str) -> None:
    if event.tag not in (None, "!", _TAG + kind):
        raise UnparseableDocument(f"the tag {event.tag[:60]!r} is not followed{where(event)}")


def plain(text: str) -> Any:
    """Read a plain (unquoted) scalar by the core schema.

    Raises:
        UnparseableDocument: It is a number that JSON cannot hold.
    """
    if _NULL.fullmatch(text):
        return None
    if found := _BOOL.fullmatch(text):
        return found[1] is None
    if _INT.fullmatch(text):
        return whole(text)
    if _FLOAT.fullmatch(text):
        return exact(text)
    if _BASED.fullmatch(text):
        return whole(text, 0)
    if _NOT_A_NUMBER.fullmatch(text):
        raise UnparseableDocument(f"{text} is no JSON number")
    return text


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.tag in (None, "!"):
        return plain(text) if event.implicit[0] and event.tag is None else text
    kind = event.tag.removeprefix(_TAG)
    if kind == "str":
        return text
    if kind in ("null", "bool", "int", "float"):
        value = plain(text)
        if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value) if abs(value) < 2**53 else value
        types = {"null": type(None), "bool": bool, "int": int, "float": object}
        is_number = not isinstance(value, (str, bool, type(None)))
        if type(value) is types[kind] or (kind == "float" and is_number):
            return value
        raise UnparseableDocument(f"{text[:60]!r} is no {kind}{where(event)}")
    raise UnparseableDocument(f"the tag {event.tag[:60]!r} is not followed{where(event)}")


def locate(text: str, path: Sequence[str], *, paper: bool) -> Span | None:
    """Return the offsets of the value at a path, with its tag and anchor.

    An alias stands where it is written, and its contents where its anchor is.

    Args:
        text: The document.
        path: A pointer's tokens.
        paper: Keys have the names that ``yaml.safe_load`` gives them.

    Raises:
        UnparseableDocument: The text is not YAML, or exceeds the limits.
    """
    import yaml

    loader = yaml.SafeLoader if paper else _fast_loader()
    events = events_of(text, loader)
    root = _Locator(events, paper).node(next(events))
    for _ in events:
        pass
    node = root.at(path)
    # libyaml does not count a byte order mark.
    shift = int(text.startswith("\ufeff") and loader is not yaml.SafeLoader)
    return (node.start + shift, node.end + shift) if node else None


class _Locator:
    """Builds nodes from events; merged members come first, as the last of equal names counts."""

    def __init__(self, events: Iterator[Any], paper: bool) -> None:
        import yaml

        self.next = events.__next__
        self.paper = paper
        self.loader: Any = yaml.SafeLoader("")
        self.anchors: dict[str, tuple[Any, Node]] = {}

    def node(self, event: Any) -> Node:
        import yaml

        node = Node(event.start_mark.index, event.end_mark.index)
        if isinstance(event, yaml.AliasEvent):
            anchored = self.anchors[event.anchor or ""][1]
            node.items, node.members = anchored.items, anchored.members
            return node
        if event.anchor is not None:
            self.anchors[event.anchor] = event, node
        if isinstance(event, yaml.SequenceStartEvent):
            node.items = []
            while not isinstance(end := self.next(), yaml.SequenceEndEvent):
                node.items.append(self.node(end))
            last = node.items[-1] if node.items else None
        elif isinstance(event, yaml.MappingStartEvent):
            end, last = self.mapping(node)
        else:
            return node
        # In block style the parser sees the end only where the next value begins.
        node.end = end.end_mark.index if event.flow_style or last is None else last.end
        return node

    def mapping(self, node: Node) -> tuple[Any, Node | None]:
        """Fill in the members; return the mapping's last event and its last value."""
        import yaml

        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        last = None
        while not isinstance(event := self.next(), yaml.MappingEndEvent):
            self.node(event)
            last = self.node(self.next())
            if isinstance(event, yaml.ScalarEvent) and _is_merge(event):
                bases = [last] if last.items is None else last.items
                for base in reversed(bases) if self.paper else bases:
                    below = base.members or {}
                    merged = merged | below if self.paper else below | merged
            elif (name := self.name(event)) is not None:
                own[name] = last
        node.members = merged | own
        return event, last

    def name(self, event: Any) -> str | None:
        """Return the key's name in a pointer, or None for a list or a mapping."""
        import yaml

        if isinstance(event, yaml.AliasEvent):
            event = self.anchors[event.anchor or ""][0]
        if not isinstance(event, yaml.ScalarEvent):
            return None
        if not self.paper:
            return str(event.value)
        tag = event.tag
        if tag in (None, "!"):
            tag = self.loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        try:
            return str(self.loader.construct_object(yaml.ScalarNode(tag, event.value)))
        except Exception:  # a date of month 13: safe_load has not read the document
            return None


def write(value: Any) -> str:
    """Write a value that `check_json` accepts in block style; YAML 1.1 reads the same."""
    import yaml

    text = yaml.dump(
        value,
        Dumper=_dumper(),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=float("inf"),
    )
    return str(text).removesuffix("...\n")


_ESCAPED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NUMBER_1_2 = re.compile(rf"(?:{_FLOAT.pattern}|{_BASED.pattern})$")
"""What only the 1.2 core schema takes for a number (``0o17``, ``1e5``) is quoted, too."""


@cache
def _dumper() -> type[Any]:
    """Return the dumper, made when it is first needed: PyYAML is not loaded before."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """No aliases, exact numbers, texts quoted for both versions."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)  # indent a list in a mapping, as models do

    def number(owner: Any, value: float | Decimal) -> Any:
        return owner.represent_scalar(_TAG + "float", _with_point(written(value)))

    def text(owner: Any, value: str) -> Any:
        # The byte order mark, and the line breaks that only YAML 1.1 has, are escaped only inside
        # double quotes.
        style = '"' if _ESCAPED.search(value) else None
        return owner.represent_scalar(_TAG + "str", value, style=style)

    Dumper.add_representer(float, number)
    Dumper.add_representer(Decimal, number)
    Dumper.add_representer(str, text)
    Dumper.add_implicit_resolver(_TAG + "float", _NUMBER_1_2, list("-+.0123456789"))
    return Dumper


def _with_point(text: str) -> str:
    """Add a point and a signed exponent, else YAML 1.1 reads a string: 1e5 is 1.0e+5."""
    mantissa, e, exponent = text.lower().partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    if e and exponent[0] not in "+-":
        exponent = "+" + exponent
    return mantissa + e + exponent
