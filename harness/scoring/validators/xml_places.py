"""Where a value stands in a text of XML: expat's offsets of its elements.

In `strict` mode as `harness.scoring.validators.xml_text` reads: the root is the document, members
are child elements, items of lists are children. In `paper` mode as ``xmltodict`` does: the root's
name comes first, siblings of one name are a list.

>>> place("<all><a>1</a><a>23</a></all>", ["all", "a", "1"], "paper")
(13, 22)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.scoring.validators.documents import Mode
from harness.scoring.validators.pointer_tokens import index, names
from harness.scoring.validators.xml_text import member_name
from harness.scoring.validators.xml_tree import Element, elements

_START_TAG = re.compile(rb"""<(?:[^>"']++|"[^"]*"|'[^']*')*+>""")
_ATTRIBUTE = re.compile(rb"""\s([^\s=]++)\s*+=\s*+(?:"([^"]*)"|'([^']*)')""")
_PIECE = re.compile(rb"<!\[CDATA\[(.*?)\]\]>|<!--.*?-->|<\?.*?\?>|([^<]+)", re.DOTALL)

Span = tuple[int, int]


def place(text: str, path: Sequence[str], mode: Mode) -> Span | None:
    """The value's offsets.

    Raises: Unreadable where the text is no XML, or beyond the limits.
    """
    root = elements(text, doctype=mode == "paper")
    source = _Source(text)
    if mode == "strict":
        element: Element | None = root
        for token in path:
            element = _below(element, token) if element else None
        return source.characters(source.element(element)) if element else None
    siblings = [root] if not path or names(path[0], root.name) else []
    for at, token in enumerate(path[1:], 1):
        if len(siblings) != 1:
            number = index(token)
            siblings = siblings[number : number + 1] if number is not None else []
        elif token.startswith(("@", "#")):
            return source.inside(siblings[0], token) if at == len(path) - 1 else None
        else:
            siblings = [one for one in siblings[0].children if names(token, one.name)]
    if not siblings:
        return None
    return source.characters((siblings[0].start, source.element(siblings[-1])[1]))


def _below(element: Element, token: str) -> Element | None:
    children, kind = element.children, element.attributes.get("type")
    number = index(token)
    # No name of an element begins with a digit; an object has the key "0" as <key name="0">.
    is_list = kind not in ("dict", "object") and all(child.name == "item" for child in children)
    if number is not None and is_list:
        return children[number] if number < len(children) else None
    if kind in ("list", "array"):
        return None
    found = [child for child in children if names(token, member_name(child))]
    return found[0] if len(found) == 1 else None


class _Source:
    """The text's bytes, which the parser counts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bytes = text.strip().encode()
        self.before = len(text) - len(text.lstrip())

    def characters(self, span: Span) -> Span:
        """Offsets in the text, of those in the bytes."""
        start = self.before + len(self.bytes[: span[0]].decode())
        return start, start + len(self.bytes[span[0] : span[1]].decode())

    def element(self, element: Element) -> Span:
        """From the start tag to the end tag, both included."""
        opened = self.opened(element)
        if self.bytes[opened - 2 : opened] == b"/>":
            return element.start, opened
        return element.start, self.bytes.index(b">", element.close) + 1

    def opened(self, element: Element) -> int:
        """Where the start tag has ended."""
        tag = _START_TAG.match(self.bytes, element.start)
        assert tag is not None, "the parser has read it"
        return tag.end()

    def inside(self, element: Element, token: str) -> Span | None:
        """Of ``@attribute`` the value, of ``#text`` the text."""
        if token.startswith("@"):
            for found in _ATTRIBUTE.finditer(self.bytes, element.start, self.opened(element)):
                if names(token[1:], found[1].decode()):
                    return self.characters(found.span(2 if found[2] is not None else 3))
            return None
        # Without attributes and children, the text is the element's value itself.
        has_text = element.text.strip() and (element.attributes or element.children)
        return self._words(element) if names("#text", token) and has_text else None

    def _words(self, element: Element) -> Span | None:
        """From the first character of the text to the last, of what is between the children."""
        begin, words = self.opened(element), []
        for child in element.children:
            words += self._pieces(begin, child.start)
            begin = self.element(child)[1]
        words += self._pieces(begin, element.close)
        if not words:
            return None
        start, end = self.characters((words[0][0], words[-1][1]))
        said = self.text[start:end]
        return start + len(said) - len(said.lstrip()), start + len(said.rstrip())

    def _pieces(self, begin: int, end: int) -> list[Span]:
        pieces = (
            found.span(found.lastindex)
            for found in _PIECE.finditer(self.bytes, begin, end)
            if found.lastindex
        )
        return [span for span in pieces if self.bytes[span[0] : span[1]].strip()]
