"""Documents in JSON, YAML and XML: reads, writes and searches them.

Mode ``strict`` (the default) follows the standards: numbers are exact, and anything that parsers
disagree about is refused. Mode ``paper`` reads as ConCodeEval's authors do: with ``json.loads``,
``yaml.safe_load`` and ``xmltodict.parse`` (NaN is a number, and the last of two equal keys counts).

>>> read("a: no", "yaml"), read("a: no", "yaml", mode="paper")
({'a': 'no'}, {'a': False})
"""

from __future__ import annotations

from typing import Any, Literal

from harness.errors import DataInvalid
from harness.plugins.benchmarks.concodeeval.documents import json_text, xml_text, yaml_text
from harness.plugins.benchmarks.concodeeval.documents.json_text import third, tokens
from harness.scoring.validators import limits
from harness.scoring.validators.limits import UnparseableDocument

__all__ = ["FORMATS", "Format", "Mode", "locate", "read", "render", "third"]

Format = Literal["json", "yaml", "xml"]
FORMATS: tuple[Format, ...] = ("json", "yaml", "xml")
Mode = Literal["strict", "paper"]

_MODULES: dict[str, Any] = {"json": json_text, "yaml": yaml_text, "xml": xml_text}


def read(text: str, format: str = "json", *, mode: Mode = "strict", schema: Any = True) -> Any:
    """Return the value of a document.

    In mode ``strict``, ``schema`` determines the types of XML elements that do not state a type.

    Raises:
        UnparseableDocument: If the document is not in the format, or exceeds a limit.
    """
    if mode == "strict":
        return _MODULES[format].read(text, schema)
    limits.check_length(text)
    value = _MODULES[format].read_as_paper(text)
    limits.check_size(value)
    return value


def render(value: Any, format: Format = "json", *, indent: int | None = 4) -> str:
    """Return a value as a document in the given format. `read` restores the value exactly.

    If ``indent`` is None, JSON is written on one line.

    Raises:
        DataInvalid: If the value is not JSON, exceeds the limits, or has a character that XML does
            not allow.
    """
    try:
        limits.check_json(value)
        if format == "json":
            return json_text.write(value, indent)
        return xml_text.write(value) if format == "xml" else yaml_text.write(value)
    except UnparseableDocument as error:
        raise DataInvalid(f"The value cannot be written as {format.upper()}: {error}.") from None


def locate(
    text: str, format: Format, path: str, *, mode: Mode = "strict"
) -> tuple[int, int] | None:
    """Return the start and end offsets of the value at a JSON pointer, or None if not found.

    A YAML value includes its tag and anchor, and an alias is located at its anchor. An XML value is
    an element with its tags. In ``paper`` mode, pointers into XML begin with the root element.
    """
    try:
        limits.check_length(text)
        pointer = tokens(path)
        root = _MODULES[format].tree(text, paper=mode == "paper")
        node = None if pointer is None else root.at(pointer)
    except (UnparseableDocument, ValueError, RecursionError):
        return None
    if node is None:
        return None
    if format != "xml":
        return node.start, node.end
    source = text.strip().encode()
    head = len(text) - len(text.lstrip())
    start = len(source[: node.start].decode())
    end = len(source[: node.end].decode())
    return head + start, head + end
