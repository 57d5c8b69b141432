"""A schema as XML, in the paper's form: ``<all>``, members with ``type="dict|str|int|…"``.

A list's members are ``<item>``. A name that is no XML name becomes
``<key name="first name" …>``, as the library json2xml has it, whose form the paper's is. Reading
refuses document types, and so every entity of one's own.

>>> print(render({"type": "string"}).text)
<?xml version="1.0" ?>
<all>
    <type type="str">string</type>
</all>
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from harness.errors import DataInvalid
from harness.tasks.concodeeval.representations.marked import Marked, joined, marked
from harness.tasks.concodeeval.representations.schema import (
    DEEPEST,
    Schema,
    as_schema,
    pointer,
)

DECLARATION = '<?xml version="1.0" ?>\n'
INDENT = " " * 4
XML_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
TYPES = {dict: "dict", list: "list", str: "str", bool: "bool", int: "int", float: "float"}


def render(schema: Schema) -> Marked:
    """The schema under ``<all>``, with no line break after it.

    Raises: DataInvalid where a text has a character that XML 1.0 cannot hold.
    """
    members = joined(_members(dict(schema), INDENT, ""))
    return joined([DECLARATION, "<all>\n", members, "</all>"])


def read(text: str) -> dict[str, Any]:
    """The schema.

    Raises: DataInvalid where the text is not such XML.
    """
    reader = _Reader()
    try:
        root = reader.tree(text)
        found = _read_members(root)
    except (expat.ExpatError, ValueError, KeyError) as error:
        raise DataInvalid(f"The schema is not XML of its form: {error}.", "Check it.") from None
    return as_schema(found, "XML")


def _members(value: dict[str, Any] | list[Any], indent: str, at: str) -> list[Marked]:
    if isinstance(value, list):
        return [
            _element("item", "", item, indent, pointer(at, number))
            for number, item in enumerate(value)
        ]
    elements = []
    for name, member in value.items():
        tag, attribute = name, ""
        if not XML_NAME.fullmatch(name):
            tag, attribute = "key", f" name={_attribute(name)}"
        elements.append(_element(tag, attribute, member, indent, pointer(at, name)))
    return elements


def _element(tag: str, attribute: str, value: Any, indent: str, at: str) -> Marked:
    kind = TYPES.get(type(value), "null")
    start = joined([f"{indent}<", marked(tag + attribute, at=at), f' type="{kind}"'])
    if isinstance(value, dict | list) and value:
        inner = _members(value, indent + INDENT, at)
        return joined([start, ">\n", joined(inner), f"{indent}</{tag}>\n"])
    text = _text(value)
    return joined([start, f">{text}</{tag}>\n" if text else "/>\n"])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return escape(_held(value), {"\r": "&#13;"})
    return "" if value in (None, {}, []) else repr(value)


def _attribute(name: str) -> str:
    return quoteattr(_held(name), {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})


def _held(text: str) -> str:
    if bad := FORBIDDEN.search(text):
        raise DataInvalid(
            f"XML 1.0 cannot hold the character {bad[0]!r} of {text[:40]!r}.",
            "Write the schema in another representation.",
        )
    return text


@dataclass(slots=True)
class _Element:
    name: str
    kind: str
    text: list[str] = field(default_factory=list)
    members: list[_Element] = field(default_factory=list)


class _Reader:
    """Builds the tree from the parser's events: it never meets a document type."""

    def __init__(self) -> None:
        self.open = [_Element("", "dict")]

    def tree(self, text: str) -> _Element:
        """The root element."""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = _no_document_type
        parser.Parse(text, True)
        (root,) = self.open[0].members
        if root.name != "all":
            raise ValueError(f"its root is <{root.name}> and not <all>")
        return root

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self.open) > DEEPEST:
            raise ValueError(f"more than {DEEPEST} levels")
        element = _Element(attributes.get("name", tag), attributes.get("type", "dict"))
        self.open[-1].members.append(element)
        self.open.append(element)

    def _end(self, tag: str) -> None:
        self.open.pop()

    def _characters(self, text: str) -> None:
        self.open[-1].text.append(text)


def _no_document_type(*about: object) -> NoReturn:
    raise ValueError("it has a document type")


def _number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is no number of JSON")
    return number


def _read_members(element: _Element) -> dict[str, Any]:
    members = {member.name: _read_value(member) for member in element.members}
    if len(members) < len(element.members):
        raise ValueError(f"<{element.name}> has a member twice")
    return members


def _read_value(element: _Element) -> Any:
    text = "".join(element.text)
    match element.kind:
        case "dict":
            return _read_members(element)
        case "list":
            return [_read_value(member) for member in element.members]
        case "str":
            return text
        case "int":
            return int(text)
        case "float":
            return _number(text)
        case "bool":
            return {"true": True, "false": False}[text]
        case "null":
            return None
    raise ValueError(f'<{element.name}> has type="{element.kind}"')
