"""A schema in English: the description in the paper's prompts.

There are two wordings. ``paper`` is the authors' text, byte for byte, for numbers and strings: it
says "greater" of maxima. ``corrected`` says "less" there, and omits a "that must be:" that nothing
follows. Arrays, objects, booleans, null and the keywords of the extension have no recorded form;
both wordings describe them in the same way: one line per keyword, and the lines about an inner
schema indented below the line that introduces it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.tasks.concodeeval.schema import Schema, Wording, marked, pointer

INDENT = " " * 4
COUNTS = ("minContains", "maxContains")

PHRASES = {
    "multipleOf": "Multiple of {}",
    "minimum": "Minimum value greater than or equal to {}",
    "exclusiveMinimum": "Minimum value strictly greater than {}",
    "maximum": "Maximum value less than or equal to {}",
    "exclusiveMaximum": "Maximum value strictly less than {}",
    "minLength": "Minimum length greater than or equal to {}",
    "maxLength": "Maximum length less than or equal to {}",
    "format": "string of format {}",
    "pattern": "string that matches the regular expression {}",
    "const": "Equal to {}",
    "enum": "One of {}",
    "minItems": "Minimum number of items greater than or equal to {}",
    "maxItems": "Maximum number of items less than or equal to {}",
    "minContains": "Number of such items greater than or equal to {}",
    "maxContains": "Number of such items less than or equal to {}",
}
"""Keyword -> its phrase, for keywords whose value is not a schema."""

AS_RECORDED = {
    "maximum": "Maximum value greater than or equal to {}",
    "exclusiveMaximum": "Maximum value strictly greater than {}",
    "maxLength": "Maximum length greater than equal to {}",
}
"""The authors' mistakes, in 146 of the 300 recorded prompts."""

Phrases = Mapping[str, str]


def render(schema: Schema, wording: Wording) -> str:
    """Describe the schema, with marks and without the prompt around it."""
    phrases = PHRASES | (AS_RECORDED if wording == "paper" else {})
    kind, noun = schema.get("type"), "any value"
    if isinstance(kind, str):
        noun = _noun(kind) if kind in ("array", "object") else f"a single {kind}"
        noun = marked(noun, "/type")
    lines = list(_clauses(schema, "", phrases))
    ends = " that must be:" if lines or wording == "paper" else "."
    return "\n".join([f"This JSON schema defines {noun}{ends}", *lines])


def _clauses(schema: Schema, at: str, phrases: Phrases) -> Iterator[str]:
    """Yield a line for each keyword except the type, in the schema's order."""
    for keyword, value in schema.items():
        place = pointer(at, keyword)
        match keyword, value:
            case "type", str():
                pass
            case "items", _:
                yield from _inner("array where each item must be ", value, place, phrases)
            case "contains", _:
                counts = [count for count in COUNTS if count in schema]
                some = "some items, counted here," if counts else "at least one item"
                yield from _inner(f"array of which {some} must be ", value, place, phrases)
                for count in counts:
                    yield marked(_phrase(count, schema[count], phrases), pointer(at, count))
            case "minContains" | "maxContains", _ if "contains" in schema:
                pass  # described below `contains`
            case "properties", dict():
                yield marked("object with the properties:" if value else "object", place)
                for name, inner in value.items():
                    noun, lines = _described(inner, pointer(place, name), phrases)
                    yield f"{INDENT}{name}: {noun}{' that must be:' if lines else ''}"
                    yield from (INDENT + line for line in lines)
            case "required", list():
                yield marked(f"Required properties: {', '.join(value) or 'none'}", place)
            case "additionalProperties", bool():
                allowed = "allowed" if value else "not allowed"
                yield marked(f"Additional properties are {allowed}", place)
            case "additionalProperties", _:
                yield from _inner("Additional properties must be ", value, place, phrases)
            case "uniqueItems", bool():
                yield marked("No item twice" if value else "Items may be equal", place)
            case _:
                yield marked(_phrase(keyword, value, phrases), place)


def _inner(lead: str, schema: Any, place: str, phrases: Phrases) -> Iterator[str]:
    """Yield the line that introduces an inner schema, and the lines about it."""
    noun, lines = _described(schema, place, phrases)
    yield marked(f"{lead}{noun}{':' if lines else ''}", place)
    yield from lines


def _described(schema: Any, place: str, phrases: Phrases) -> tuple[str, list[str]]:
    """Return the noun for an inner schema, and the lines about it, indented."""
    if not isinstance(schema, dict):
        return "any value" if schema else "no value", []
    kind, noun = schema.get("type"), "any value"
    if isinstance(kind, str):
        noun = marked(_noun(kind), pointer(place, "type"))
    return noun, [INDENT + line for line in _clauses(schema, place, phrases)]


def _phrase(keyword: str, value: Any, phrases: Phrases) -> str:
    if keyword not in phrases:  # unknown keywords are described too
        return f"{keyword}: {_json(value)}"
    text = value if isinstance(value, str) else _json(value)
    if keyword in ("pattern", "const"):
        text = _json(value)
    elif keyword == "enum" and isinstance(value, list):
        text = ", ".join(map(_json, value))
    return phrases[keyword].format(text)


def _noun(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
