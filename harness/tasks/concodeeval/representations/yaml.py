"""A schema as YAML: members in the order of the alphabet, as the paper's are.

Reading refuses what a schema has no use for, or what makes a small text a large value: aliases,
tags of one's own, names that come twice.

>>> render({"type": "string", "maxLength": 5}).text
'maxLength: 5\\ntype: string\\n'
"""

from __future__ import annotations

from typing import Any

import yaml

from harness.errors import DataInvalid
from harness.tasks.concodeeval.representations.marked import Marked
from harness.tasks.concodeeval.representations.schema import Schema, as_schema, pointer


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True  # the same list twice is two lists


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """A text in double quotes where it has a line break that PyYAML would fold into a space."""
    style = '"' if any(each in text for each in "\r\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


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


def render(schema: Schema) -> Marked:
    """The text that ``yaml.safe_dump(schema)`` gives, without folded lines and aliases."""
    text = yaml.dump(
        schema, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=float("inf")
    )
    spans: dict[str, tuple[int, int]] = {}
    root = yaml.compose(text, Loader=_Loader)
    if root is not None:
        _mark(root, "", spans)
    return Marked(text, spans)


def read(text: str) -> dict[str, Any]:
    """The schema.

    Raises: DataInvalid where the text is not YAML, or no mapping of JSON's values.
    """
    try:
        found = yaml.load(text, Loader=_Loader)  # noqa: S506 (a safe loader's heir)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise DataInvalid(f"The schema is not YAML: {said}.", "Check its text.") from None
    return as_schema(found, "YAML")


def _mark(node: yaml.Node, at: str, spans: dict[str, tuple[int, int]]) -> None:
    if isinstance(node, yaml.MappingNode):
        for name, member in node.value:
            place = pointer(at, name.value)
            spans[place] = (name.start_mark.index, name.end_mark.index)
            _mark(member, place, spans)
    elif isinstance(node, yaml.SequenceNode):
        for number, member in enumerate(node.value):
            _mark(member, pointer(at, number), spans)
