"""The elements of an XML text, read by expat with everything hostile turned off.

No document type, so no entity but XML's own five, nothing external, nothing that expands; depth and
number of elements are bounded while they are read.

>>> elements("<all><a type='int'>5</a></all>").children[0].text
'5'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.scoring.validators.unreadable import (
    DEEPEST,
    MOST_NODES,
    Unreadable,
    check_length,
    too_deep,
    too_many_nodes,
)


@dataclass(slots=True)
class Element:
    """One element: its character data are joined, comments and instructions left out.

    start, close: in the bytes of the text without white space around it, where the element begins,
        and its end tag (where there is one).
    """

    name: str
    attributes: dict[str, str]
    line: int
    start: int = 0
    close: int = 0
    children: list[Element] = field(default_factory=list)
    text: str = ""


def elements(text: str, *, doctype: bool = False) -> Element:
    """The root element.

    doctype: whether there may be a document type; it may declare nothing.

    Raises: Unreadable, with line and column where it is no XML.
    """
    check_length(text)
    reader = _Reader(doctype)
    reader.parse(text)
    return reader.root


def check_bounds(text: str) -> None:
    """Refuse what another parser should not be given: beyond the limits, or with declarations.

    Raises: Unreadable.
    """
    check_length(text)
    _Reader(doctype=True).parse(text)


class _Reader:
    def __init__(self, doctype: bool = False) -> None:
        self.root = Element("", {}, 0)
        self.open: list[Element] = []
        self.parts: list[list[str]] = []
        self.count = 0
        self.doctype = doctype

    def parse(self, text: str) -> None:
        from xml.parsers import expat

        parser = self.parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.data
        parser.StartDoctypeDeclHandler = self.document_type
        parser.EntityDeclHandler = self.declaration
        parser.AttlistDeclHandler = self.declaration  # defaults are copied into each element
        try:
            parser.Parse(text.strip().encode(), True)
        except expat.ExpatError as error:
            said = expat.ErrorString(error.code)
            raise Unreadable(
                f"no XML: {said} (line {error.lineno}, column {error.offset + 1})"
            ) from None
        except UnicodeEncodeError:
            raise Unreadable("half of a surrogate pair, which is no character") from None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self.open) > DEEPEST:
            raise too_deep()
        self.count += 1
        if self.count > MOST_NODES:
            raise too_many_nodes()
        parser = self.parser
        element = Element(name, attributes, parser.CurrentLineNumber, parser.CurrentByteIndex)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)
        self.parts.append([])

    def end(self, name: str) -> None:
        element = self.open.pop()
        element.text = "".join(self.parts.pop())
        element.close = self.parser.CurrentByteIndex

    def data(self, text: str) -> None:
        self.parts[-1].append(text)

    def document_type(self, *declared: Any) -> None:
        if not self.doctype:
            raise Unreadable("XML with a document type (<!DOCTYPE …>) is not read")

    def declaration(self, *declared: Any) -> None:
        raise Unreadable("XML that declares entities or attributes is not read")
