"""The parser events of a YAML text's one document, bounded before anything is built from them.

An alias counts as all the values and characters that it stands for: a "billion laughs" of a few
hundred bytes ends after 100,000 values, whoever would expand them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.scoring.validators.limits import (
    DEEPEST,
    HALF_PAIR,
    MOST_CHARACTERS,
    MOST_NODES,
    UnparseableDocument,
    too_deep,
    too_many_nodes,
)


def events_of(text: str, loader: Any) -> Iterator[Any]:
    """Yield the parser's events between the document's start and end, bounded as they are made.

    Raises:
        UnparseableDocument: The grammar is broken, the text is empty or has a second document, an
            alias stands for something incomplete, or a limit is exceeded.
    """
    import yaml

    size = _Size()
    documents = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise UnparseableDocument(f"a second YAML document begins{where(event)}")
            elif isinstance(event, (yaml.NodeEvent, yaml.CollectionEndEvent)):
                size.add(event)
                yield event
    except yaml.MarkedYAMLError as error:
        problem = (error.problem or error.context or "it breaks the grammar").strip()
        raise UnparseableDocument(f"no YAML: {problem}{where(error)}") from None
    except yaml.YAMLError as error:
        problem = str(getattr(error, "reason", None) or "a character that YAML does not allow")
        raise UnparseableDocument(f"no YAML: {problem}") from None
    except UnicodeEncodeError:
        raise UnparseableDocument(HALF_PAIR) from None
    except (ValueError, OverflowError) as error:  # an escape beyond Unicode, "\\UFFFFFFFF"
        raise UnparseableDocument(f"no YAML: {error}") from None
    if not documents:
        raise UnparseableDocument("no YAML: the text holds no document")


def where(source: Any) -> str:
    """Describe the place of an event or an error, for the end of a message."""
    names = ("problem_mark", "context_mark", "start_mark")
    mark = next(filter(None, (getattr(source, name, None) for name in names)), None)
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""


@dataclass(slots=True)
class _Anchored:
    """The size of what an anchor refers to; until it is complete, the counts before it."""

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
        self.height = 0  # of the highest container closed so far beneath this one

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
                problem = "stands for itself" if anchored else "has no anchor"
                raise UnparseableDocument(f"the alias *{name[:60]} {problem}{where(event)}")
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
            raise UnparseableDocument(
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
