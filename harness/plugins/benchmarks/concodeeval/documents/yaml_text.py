"""Reads and writes YAML with the core schema of YAML 1.2, using PyYAML's parser events.

Plain scalars mean what users expect: ``no``, ``on``, ``1_000`` and ``2020-01-01`` are strings,
``0o17`` is 15, and ``true`` is a boolean. Keys are strings as written, so ``1:`` and ``no:`` are
the keys "1" and "no". Merge keys (``<<: *base``) work.

Only tags of the core schema are applied, so nothing is executed. Repeated keys, second documents,
``.nan`` and ``.inf`` are refused.

>>> read("a: &x [no, 0o17]")
{'a': ['no', 15]}
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import yaml

from harness.plugins.benchmarks.concodeeval.documents.json_text import Node, written
from harness.scoring.validators import limits
from harness.scoring.validators.limits import UnparseableDocument

MOST_CHARACTERS_AS_PAPER = 100_000  # ``yaml.safe_load`` reads 50,000 characters a second

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_A_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def read(text: str, schema: Any = True) -> Any:
    """Return the value of the only document in YAML text, whatever the schema.

    Raises:
        UnparseableDocument: If the text is not one valid YAML document, or exceeds a limit. For a
            syntax error, the message gives the line and column.
    """
    limits.check_length(text)
    return _Reader(text).document().value


def read_as_paper(text: str) -> Any:
    """Return the value that ``yaml.safe_load`` reads.

    Raises:
        UnparseableDocument: If ``yaml`` fails, or if the document exceeds a limit.
    """
    try:
        _Reader(text, paper=True).document()
    except UnparseableDocument as error:
        if error.kind == "limit":  # anything else is left to safe_load
            raise
    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise UnparseableDocument(limits.TOO_DEEP, "limit") from None
    except Exception as error:  # a date of month 13 is a ValueError, a list as a key a TypeError
        raise UnparseableDocument(f"not YAML: {' '.join(str(error).split())[:200]}") from None


def tree(text: str, *, paper: bool) -> Node:
    """Return the root node of a YAML document, with offsets that include tags and anchors.

    Raises:
        UnparseableDocument: If the text is not a single document, or exceeds a limit.
    """
    return _Reader(text, paper=paper).document()


@dataclass(slots=True)
class _Node(Node):
    """A node: its value (a scalar's event in paper mode), and its size with aliases expanded."""

    value: Any = None
    nodes: int = 1
    characters: int = 0
    height: int = 0


class _Reader:
    """Builds the nodes of a document from its events, within the limits.

    PyYAML's composer is not used, because it would crash on text that is nested too deeply.
    """

    def __init__(self, text: str, *, paper: bool = False) -> None:
        if paper and len(text) > MOST_CHARACTERS_AS_PAPER:
            problem = f"more than {MOST_CHARACTERS_AS_PAPER:,} characters of YAML"
            raise UnparseableDocument(problem, "limit")
        self.paper = paper
        loader = yaml.SafeLoader if paper else _LOADER
        self.events = _events(text, loader)
        # libyaml does not count a byte order mark.
        self.shift = int(text.startswith("\ufeff") and loader is not yaml.SafeLoader)
        self.anchors: dict[str, _Node | None] = {}  # None while being built
        self.nodes = 0
        self.characters = 0
        self.constructor: Any = yaml.SafeLoader("")

    def document(self) -> _Node:
        node = self.node(next(self.events), 0)
        for _ in self.events:  # to the end of the text, to find a second document
            pass
        return node

    def node(self, event: Any, depth: int) -> _Node:
        """Return the node that begins with an event, inside ``depth`` containers."""
        node = _Node(event.start_mark.index + self.shift, event.end_mark.index + self.shift)
        if isinstance(event, yaml.AliasEvent):
            return self.anchored(event, depth) or node
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            node.characters = len(event.value)
            self.grow(1, node.characters, depth)
            node.value = event if self.paper else _scalar(event)
        else:
            nodes_before = self.nodes
            characters_before = self.characters
            self.grow(1, 0, depth + 1)
            is_list = isinstance(event, yaml.SequenceStartEvent)
            own_tag = _TAG + ("seq" if is_list else "map")
            if not self.paper and event.tag not in (None, "!", own_tag):
                raise _unknown_tag(event)
            fill = self.items if is_list else self.members
            children, end = fill(node, depth + 1)
            node.end = end.end_mark.index + self.shift
            if children and not event.flow_style:
                # In block style the parser sees the end only where the next value begins.
                node.end = children[-1].end
            node.nodes = self.nodes - nodes_before
            node.characters = self.characters - characters_before
            heights = [child.height for child in children]
            node.height = 1 + max(heights, default=0)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def anchored(self, event: Any, depth: int) -> _Node | None:
        node = self.anchors.get(event.anchor)
        is_known = event.anchor in self.anchors
        if node is not None:
            self.grow(node.nodes, node.characters, depth + node.height)
        elif not (is_known and self.paper):  # safe_load would create a value that contains itself
            problem = "refers to itself" if is_known else "has no anchor"
            raise _wrong(f"the alias *{event.anchor[:60]} {problem}", event)
        return node

    def grow(self, nodes: int, characters: int, depth: int) -> None:
        self.nodes += nodes
        self.characters += characters
        if depth > limits.MAX_DEPTH:
            raise UnparseableDocument(limits.TOO_DEEP, "limit")
        if self.nodes > limits.MAX_VALUES:
            raise UnparseableDocument(limits.TOO_MANY_VALUES, "limit")
        if self.characters > limits.MAX_DOCUMENT_CHARS:
            problem = f"more than {limits.MAX_DOCUMENT_CHARS:,} characters with aliases written out"
            raise UnparseableDocument(problem, "limit")

    def items(self, node: _Node, depth: int) -> tuple[list[_Node], Any]:
        """Fill the node of a list, and return its items' nodes and the event that ends it."""
        items = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.node(event, depth))
        node.items = [*items]
        node.value = [item.value for item in items]
        return items, event

    def members(self, node: _Node, depth: int) -> tuple[list[_Node], Any]:
        """Fill the node of a mapping, and return its keys' and values' nodes and the last event."""
        direct: dict[str, Node] = {}
        bases: deque[Node] = deque()  # of equal names, the later base's counts
        children = []
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.node(event, depth)
            value = self.node(next(self.events), depth)
            children += [key, value]
            if _is_merge_key(event):
                merged = [value] if value.items is None else value.items
                if self.paper:
                    bases.extend(reversed(merged))
                elif any(base.members is None for base in merged):
                    raise _wrong("<< merges a value that is not a mapping", event)
                else:
                    bases.extendleft(merged)
            elif (name := self.name(key, event)) is not None:
                if name in direct and not self.paper:
                    raise _wrong(f"the key {name[:60]!r} occurs twice in one mapping", event)
                direct[name] = value
        members: dict[str, Any] = {}
        for base in bases:
            members |= base.members or {}
        members |= direct
        node.members = members
        node.value = {name: member.value for name, member in members.items()}
        return children, event

    def name(self, key: _Node, event: Any) -> str | None:
        """Return a key as a string, or None if ``yaml.safe_load`` refuses it in paper mode."""
        if not self.paper:
            name = key.value
            if isinstance(event, yaml.ScalarEvent):
                name = event.value
            if not isinstance(name, str):
                raise _wrong("a key is not text", event)
            return name
        scalar = key.value
        if not isinstance(scalar, yaml.ScalarEvent):
            return None
        tag = scalar.tag
        if tag in (None, "!"):
            tag = self.constructor.resolve(yaml.ScalarNode, scalar.value, scalar.implicit)
        try:
            return str(self.constructor.construct_object(yaml.ScalarNode(tag, scalar.value)))
        except Exception:  # a date of month 13: safe_load has not read the document
            return None


def _is_merge_key(event: Any) -> bool:
    if not isinstance(event, yaml.ScalarEvent):
        return False
    return bool(event.value == "<<" and event.tag is None and event.implicit[0])


def _events(text: str, loader: Any) -> Iterator[Any]:
    documents = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _wrong("a second YAML document begins", event)
            elif isinstance(event, (yaml.NodeEvent, yaml.CollectionEndEvent)):
                yield event
    except yaml.MarkedYAMLError as error:
        problem = (error.problem or error.context or "it breaks the grammar").strip()
        raise _wrong(f"not YAML: {problem}", error) from None
    except yaml.YAMLError as error:
        problem = str(getattr(error, "reason", None) or "a character that YAML does not allow")
        raise UnparseableDocument(f"not YAML: {problem}") from None
    except UnicodeEncodeError:
        raise UnparseableDocument(limits.HALF_PAIR) from None
    except (ValueError, OverflowError) as error:  # an escape beyond Unicode, "\\UFFFFFFFF"
        raise UnparseableDocument(f"not YAML: {error}") from None
    if not documents:
        raise UnparseableDocument("not YAML: the text has no document")


def _wrong(problem: str, source: Any) -> UnparseableDocument:
    """Return an error with the line and column, if any, of an event or a YAML error."""
    for name in ("problem_mark", "context_mark", "start_mark"):
        if mark := getattr(source, name, None):
            place = f"line {mark.line + 1}, column {mark.column + 1}"
            return UnparseableDocument(f"{problem} ({place})")
    return UnparseableDocument(problem)


def _plain(text: str) -> Any:
    """Return a plain (unquoted) scalar's value in the core schema."""
    if text.lower() in _WORDS and text in (text.lower(), text.title(), text.upper()):
        return _WORDS[text.lower()]
    if _INT.fullmatch(text):
        return limits.parse_integer(text)
    if _FLOAT.fullmatch(text):
        return limits.parse_decimal(text)
    if _BASED.fullmatch(text):
        return limits.parse_integer(text, 0)
    if _NOT_A_NUMBER.fullmatch(text):
        raise UnparseableDocument(f"{text} is not a JSON number")
    return text


def _scalar(event: Any) -> Any:
    text: str = event.value
    kind = (event.tag or _TAG).removeprefix(_TAG)
    is_quoted = not kind and not event.implicit[0]
    if is_quoted or kind in ("str", "!"):
        return text
    if kind and kind not in _TYPES:
        raise _unknown_tag(event)
    value = _plain(text)
    if kind and type(value) not in _TYPES[kind]:
        raise _wrong(f"{text[:60]!r} is not of type {kind}", event)
    if kind == "float" and type(value) is int and abs(value) < 2**53:
        return float(value)
    return value


_TYPES = {"null": (type(None),), "bool": (bool,), "int": (int,), "float": (int, float, Decimal)}


def _unknown_tag(event: Any) -> UnparseableDocument:
    return _wrong(f"the tag {event.tag[:60]!r} is not supported", event)


_ESCAPED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters to write as escapes in double quotes: controls, the byte order mark, and line breaks
that only YAML 1.1 knows."""
_NUMBER_1_2 = re.compile(rf"(?:{_FLOAT.pattern}|{_BASED.pattern})$")
"""Matches what YAML 1.2 reads as a number, even if 1.1 does not (``0o17``, ``1e5``). Such strings
are quoted."""


class _Dumper(yaml.SafeDumper):
    """Writes exact numbers, quotes what YAML 1.1 or 1.2 would misread, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)  # indent lists in mappings, as models do

    def represent_number(self, value: float | Decimal) -> Any:
        """Write 1e5 as 1.0e+5, which is a number in YAML 1.1, too."""
        mantissa, e, exponent = written(value).lower().partition("e")
        if "." not in mantissa:
            mantissa += ".0"
        if e and exponent[0] not in "+-":
            exponent = f"+{exponent}"
        return self.represent_scalar(_TAG + "float", f"{mantissa}{e}{exponent}")

    def represent_text(self, value: str) -> Any:
        style = '"' if _ESCAPED.search(value) else None
        return self.represent_scalar(_TAG + "str", value, style=style)


_Dumper.add_representer(float, _Dumper.represent_number)
_Dumper.add_representer(Decimal, _Dumper.represent_number)
_Dumper.add_representer(str, _Dumper.represent_text)
_Dumper.add_implicit_resolver(_TAG + "float", _NUMBER_1_2, list("-+.0123456789"))


def write(value: Any) -> str:
    """Return block-style YAML, readable as 1.1 and as 1.2, of a value that `check_json` accepts."""
    options: Any = {"sort_keys": False, "allow_unicode": True, "default_flow_style": False}
    return str(yaml.dump(value, Dumper=_Dumper, width=math.inf, **options)).removesuffix("...\n")
