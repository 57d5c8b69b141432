"""Reads and writes values as XML in the form of json2xml, and rejects hostile XML.

The root is ``<all>`` (any name is accepted). A member of an object is an element with the member's
name, an item of a list is ``<item>``, and ``type`` gives an element's type. A key that is not a
plain ASCII name is written ``<key name="the key">``, as in json2xml. Without a type, the schema
determines the text's meaning (`Expected`).

>>> read('<all><a type="list"><item type="int">5</item></a></all>')
{'a': [5]}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from xml.parsers import expat

from harness.plugins.benchmarks.concodeeval.documents.json_text import (
    ALL,
    Node,
    json_number,
    type_of,
    written,
)
from harness.records import JsonObject
from harness.scoring.validators import limits
from harness.scoring.validators.limits import UnparseableDocument, pointer, resolve_fragment

TYPES = {
    "dict": "object",
    "list": "array",
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "null": "null",
}
"""The accepted values of ``type`` (json2xml's), with JSON Schema's names for them."""
_TYPES = TYPES | {name: name for name in TYPES.values()}
_NAME = re.compile(r"(?![xX][mM][lL])[A-Za-z_][A-Za-z0-9_.-]*")
_IGNORED = re.compile(r"xmlns(?::.*)?|xml:.*|xsi:.*")


@dataclass(slots=True)
class _Element:
    """An XML element, with its start and end as byte offsets in the stripped text."""

    name: str
    attributes: dict[str, str]
    line: int = 0
    start: int = 0
    end: int = 0
    children: list[_Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def key(self) -> str:
        return self.attributes.get("name", "key") if self.name == "key" else self.name


def _parse(text: str, *, doctype: bool) -> _Element:
    """Return the root element, refusing a document type unless ``doctype`` is set."""
    limits.check_length(text)
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    around = [_Element("", {})]
    count = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(around) > limits.MAX_DEPTH + 1:
            raise UnparseableDocument(limits.TOO_DEEP, "limit")
        if count > limits.MAX_VALUES:
            raise UnparseableDocument(limits.TOO_MANY_VALUES, "limit")
        element = _Element(name, attributes, parser.CurrentLineNumber, parser.CurrentByteIndex)
        around[-1].children.append(element)
        around.append(element)

    def end(name: str) -> None:
        # expat's offset is the start of the end tag; for <a/>, the end of the element.
        element = around[-1]
        element.end = parser.CurrentByteIndex
        empty = source[element.end - 2 : element.end] == b"/>"
        if element.children or element.pieces or not empty:
            element.end = source.index(b">", element.end) + 1
        around.pop()

    def refuse(*declared: Any) -> None:
        raise UnparseableDocument("XML with a document type or entities is refused")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = lambda data: around[-1].pieces.append(data)
    parser.StartDoctypeDeclHandler = None if doctype else refuse
    parser.EntityDeclHandler = refuse
    parser.AttlistDeclHandler = refuse  # defaults would be copied into each element
    try:
        source = text.strip().encode()
        parser.Parse(source, True)
    except expat.ExpatError as error:
        place = f"(line {error.lineno}, column {error.offset + 1})"
        raise UnparseableDocument(f"not XML: {expat.ErrorString(error.code)} {place}") from None
    except UnicodeEncodeError:
        raise UnparseableDocument(limits.HALF_PAIR) from None
    return around[0].children[0]


def read(text: str, schema: Any = True) -> Any:
    """Return the value of XML. ``schema`` gives the types of elements without ``type``.

    Raises:
        UnparseableDocument: If the text is not XML in the form of json2xml, or exceeds a limit.
    """
    return _value(_parse(text, doctype=False), Expected([schema], schema))


def read_as_paper(text: str) -> Any:
    """Return the value that ``xmltodict.parse`` reads.

    Raises:
        UnparseableDocument: If ``xmltodict`` fails, or if the document exceeds a limit.
    """
    import xmltodict

    _parse(text, doctype=True)
    try:
        return xmltodict.parse(text)
    except Exception as error:  # expat's errors, and a ValueError for entities
        raise UnparseableDocument(f"not XML: {' '.join(str(error).split())[:200]}") from None


def _value(element: _Element, expected: Expected) -> Any:
    declared = _declared(element)
    kind = declared or _undeclared(element, expected)
    children = element.children
    text = element.text
    tag = f"<{element.name[:60]}>"
    words = text.strip()
    if kind in ("object", "array") and words:
        raise _wrong(element, f"{tag} has text ({words[:40]!r}) where only elements may be")
    if kind == "object":
        members: JsonObject = {}
        for child in children:
            if child.key in members:
                raise _wrong(child, f"the member {child.key[:60]!r} occurs twice")
            members[child.key] = _value(child, expected.member(child.key))
        return members
    if kind == "array":
        items = []
        for index, child in enumerate(children):
            if child.name != "item":
                raise _wrong(child, f"a list's member is <item>, not <{child.name[:60]}>")
            items.append(_value(child, expected.item(index)))
        return items
    if children:
        raise _wrong(element, f"{tag} is of type {kind}, but contains elements")
    if declared is None:
        return scalar(words, expected)
    if kind == "string":
        return text
    return _typed(element, kind)


def _declared(element: _Element) -> str | None:
    for name in element.attributes:
        is_key = name == "name" and element.name == "key"
        if name != "type" and not is_key and not _IGNORED.fullmatch(name):
            raise _wrong(element, f"the attribute {name[:60]!r} is not allowed in a value")
    kind = element.attributes.get("type")
    if kind is None:
        return None
    if kind not in _TYPES:
        raise _wrong(element, f'type="{kind[:60]}" is not one of {", ".join(TYPES)}')
    return _TYPES[kind]


def _undeclared(element: _Element, expected: Expected) -> str:
    """Return the kind of an element without ``type``: "object", "array" or "text"."""
    types = expected.types
    if element.children:
        if "array" not in types or any(child.name != "item" for child in element.children):
            return "object"
        has_property = any("item" in _properties(schema) for schema in expected.schemas)
        return "object" if has_property else "array"
    if not element.text.strip() and not types & {"null", "string"}:
        for kind in ("object", "array"):
            if kind in types:
                return kind
    return "text"


def _typed(element: _Element, kind: str) -> Any:
    text = element.text.strip()
    if kind == "null" and text in ("", "null"):
        return None
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    if kind in ("integer", "number"):
        number = json_number(text)
        if isinstance(number, int) or (number is not None and kind == "number"):
            return number
    raise _wrong(element, f"{text[:60]!r} is not of type {kind}")


def _wrong(element: _Element, problem: str) -> UnparseableDocument:
    return UnparseableDocument(f"not a value: {problem} (line {element.line})")


MOST_STEPS = 200  # maximum subschemas to examine for one element: recursive schemas have no end
_APPLIES_TO = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"),
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
}


class Expected:
    """The subschemas that apply to one place, with references and combinations resolved.

    They determine whether ``<all>5</all>`` is the number 5 or the string "5".
    """

    def __init__(self, schemas: list[Any], root: Any) -> None:
        self.schemas = list(_flat(schemas, root))
        self.root = root

    @property
    def types(self) -> frozenset[str]:
        """The types that all subschemas allow or, if they have none in common, that any allows."""
        type_sets = list(filter(None, map(_types, self.schemas))) or [ALL]
        common = frozenset.intersection(*type_sets)
        return common or frozenset().union(*type_sets)

    def member(self, key: str) -> Expected:
        """Return the subschemas that apply to the object member with this key."""
        schemas = []
        for schema in self.schemas:
            if key in _properties(schema):
                schemas.append(_properties(schema)[key])
            elif "additionalProperties" in schema and not schema.get("patternProperties"):
                schemas.append(schema["additionalProperties"])
        return Expected(schemas, self.root)

    def item(self, index: int) -> Expected:
        """Return the subschemas that apply to the list item at this index."""
        schemas = []
        for schema in self.schemas:
            first = schema.get("prefixItems")
            rest = schema.get("items")
            if isinstance(rest, list):  # the form of tuples before 2020-12
                first = rest
                rest = schema.get("additionalItems")
            if isinstance(first, list) and index < len(first):
                schemas.append(first[index])
            elif rest is not None or "contains" in schema:
                schemas.append(schema["contains"] if rest is None else rest)
        return Expected(schemas, self.root)


_WORDS = {"": None, "null": None, "true": True, "false": False}


def scalar(text: str, expected: Expected) -> Any:
    """Return an element's text as a constant of the schema, an expected type, or else unchanged."""
    readings: list[Any] = []
    if text in _WORDS:
        readings.append(_WORDS[text])
    number = json_number(text)
    if number is not None:
        readings.append(number)
    readings.append(text)
    types = expected.types
    allowed = [value for value in readings if type_of(value) in types] or [text]
    constants = []
    for schema in expected.schemas:
        constants += [(type(constant), constant) for constant in _constants(schema)]
    for value in allowed:
        if (type(value), value) in constants:
            return value
    return allowed[0]


def _flat(schemas: list[Any], root: Any) -> Iterator[JsonObject]:
    """Yield each schema that is an object, and those that it combines or refers to."""
    waiting = schemas[::-1]
    seen = set()
    steps = 0
    while waiting and steps < MOST_STEPS:
        steps += 1
        schema = waiting.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        reference = schema.get("$ref")
        if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
            target = resolve_fragment(reference[1:], root)
            waiting.append(target and target[1])
        for keyword in ("oneOf", "anyOf", "allOf"):
            if isinstance(schema.get(keyword), list):
                waiting.extend(reversed(schema[keyword]))


def _types(schema: JsonObject) -> frozenset[str]:
    declared = schema.get("type")
    if isinstance(declared, str):
        declared = [declared]
    if isinstance(declared, list):
        return ALL & {"number" if name == "integer" else str(name) for name in declared}
    if "const" in schema:
        return frozenset({type_of(schema["const"])})
    if isinstance(schema.get("enum"), list):
        return frozenset(map(type_of, schema["enum"]))
    return frozenset(kind for kind, words in _APPLIES_TO.items() if schema.keys() & words)


def _constants(schema: JsonObject) -> list[Any]:
    constants = []
    if "const" in schema:
        constants.append(schema["const"])
    if isinstance(schema.get("enum"), list):
        constants += schema["enum"]
    return constants


def _properties(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def tree(text: str, *, paper: bool) -> Node:
    """Return the root node of an XML document, for locating values.

    This is the root element or, if ``paper`` is set, an object that holds it. Offsets are bytes of
    the stripped text.

    Raises:
        UnparseableDocument: If the text is not XML, or exceeds a limit.
    """
    root = _parse(text, doctype=paper)
    if not paper:
        return _as_value(root)
    return Node(root.start, root.end, members={root.name: _as_paper(root)})


def _as_value(element: _Element) -> Node:
    """Return an element's node, with items of a possible list and members of a possible object."""
    node = Node(element.start, element.end)
    items = []
    members = {}
    times = Counter(child.key for child in element.children)
    for child in element.children:
        below = _as_value(child)
        items.append(below)
        if times[child.key] == 1:
            members[child.key] = below
    kind = _TYPES.get(element.attributes.get("type", ""))
    # Element names cannot begin with a digit; an object has the key "0" as <key name="0">.
    if kind != "object" and all(child.name == "item" for child in element.children):
        node.items = items
    if kind != "array":
        node.members = members
    return node


def _as_paper(element: _Element) -> Node:
    """Return an element's node, where siblings of one name become one list."""
    node = Node(element.start, element.end)
    members = dict.fromkeys((f"@{name}" for name in element.attributes), node)
    siblings: dict[str, list[Node]] = {}
    for child in element.children:
        siblings.setdefault(child.name, []).append(_as_paper(child))
    for name, nodes in siblings.items():
        members[name] = nodes[0]
        if len(nodes) > 1:
            members[name] = Node(nodes[0].start, nodes[-1].end, items=nodes)
    # Without attributes and children, the text is the element's value itself.
    if members and element.text.strip():
        members["#text"] = node
    return Node(element.start, element.end, members=members)


DECLARATION = '<?xml version="1.0" ?>'
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Parsers turn carriage returns into line feeds, and both into blanks in attributes.
_ESCAPES = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        "\r": "&#13;",
        "\n": "&#10;",
        "\t": "&#9;",
    }
)


def write(value: Any) -> str:
    """Return XML, readable by `read` without a schema, of a value that `check_json` accepts.

    Raises:
        UnparseableDocument: If a string has a character that XML cannot contain.
    """
    # The paper's root has no type; it gets one if it would otherwise be misread.
    opening = "all"
    if not isinstance(value, dict) or not value or list(value) == ["item"]:
        opening = f'all type="{_type(value)}"'
    lines = XmlWriter().lines("all", opening, value, ())
    return "\n".join([DECLARATION, *lines]) + "\n"


class XmlWriter:
    """Writes values as elements. Subclasses may escape and mark texts in another way."""

    def escaped(self, text: str) -> str:
        """Return what the text of an element is written as."""
        return text.translate(_ESCAPES)

    def quoted(self, text: str) -> str:
        """Return what the value of an attribute is written as, with quotes."""
        return f'"{text.translate(_ESCAPES)}"'

    def marked(self, text: str, path: Sequence[str | int]) -> str:
        """Return what the start tag of the value at a path begins with, given its plain form."""
        return text

    def lines(
        self, name: str, opening: str, value: Any, path: tuple[str | int, ...]
    ) -> Iterator[str]:
        """Yield the lines of an element, whose start tag begins with ``opening``."""
        indent = "    " * len(path)
        if isinstance(value, (dict, list, tuple)) and value:
            yield f"{indent}<{opening}>"
            members = value.items() if isinstance(value, dict) else enumerate(value)
            for key, member in members:
                below = (*path, key)
                tag: str = "item" if isinstance(key, int) else key
                start = tag
                if not _NAME.fullmatch(tag):
                    start = f"key name={self.quoted(_allowed(tag, below))}"
                    tag = "key"
                start = f'{self.marked(start, below)} type="{_type(member)}"'
                yield from self.lines(tag, start, member, below)
            yield f"{indent}</{name}>"
            return
        text = ""
        if isinstance(value, str):
            text = self.escaped(_allowed(value, path))
        elif isinstance(value, bool):
            text = str(value).lower()
        elif isinstance(value, (int, float, Decimal)):
            text = written(value)
        if text:
            yield f"{indent}<{opening}>{text}</{name}>"
        else:
            yield f"{indent}<{opening}/>"


_NAMES: dict[type, str] = {  # of the types in ``type``; booleans come before integers
    dict: "dict",
    list: "list",
    tuple: "list",
    bool: "bool",
    str: "str",
    int: "int",
    type(None): "null",
}


def _type(value: Any) -> str:
    for python_type, name in _NAMES.items():
        if isinstance(value, python_type):
            return name
    return "float"


def _allowed(text: str, path: Sequence[str | int]) -> str:
    if forbidden := _FORBIDDEN.search(text):
        raise UnparseableDocument(
            f"the value at {pointer(path)[:80] or 'the root'} has the character "
            f"U+{ord(forbidden[0]):04X}, which XML cannot contain: use JSON or YAML"
        )
    return text
