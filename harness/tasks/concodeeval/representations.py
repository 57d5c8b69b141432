"""A JSON Schema in the five representations of ConCodeEval (arXiv 2407.03387).

The four kinds of code lose nothing. JSON is indented by four. YAML has its members in alphabetical
order. XML has the root ``<all>`` and members with ``type="dict|str|int|…"``; a list's members are
``<item>``, and a name that is not an XML name becomes ``<key name="first name" …>``, as in the
library json2xml, whose form the paper's is.

>>> schema = {"type": "string", "maxLength": 5}
>>> start, end = spans(schema, "json")["/maxLength"]
>>> render(schema, "json")[start:end]
'maxLength'
"""

from __future__ import annotations

import json
import re
from typing import Any, get_args
from xml.sax.saxutils import escape, quoteattr

import yaml

from harness.errors import DataInvalid
from harness.tasks.concodeeval import english, python
from harness.tasks.concodeeval.schema import (
    RESERVED,
    Representation,
    Schema,
    Spans,
    Wording,
    keywords,
    marked,
    pointer,
    unmarked,
)

REPRESENTATIONS: tuple[Representation, ...] = get_args(Representation)
INDENT = " " * 4

XML_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 cannot hold."""
TYPES = {dict: "dict", list: "list", str: "str", bool: "bool", int: "int", float: "float"}


def render(
    schema: Schema, representation: Representation, *, wording: Wording = "corrected"
) -> str:
    """Return the schema's text; the wording is that of English. XML cannot hold all characters."""
    return _rendered(schema, representation, wording)[0]


def spans(
    schema: Schema, representation: Representation, *, wording: Wording = "corrected"
) -> Spans:
    """Locate each keyword in the text of `render`: map its pointer to its start and end.

    In code that is the keyword's own word (in Python, pydantic's word for it; for ``required``,
    which has none, the first required field; for ``items``, the type in the brackets), in English
    the clause about it.
    """
    found = _rendered(schema, representation, wording)[1]
    return {place: found[place] for place, _, _ in keywords(schema) if place in found}


def _rendered(
    schema: Schema, representation: Representation, wording: Wording
) -> tuple[str, Spans]:
    if RESERVED.search(json.dumps(schema, ensure_ascii=False)):
        raise DataInvalid("A schema cannot contain the noncharacters U+FDD0 to U+FDD2.")
    match representation:
        case "json":
            return unmarked(_json(schema, "", ""))
        case "yaml":
            return _yaml(schema)
        case "xml":
            members = _xml_members(schema, INDENT, "")
            return unmarked(f'<?xml version="1.0" ?>\n<all>\n{members}</all>')
        case "python":
            return unmarked(python.render(schema))
        case "natural_language":
            return unmarked(english.render(schema, wording))


def _json(value: Any, indent: str, at: str) -> str:
    """Write a value as ``json.dumps(value, indent=4, ensure_ascii=False)`` does."""
    inner = indent + INDENT
    if isinstance(value, dict) and value:
        lines = []
        for name, member in value.items():
            place = pointer(at, name)
            word = marked(json.dumps(name, ensure_ascii=False)[1:-1], place)
            lines.append(f'{inner}"{word}": {_json(member, inner, place)}')
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        items = [inner + _json(item, inner, pointer(at, n)) for n, item in enumerate(value)]
        return "[\n" + ",\n".join(items) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True  # the same list twice is two lists


def _yaml_string(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Represent a string, in double quotes if PyYAML would fold a line break in it into a space."""
    style = '"' if any(each in text for each in "\r\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _yaml_string)


def _yaml(schema: Schema) -> tuple[str, Spans]:
    """Write the schema as ``yaml.safe_dump(schema)`` does, without folded lines and aliases."""
    text = yaml.dump(
        schema, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=float("inf")
    )
    spans: Spans = {}
    pending = [(yaml.compose(text, Loader=yaml.SafeLoader), "")]
    while pending:
        node, at = pending.pop()
        if isinstance(node, yaml.MappingNode):
            for name, member in node.value:
                place = pointer(at, name.value)
                spans[place] = (name.start_mark.index, name.end_mark.index)
                pending.append((member, place))
        elif isinstance(node, yaml.SequenceNode):
            pending += ((member, pointer(at, number)) for number, member in enumerate(node.value))
    return text, spans


def _xml_members(value: Any, indent: str, at: str) -> str:
    if isinstance(value, list):
        items = enumerate(value)
        return "".join(_xml("item", "", one, indent, pointer(at, n)) for n, one in items)
    elements = []
    for name, member in value.items():
        tag, attribute = name, ""
        if not XML_NAME.fullmatch(name):
            quoted = quoteattr(_allowed(name), {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})
            tag, attribute = "key", f" name={quoted}"
        elements.append(_xml(tag, attribute, member, indent, pointer(at, name)))
    return "".join(elements)


def _xml(tag: str, attribute: str, value: Any, indent: str, at: str) -> str:
    start = f'{indent}<{marked(tag + attribute, at)} type="{TYPES.get(type(value), "null")}"'
    if isinstance(value, dict | list) and value:
        return f"{start}>\n{_xml_members(value, indent + INDENT, at)}{indent}</{tag}>\n"
    if isinstance(value, str):
        text = escape(_allowed(value), {"\r": "&#13;"})
    elif isinstance(value, bool):
        text = "true" if value else "false"
    else:
        text = "" if value in (None, {}, []) else repr(value)
    return f"{start}>{text}</{tag}>\n" if text else f"{start}/>\n"


def _allowed(text: str) -> str:
    if bad := FORBIDDEN.search(text):
        raise DataInvalid(
            f"XML 1.0 cannot hold the character {bad[0]!r} of {text[:40]!r}.",
            "Write the schema in another representation.",
        )
    return text
