"""Where a value stands in a text of YAML, from the marks of the parser's events.

The events are those that documents are read from, with their bounds: no alias expands, nothing is
constructed but the keys of mappings on the way.

>>> place("a:\\n- b\\n- c: 1  # one\\n", ["a", "1"], "strict")
(9, 13)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.scoring.validators.documents import Mode
from harness.scoring.validators.pointer_tokens import index, names
from harness.scoring.validators.unreadable import DEEPEST
from harness.scoring.validators.yaml_events import events


@dataclass(slots=True)
class _Node:
    """A value: a scalar, the items of a list, or the keys and values of a mapping.

    event: the scalar's, for a key.
    stands_for: what an alias does.
    """

    start: int
    end: int
    event: Any
    items: list[_Node] | None = None
    members: list[tuple[_Node, _Node]] | None = None
    stands_for: _Node | None = None

    @property
    def value(self) -> _Node:
        """Itself, or what the alias stands for: never an alias again."""
        return self.stands_for or self


def place(text: str, path: Sequence[str], mode: Mode) -> tuple[int, int] | None:
    """The value's offsets.

    Raises: Unreadable where the text is no YAML, or beyond the limits.
    """
    import yaml

    # libyaml does not count a byte order mark
    parser = yaml.SafeLoader if mode == "paper" else getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    shift = int(text.startswith("\ufeff") and parser is not yaml.SafeLoader)
    found = events(text, parser)
    root = _Tree(found).node(next(found))
    for _ in found:  # to the text's end, where a second document may be
        pass
    keys = _Keys(mode)
    node: _Node | None = root
    for token in path:
        node = _below(node.value, token, keys) if node else None
    return (node.start + shift, node.end + shift) if node else None


@dataclass(slots=True)
class _Tree:
    """Makes nodes of events: recursion is bounded by the events' depth."""

    events: Iterator[Any]
    anchors: dict[str, _Node] = field(default_factory=dict)

    def node(self, event: Any) -> _Node:
        """The node that begins with this event."""
        import yaml

        made = _Node(event.start_mark.index, event.end_mark.index, event)
        if isinstance(event, yaml.AliasEvent):
            made.stands_for = self.anchors[event.anchor or ""]
            return made
        if event.anchor is not None:
            self.anchors[event.anchor] = made
        if isinstance(event, yaml.SequenceStartEvent):
            made.items = []
            while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
                made.items.append(self.node(event))
            self._close(made, event, made.items)
        elif isinstance(event, yaml.MappingStartEvent):
            made.members = []
            while not isinstance(event := next(self.events), yaml.MappingEndEvent):
                made.members.append((self.node(event), self.node(next(self.events))))
            self._close(made, event, [value for _, value in made.members])
        return made

    @staticmethod
    def _close(made: _Node, end: Any, inside: Sequence[_Node]) -> None:
        # In block style the parser sees the end only where the next value begins.
        in_flow = made.event.flow_style
        made.end = end.end_mark.index if in_flow or not inside else inside[-1].end
        made.event = None


class _Keys:
    """What the keys of mappings are called: as written, or as the authors' reader makes them."""

    def __init__(self, mode: Mode) -> None:
        import yaml

        self.last_merge_counts = mode == "paper"
        self._loader: Any = yaml.SafeLoader("") if mode == "paper" else None

    def is_merge(self, key: _Node) -> bool:
        """Whether it is the plain ``<<``."""
        event = key.event
        return (
            key.stands_for is None
            and event is not None
            and (event.value, event.tag, event.implicit[0]) == ("<<", None, True)
        )

    def name(self, key: _Node) -> str | None:
        """The name in a pointer; None for a key that is a list or a mapping."""
        import yaml

        event = key.value.event
        if event is None:
            return None
        if self._loader is None:
            return str(event.value)
        tag = event.tag
        if tag in (None, "!"):
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        try:
            node = yaml.ScalarNode(tag, event.value)
            return str(self._loader.construct_object(node))
        except Exception:  # a date of month 13: safe_load has not read the document
            return None


def _below(node: _Node, token: str, keys: _Keys, depth: int = 0) -> _Node | None:
    if node.items is not None:
        at = index(token)
        return node.items[at] if at is not None and at < len(node.items) else None
    if node.members is None or depth > DEEPEST:
        return None
    merges = []
    found = None
    for key, value in node.members:
        if keys.is_merge(key):
            merges.append(value.value)
        elif (name := keys.name(key)) is not None and names(token, name):
            found = value  # of two keys the last counts
    if found is not None:
        return found
    for merge in reversed(merges) if keys.last_merge_counts else merges:
        for base in merge.items if merge.items is not None else [merge]:
            if base.value.members is not None:
                found = _below(base.value, token, keys, depth + 1)
                if found is not None:
                    return found
    return None
