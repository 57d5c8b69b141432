"""A schema as JSON, YAML or XML, in the paper's forms.

JSON is indented by four. YAML has its members in alphabetical order. XML has the root ``<all>`` and
members with ``type="dict|str|int|…"``; a list's members are ``<item>``, and a name that is not an
XML name becomes ``<key name="first name" …>``, as in the library json2xml, whose form the paper's
is.

>>> render_json({"type": "string"}).text
'{\\n    "type": "string"\\n}'
>>> render_yaml({"type": "string", "maxLength": 5}).text
'maxLength: 5\\ntype: string\\n'
>>> print(render_xml({"type": "string"}).text)
<?xml version="1.0" ?>
<all>
    <type type="str">string</type>
</all>
"""

from __future__ import annotations

import json
import re
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import yaml

from harness.errors import DataInvalid
from harness.tasks.concodeeval.representations.schema import (
    Marked,
    Schema,
    joined,
    marked,
    pointer,
)

INDENT = " " * 4


def render_json(schema: Schema) -> Marked:
    """Render the schema as ``json.dumps(schema, indent=4, ensure_ascii=False)`` does."""
    return _json_value(schema, "", "")


def _json_value(value: Any, indent: str, at: str) -> Marked:
    """Render a value; the names of all its members are marked, keywords or not."""
    inner = indent + INDENT
    if isinstance(value, dict) and value:
        lines = []
        for name, member in value.items():
            place = pointer(at, name)
            quoted = json.dumps(name, ensure_ascii=False)[1:-1]
            word = joined([f'{inner}"', marked(quoted, at=place), '": '])
            lines.append(word + _json_value(member, inner, place))
        return joined(["{\n", joined(lines, ",\n"), f"\n{indent}}}"])
    if isinstance(value, list) and value:
        items = (_json_value(item, inner, pointer(at, place)) for place, item in enumerate(value))
        return joined(
            ["[\n", joined((joined([inner, item]) for item in items), ",\n"), f"\n{indent}]"]
        )
    return Marked(json.dumps(value, ensure_ascii=False))


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True  # the same list twice is two lists


def _yaml_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Represent a string, in double quotes if PyYAML would fold a line break in it into a space."""
    style = '"' if any(each in text for each in "\r\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _yaml_text)


def render_yaml(schema: Schema) -> Marked:
    """Render the schema as ``yaml.safe_dump(schema)`` does, without folded lines and aliases."""
    text = yaml.dump(
        schema, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=float("inf")
    )
    spans: dict[str, tuple[int, int]] = {}
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
    return Marked(text, spans)


XML_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 cannot hold."""
TYPES = {dict: "dict", list: "list", str: "str", bool: "bool", int: "int", float: "float"}


def render_xml(schema: Schema) -> Marked:
    """Render the schema under ``<all>``, without a line break at the end.

    Raises:
        DataInvalid: A text has a character that XML 1.0 cannot hold.
    """
    members = joined(_xml_members(dict(schema), INDENT, ""))
    return joined(['<?xml version="1.0" ?>\n<all>\n', members, "</all>"])


def _xml_members(value: dict[str, Any] | list[Any], indent: str, at: str) -> list[Marked]:
    if isinstance(value, list):
        return [
            _xml_element("item", "", item, indent, pointer(at, number))
            for number, item in enumerate(value)
        ]
    elements = []
    for name, member in value.items():
        tag, attribute = name, ""
        if not XML_NAME.fullmatch(name):
            quoted = quoteattr(_allowed(name), {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})
            tag, attribute = "key", f" name={quoted}"
        elements.append(_xml_element(tag, attribute, member, indent, pointer(at, name)))
    return elements


def _xml_element(tag: str, attribute: str, value: Any, indent: str, at: str) -> Marked:
    kind = TYPES.get(type(value), "null")
    start = joined([f"{indent}<", marked(tag + attribute, at=at), f' type="{kind}"'])
    if isinstance(value, dict | list) and value:
        inner = _xml_members(value, indent + INDENT, at)
        return joined([start, ">\n", joined(inner), f"{indent}</{tag}>\n"])
    if isinstance(value, str):
        text = escape(_allowed(value), {"\r": "&#13;"})
    elif isinstance(value, bool):
        text = "true" if value else "false"
    else:
        text = "" if value in (None, {}, []) else repr(value)
    return joined([start, f">{text}</{tag}>\n" if text else "/>\n"])


def _allowed(text: str) -> str:
    if bad := FORBIDDEN.search(text):
        raise DataInvalid(
            f"XML 1.0 cannot hold the character {bad[0]!r} of {text[:40]!r}.",
            "Write the schema in another representation.",
        )
    return text
