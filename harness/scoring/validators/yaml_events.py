"""The events of a YAML text's one document, bounded before anything is built of them.

An alias counts as all the values and characters that it stands for: a "billion laughs" of a few
hundred bytes ends after 100,000 values, whoever would expand them.

>>> len(list(events("[1, 2]")))
4
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.scoring.validators.unreadable import (
    DEEPEST,
    MOST_CHARACTERS,
    MOST_NODES,
    Unreadable,
    too_deep,
    too_many_nodes,
)


def events(text: str, loader: Any = None) -> Iterator[Any]:
    """PyYAML's events between the document's start and end.

    loader: the parser that makes them; libyaml's where None, which is the fastest.

    Raises: Unreadable: where the grammar is broken, for an empty text, a second document, an alias
        to what is not complete, and beyond the limits.
    """
    import yaml

    loader = loader or getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    size = _Size()
    documents = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise Unreadable(f"a second YAML document begins{where(event)}")
            elif isinstance(event, (yaml.NodeEvent, yaml.CollectionEndEvent)):
                size.add(event)
                yield event
    except yaml.MarkedYAMLError as error:
        said = (error.problem or error.context or "it breaks the grammar").strip()
        raise Unreadable(f"no YAML: {said}{where(error)}") from None
    except yaml.YAMLError as error:
        said = str(getattr(error, "reason", None) or "a character that YAML does not allow")
        raise Unreadable(f"no YAML: {said}") from None
    except UnicodeEncodeError:
        raise Unreadable("half of a surrogate pair, which is no character") from None
    except (ValueError, OverflowError) as error:  # an escape beyond Unicode, "\\UFFFFFFFF"
        raise Unreadable(f"no YAML: {error}") from None
    if not documents:
        raise Unreadable("no YAML: the text holds no document")


def where(source: Any) -> str:
    """The place of an event or an error, for the end of a message."""
    mark = getattr(source, "problem_mark", None) or getattr(source, "context_mark", None)
    mark = mark or getattr(source, "start_mark", None)
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""


@dataclass(slots=True)
class _Anchored:
    """What an anchor stands for; nodes and characters are those before it until it is complete."""

    nodes: int
    characters: int
    height: int = 0
    complete: bool = False


class _Size:
    """Counts values, characters and depth with aliases expanded."""

    def __init__(self) -> None:
        self.nodes = 0
        self.characters = 0
        self.anchors: dict[str, _Anchored] = {}
        self.open: list[tuple[_Anchored | None, int]] = []
        self.height = 0  # of the highest container that has just been closed beneath this one

    def add(self, event: Any) -> None:
        import yaml

        if isinstance(event, yaml.CollectionEndEvent):
            anchored, before = self.open.pop()
            self.height += 1
            if anchored is not None:
                anchored.nodes = self.nodes - anchored.nodes
                anchored.characters = self.characters - anchored.characters
                anchored.height = self.height
                anchored.complete = True
            self.height = max(self.height, before)
            return
        if isinstance(event, yaml.AliasEvent):
            name = event.anchor or ""
            anchored = self.anchors.get(name)
            if anchored is None or not anchored.complete:
                said = "stands for itself" if anchored else "has no anchor"
                raise Unreadable(f"the alias *{name[:60]} {said}{where(event)}")
            self.nodes += anchored.nodes
            self.characters += anchored.characters
            self.height = max(self.height, anchored.height)
        else:
            self._enter(event)
        if len(self.open) + self.height > DEEPEST:
            raise too_deep()
        if self.nodes > MOST_NODES:
            raise too_many_nodes()
        if self.characters > MOST_CHARACTERS:
            raise Unreadable(
                f"more than {MOST_CHARACTERS:,} characters with aliases written out", "limit"
            )

    def _enter(self, event: Any) -> None:
        import yaml

        anchored = None
        if event.anchor is not None:
            anchored = self.anchors[event.anchor] = _Anchored(self.nodes, self.characters)
        self.nodes += 1
        if isinstance(event, yaml.ScalarEvent):
            self.characters += len(event.value)
            if anchored is not None:
                anchored.nodes, anchored.characters = 1, len(event.value)
                anchored.complete = True
        else:
            self.open.append((anchored, self.height))
            self.height = 0
