"""Renders a JSON Schema in the five representations of ConCodeEval (arXiv 2407.03387).

The four kinds of code are lossless. XML has the form that json2xml writes. English has two
wordings: ``paper`` is the authors' text, which says "greater" for maxima of numbers, strings, and
arrays of these; ``corrected`` says "less". For schemas that the authors' text does not cover,
``paper`` uses the corrected wording.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args
from xml.sax.saxutils import escape, quoteattr

import yaml

from harness.errors import DataInvalid
from harness.plugins.benchmarks.concodeeval import python
from harness.plugins.benchmarks.concodeeval.documents.xml_text import DECLARATION, XmlWriter
from harness.plugins.benchmarks.concodeeval.schema import (
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
from harness.prompts import Template, read_builtin
from harness.records import JsonObject
from harness.scoring.validators.limits import UnparseableDocument

REPRESENTATIONS: tuple[Representation, ...] = get_args(Representation)
INDENT = " " * 4


def render(schema: Schema, representation: Representation, wording: Wording = "corrected") -> str:
    """Return a schema in a representation. ``wording`` is that of sentences in English."""
    return rendered(schema, representation, wording)[0]


def rendered(
    schema: Schema, representation: Representation, wording: Wording = "corrected"
) -> tuple[str, Spans]:
    """Return a schema in a representation, and the position of each keyword in the text.

    Positions are (start, end) by the keyword's JSON Pointer: of its name, of pydantic's equivalent
    (the first required field for ``required``, the type in brackets for ``items``), or of the
    clause in English. DataInvalid is raised if the schema has a character that the text cannot
    contain.
    """
    if RESERVED.search(json.dumps(schema, ensure_ascii=False)):
        raise DataInvalid("A schema cannot contain the noncharacters U+FDD0 to U+FDD2.")
    match representation:
        case "json":
            text, spans = unmarked(_json(schema, "", ""))
        case "yaml":
            text, spans = _yaml(schema)
        case "xml":
            text, spans = unmarked(_xml(schema))
        case "python":
            text, spans = unmarked(python.render(schema))
        case "natural_language":
            text, spans = unmarked(_english(schema, wording))
    return text, {place: spans[place] for place, _, _ in keywords(schema) if place in spans}


def _json(value: Any, indent: str, path: str) -> str:
    """Return a value as JSON with marks, formatted like ``json.dumps(value, indent=4)``."""
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + INDENT
    lines = []
    if isinstance(value, list):
        for number, item in enumerate(value):
            lines.append(inner + _json(item, inner, pointer(path, number)))
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    for name, member in value.items():
        place = pointer(path, name)
        word = marked(json.dumps(name, ensure_ascii=False)[1:-1], place)
        lines.append(f'{inner}"{word}": {_json(member, inner, place)}')
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True  # write a repeated list out each time


_FOLDED = re.compile("[\r\x85\u2028\u2029]")


def _yaml_string(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Return a string's node, quoted if PyYAML would fold one of its line breaks."""
    style = '"' if _FOLDED.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _yaml_string)


def _yaml(schema: Schema) -> tuple[str, Spans]:
    """Return the schema as YAML, and each key's position."""
    text = yaml.dump(
        schema, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=float("inf")
    )
    spans: Spans = {}
    pending = [(yaml.compose(text, Loader=yaml.SafeLoader), "")]
    while pending:
        node, path = pending.pop()
        if isinstance(node, yaml.MappingNode):
            for name, member in node.value:
                place = pointer(path, name.value)
                spans[place] = (name.start_mark.index, name.end_mark.index)
                pending.append((member, place))
        elif isinstance(node, yaml.SequenceNode):
            for number, member in enumerate(node.value):
                pending.append((member, pointer(path, number)))
    return text, spans


class _MarkingWriter(XmlWriter):
    """Writes a schema as XML with marks."""

    def escaped(self, text: str) -> str:
        return escape(text, {"\r": "&#13;"})

    def quoted(self, text: str) -> str:
        return quoteattr(text, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})

    def marked(self, text: str, path: Sequence[str | int]) -> str:
        return marked(text, pointer("", *path))


def _xml(schema: Schema) -> str:
    """Return the schema as XML with marks."""
    if not schema:
        return f"{DECLARATION}\n<all>\n</all>"
    elements = _MarkingWriter().lines("all", "all", schema, ())
    try:
        return "\n".join([DECLARATION, *elements])
    except UnparseableDocument as error:
        raise DataInvalid(f"The schema cannot be written as XML: {error}.") from None


COUNTS = ("minContains", "maxContains")

_PHRASES = yaml.safe_load(Path(__file__).with_name("phrases.yaml").read_text("utf-8"))
# By keyword, unless its value is a schema: the phrase, with {} in place of the value.
PHRASES: Mapping[str, str] = _PHRASES["corrected"]
AS_RECORDED = {**PHRASES, **_PHRASES["paper"]}

# The prompt template that describes an array or object in the authors' words.
RECORDED_ENGLISH = "concodeeval/recorded_english"


@cache
def _recorded_english() -> Template:
    return read_builtin(RECORDED_ENGLISH)


def _english(schema: Schema, wording: Wording) -> str:
    kind = schema.get("type")
    noun = "any value"
    composed = kind in ("array", "object")
    phrases = PHRASES
    if wording == "paper" and composed:
        if fields := _recorded(schema):
            return _recorded_english().render(fields).removesuffix("\n")
    elif wording == "paper":
        phrases = AS_RECORDED
    if isinstance(kind, str):
        phrase = _noun(kind) if composed else f"a single {kind}"
        noun = marked(phrase, "/type")
    lines = list(_clauses(schema, "", phrases))
    end = "."
    if lines or wording == "paper":
        end = " that must be:"
    return "\n".join([f"This JSON schema defines {noun}{end}", *lines])


def _recorded(schema: Schema) -> JsonObject | None:
    """Return the fields of `RECORDED_ENGLISH`, if that text can describe the schema."""
    part: Any = schema
    path = ""
    if schema["type"] == "array":
        inner = "items" if "items" in schema else "contains"
        if schema.keys() - {"type", inner, *COUNTS}:
            return None
        part = schema.get(inner)
        path = f"/{inner}"
    if not _is_covered(part, bool(path)):
        return None
    copy = _marked_copy(part, path)
    array = ""
    if path:
        array = marked(f"{marked('array', '/type')} of {copy.get('type')}s", path)
    counts = {key: _marked_copy(schema[key], f"/{key}") for key in COUNTS if key in schema}
    return {"of": copy, "array": array, "counts": counts, "required": part.get("required")}


def _is_covered(schema: Any, in_array: bool) -> bool:
    """Return whether the authors' text can describe this schema, of the root or of its items."""
    if not isinstance(schema, dict):
        return False
    properties = schema.get("properties")
    if schema.get("type") == "object" and schema.keys() <= _OBJECT and properties:
        additional = schema.get("additionalProperties", True)
        return isinstance(additional, bool) and all(map(_is_flat, properties.values()))
    return in_array and bool(schema) and _is_flat(schema)


def _marked_copy(value: Any, path: str) -> Any:
    """Return a copy of a schema in which marked text replaces each value."""
    if isinstance(value, dict):
        return {key: _marked_copy(member, pointer(path, key)) for key, member in value.items()}
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return marked(str(value), path)


_OBJECT = {"type", "properties", "additionalProperties", "required"}
_FLAT = {"type", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_FLAT |= {"format", "minLength", "maxLength"}


def _is_flat(schema: Any) -> bool:
    """Return whether the authors' text can describe this schema as a property or an item."""
    if not isinstance(schema, dict) or not schema.keys() <= _FLAT:
        return False
    kind = schema.get("type")
    return not schema or (isinstance(kind, str) and kind not in ("array", "object"))


def _clauses(schema: Schema, path: str, phrases: Mapping[str, str] = PHRASES) -> Iterator[str]:
    """Yield marked lines of English about a schema's keywords except ``type``."""
    for keyword, value in schema.items():
        place = pointer(path, keyword)
        match keyword, value:
            case "type", str():
                pass
            case "items", _:
                yield from _inner("array where each item must be ", value, place)
            case "contains", _:
                counts = [count for count in COUNTS if count in schema]
                some = "at least one item"
                if counts:
                    some = "some items, counted here,"
                yield from _inner(f"array of which {some} must be ", value, place)
                for count in counts:
                    phrase = _phrase(count, schema[count], phrases)
                    yield marked(phrase, pointer(path, count))
            case "minContains" | "maxContains", _ if "contains" in schema:
                pass  # described below `contains`
            case "properties", dict():
                lead = "object with the properties:" if value else "object"
                yield marked(lead, place)
                for name, inner in value.items():
                    noun, lines = _described(inner, pointer(place, name))
                    if lines:
                        noun += " that must be:"
                    yield f"{INDENT}{name}: {noun}"
                    for line in lines:
                        yield INDENT + line
            case "required", list():
                yield marked(f"Required properties: {', '.join(value) or 'none'}", place)
            case "additionalProperties", True:
                yield marked("Additional properties are allowed", place)
            case "additionalProperties", False:
                yield marked("Additional properties are not allowed", place)
            case "additionalProperties", _:
                yield from _inner("Additional properties must be ", value, place)
            case "uniqueItems", True:
                yield marked("No item twice", place)
            case "uniqueItems", False:
                yield marked("Items may be equal", place)
            case _:
                yield marked(_phrase(keyword, value, phrases), place)


def _inner(lead: str, schema: Any, place: str) -> Iterator[str]:
    noun, lines = _described(schema, place)
    if lines:
        noun += ":"
    yield marked(f"{lead}{noun}", place)
    yield from lines


def _described(schema: Any, place: str) -> tuple[str, list[str]]:
    """Return a description of an inner schema: a noun with its article, and lines."""
    if not isinstance(schema, dict):
        return "any value" if schema else "no value", []
    kind = schema.get("type")
    noun = "any value"
    if isinstance(kind, str):
        noun = marked(_noun(kind), pointer(place, "type"))
    return noun, [INDENT + line for line in _clauses(schema, place)]


def _phrase(keyword: str, value: Any, phrases: Mapping[str, str]) -> str:
    if keyword not in phrases:  # unknown keywords are described too
        return f"{keyword}: {_quoted(value)}"
    text = value if isinstance(value, str) else _quoted(value)
    if keyword in ("pattern", "const"):
        text = _quoted(value)
    elif keyword == "enum" and isinstance(value, list):
        text = ", ".join(map(_quoted, value))
    return phrases[keyword].format(text)


def _noun(kind: str) -> str:
    article = "an" if kind[:1] in "aeiou" else "a"
    return f"{article} {kind}"


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
