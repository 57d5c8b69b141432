"""XML that stands for a value, in the form of ConCodeEval (json2xml's).

The root is ``<all>`` (any name is read). A member of an object is an element of its name, a member
of a list is ``<item>``, and ``type`` says what an element is: dict, list, str, int, float, bool or
null; JSON Schema's own names for types are read, too. A key that is no plain ASCII name is written
``<key name="the key">``, as json2xml does. Texts with a type are kept to the letter; without one
they lose the white space around them, and what they mean is the schema's to say
(`harness.scoring.validators.xml_schema`).

>>> read('<all><a type="list"><item type="int">5</item></a></all>')
{'a': [5]}
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from harness.errors import DataInvalid
from harness.scoring.validators.numbers import Number, read_json_number, written
from harness.scoring.validators.unreadable import Unreadable
from harness.scoring.validators.xml_schema import Form, scalar
from harness.scoring.validators.xml_tree import Element, elements

KINDS = {
    "dict": "object",
    "list": "array",
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "null": "null",
}
"""The values of ``type``, as JSON Schema calls them."""

_TYPES = KINDS | {kind: kind for kind in KINDS.values()}
_NAME = re.compile(r"(?![xX][mM][lL])[A-Za-z_][A-Za-z0-9_.-]*")
_IGNORED = re.compile(r"xmlns(?::.*)?|xml:.*|xsi:.*")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read(text: str, schema: Any = True) -> Any:
    """The value that the text stands for.

    schema: says what elements without a ``type`` are; True says nothing.

    Raises: Unreadable.
    """
    return _value(elements(text), Form.of(schema))


def _value(element: Element, form: Form) -> Any:
    kind = _declared(element)
    typed = kind is not None
    if kind is None:
        kind = _undeclared(element, form)
    if kind == "object":
        _no_text(element)
        return _members(element, form)
    if kind == "array":
        _no_text(element)
        for child in element.children:
            if child.name != "item":
                raise _wrong(child, f"a list's member is <item>, not <{child.name[:60]}>")
        return [_value(child, form.item(at)) for at, child in enumerate(element.children)]
    if element.children:
        raise _wrong(element, f"<{element.name[:60]}> is a {kind} and has elements inside")
    if typed:
        return _typed(element, kind)
    return scalar(element.text.strip(), form)


def _declared(element: Element) -> str | None:
    kind = None
    for name, value in element.attributes.items():
        if name == "type":
            kind = _TYPES.get(value)
            if kind is None:
                raise _wrong(
                    element, f'type="{value[:60]}" is unknown; there are {", ".join(KINDS)}'
                )
        elif not (name == "name" and element.name == "key") and not _IGNORED.fullmatch(name):
            raise _wrong(element, f"the attribute {name[:60]!r} has no place in a value")
    return kind


def _undeclared(element: Element, form: Form) -> str:
    """Whether an element without a type is an object, an array, or has a text."""
    types = form.types
    if element.children:
        items = all(child.name == "item" for child in element.children)
        if items and "array" in types and not form.has_member("item"):
            return "array"
        return "object"
    if element.text.strip() or types & {"null", "string"}:
        return "text"
    if "object" in types:
        return "object"
    return "array" if "array" in types else "text"


def member_name(element: Element) -> str:
    """The key that an element is the value of, where it is an object's member."""
    return element.attributes.get("name", "key") if element.name == "key" else element.name


def _members(element: Element, form: Form) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for child in element.children:
        key = member_name(child)
        if key in members:
            raise _wrong(child, f"the member {key[:60]!r} is there twice")
        members[key] = _value(child, form.member(key))
    return members


def _typed(element: Element, kind: str) -> Any:
    if kind == "string":
        return element.text
    text = element.text.strip()
    if kind == "null" and text in ("", "null"):
        return None
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    if kind in ("integer", "number"):
        number = read_json_number(text)
        if number is not None and (kind == "number" or isinstance(number, int)):
            return number
    raise _wrong(element, f"{text[:60]!r} is no {kind}")


def _no_text(element: Element) -> None:
    if element.text.strip():
        raise _wrong(
            element,
            f"<{element.name[:60]}> has a text ({element.text.strip()[:40]!r}) in its place"
            " for elements",
        )


def _wrong(element: Element, problem: str) -> Unreadable:
    return Unreadable(f"no value: {problem} (line {element.line})")


def write(value: Any) -> str:
    """A value's text; what it is can be read back without a schema.

    The value is one that `harness.scoring.validators.documents.render` has checked.

    Raises: DataInvalid for a character that XML cannot hold.
    """
    lines = ['<?xml version="1.0" ?>']
    # The paper's root has no type; it gets one where it would be read as something else.
    clear = isinstance(value, dict) and bool(value) and list(value) != ["item"]
    _write("all", "", value, "" if clear else _type(value), 0, lines, ())
    return "\n".join(lines) + "\n"


def _write(
    name: str,
    attribute: str,
    value: Any,
    kind: str,
    depth: int,
    lines: list[str],
    path: Sequence[str | int],
) -> None:
    indent = "    " * depth
    opening = f"{indent}<{name}{attribute}" + (f' type="{kind}"' if kind else "")
    if isinstance(value, (dict, list, tuple)):
        if not value:
            lines.append(opening + "/>")
            return
        lines.append(opening + ">")
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            below, inside = (*path, key), ""
            tag = "item" if isinstance(key, int) else key
            if isinstance(key, str) and not _NAME.fullmatch(key):
                tag, inside = "key", f' name="{_escaped(key, below)}"'
            _write(tag, inside, one, _type(one), depth + 1, lines, below)
        lines.append(f"{indent}</{name}>")
        return
    text = _text(value, path)
    lines.append(f"{opening}>{text}</{name}>" if text else opening + "/>")


def _type(value: Any) -> str:
    if isinstance(value, dict):
        return "dict"
    if isinstance(value, (list, tuple)):
        return "list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "str"
    return "int" if isinstance(value, int) else "float"


def _text(value: bool | str | Number | None, path: Sequence[str | int]) -> str:
    if isinstance(value, str):
        return _escaped(value, path)
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else written(value)


def _escaped(text: str, path: Sequence[str | int]) -> str:
    found = _FORBIDDEN.search(text)
    if found:
        place = "".join(f"/{part}" for part in path)[:80] or "the root"
        raise DataInvalid(
            f"The value at {place} has the character U+{ord(found[0]):04X}, which XML cannot hold.",
            "Write it as JSON or YAML.",
        )
    for raw, escape in _ESCAPES:
        text = text.replace(raw, escape)
    return text


_ESCAPES = (
    ("&", "&amp;"),
    ("<", "&lt;"),
    (">", "&gt;"),
    ('"', "&quot;"),
    # A parser makes a line feed of a carriage return, and blanks of both in an attribute.
    ("\r", "&#13;"),
    ("\n", "&#10;"),
    ("\t", "&#9;"),
)
