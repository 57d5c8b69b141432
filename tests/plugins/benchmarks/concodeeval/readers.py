"""Reads the representations of schemas back, to show that rendering loses nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.parsers import expat

import yaml

from harness.errors import DataInvalid
from harness.plugins.benchmarks.concodeeval.representations import Representation
from tests.plugins.benchmarks.concodeeval import python_reader


def read_json(text: str) -> dict[str, Any]:
    """Read a schema.

    Raises:
        DataInvalid: The text is not a JSON object.
    """
    try:
        found = json.loads(text, object_pairs_hook=_members, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DataInvalid(f"The schema is not JSON: {error}.", "Check its text.") from None
    return as_schema(found, "JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a member twice")
    return members


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias, which no schema needs")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        found = super().construct_mapping(node, deep)
        if len(found) < len(node.value) or not all(isinstance(name, str) for name in found):
            raise yaml.YAMLError("a mapping whose names are not different strings")
        return found


def read_yaml(text: str) -> dict[str, Any]:
    """Read a schema.

    Raises:
        DataInvalid: The text is not YAML, or not a mapping of JSON values.
    """
    try:
        found = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise DataInvalid(f"The schema is not YAML: {problem}.", "Check its text.") from None
    return as_schema(found, "YAML")


def read_xml(text: str) -> dict[str, Any]:
    """Read a schema.

    Raises:
        DataInvalid: The text is not XML of this form.
    """
    try:
        found = _read_members(_tree(text))
    except (expat.ExpatError, ValueError, KeyError) as error:
        raise DataInvalid(f"The schema is not XML of its form: {error}.", "Check it.") from None
    return as_schema(found, "XML")


DEEPEST = 64
"""Most levels that a text may have; the schemas of benchmarks have a handful."""


def as_schema(found: object, form: str) -> dict[str, Any]:
    """Check that what was read is an object."""
    if not isinstance(found, dict):
        raise DataInvalid(f"The {form} schema is a {type(found).__name__}.")
    return found


@dataclass(slots=True)
class _Element:
    name: str
    kind: str
    text: str = ""
    members: list[_Element] = field(default_factory=list)


def _tree(text: str) -> _Element:
    """The root element, built from the parser's events."""
    document = _Element("", "dict")
    open_elements = [document]

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_elements) > DEEPEST:
            raise ValueError(f"more than {DEEPEST} levels")
        element = _Element(attributes.get("name", tag), attributes.get("type", "dict"))
        open_elements[-1].members.append(element)
        open_elements.append(element)

    def characters(data: str) -> None:
        open_elements[-1].text += data

    def no_document_type(*about: object) -> NoReturn:
        raise ValueError("it has a document type")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: open_elements.pop()
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = no_document_type
    parser.Parse(text, True)
    (root,) = document.members
    if root.name != "all":
        raise ValueError(f"its root is <{root.name}> and not <all>")
    return root


def _read_members(element: _Element) -> dict[str, Any]:
    members = {member.name: _read_value(member) for member in element.members}
    if len(members) < len(element.members):
        raise ValueError(f"<{element.name}> has a member twice")
    return members


def _read_value(element: _Element) -> Any:
    match element.kind:
        case "dict":
            return _read_members(element)
        case "list":
            return [_read_value(member) for member in element.members]
        case "str":
            return element.text
        case "int":
            return int(element.text)
        case "float":
            number = float(element.text)
            if not math.isfinite(number):
                raise ValueError(f"{element.text} is not a JSON number")
            return number
        case "bool":
            return {"true": True, "false": False}[element.text]
        case "null":
            return None
    raise ValueError(f'<{element.name}> has type="{element.kind}"')


READERS: dict[Representation, Callable[[str], dict[str, Any]]] = {
    "json": read_json,
    "yaml": read_yaml,
    "xml": read_xml,
    "python": python_reader.read,
}
READABLE = tuple(READERS)


def read(text: str, representation: Representation) -> dict[str, Any]:
    """The schema that a text stands for."""
    return READERS[representation](text)
