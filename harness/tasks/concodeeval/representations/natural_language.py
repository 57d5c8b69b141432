"""A schema in English: the description in the paper's prompts.

There are two wordings. ``paper`` is the authors' text, byte for byte, for numbers and strings: it
says "greater" of maxima. ``corrected`` says "less" there, and omits a "that must be:" that nothing
follows. Arrays, objects, booleans, null and the keywords of the extension have no recorded form;
both wordings describe them in the same way: one line per keyword, and the lines about
an inner schema indented below the line that introduces it.

>>> print(render({"type": "number", "exclusiveMaximum": 10}, "paper").text)
This JSON schema defines a single number that must be:
Maximum value strictly greater than 10
>>> print(render({"type": "array", "items": {"type": "string", "minLength": 2}}, "corrected").text)
This JSON schema defines an array that must be:
array where each item must be a string:
    Minimum length greater than or equal to 2
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.tasks.concodeeval.representations.schema import (
    Marked,
    Schema,
    Wording,
    joined,
    marked,
    pointer,
)

INDENT = " " * 4

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


def render(schema: Schema, wording: Wording) -> Marked:
    """Describe the schema, without the prompt around it."""
    phrases = PHRASES | (AS_RECORDED if wording == "paper" else {})
    kind = schema.get("type")
    if isinstance(kind, str):
        noun = marked(_noun(kind, "" if kind in ("array", "object") else "single "), at="/type")
    else:
        noun = Marked("any value")
    lines = list(_Description(phrases).clauses(schema, "", 0))
    ends = " that must be:" if lines or wording == "paper" else "."
    return joined([joined(["This JSON schema defines ", noun, ends]), *lines], "\n")


class _Description:
    """Writes the lines of a schema with the phrases of a wording."""

    def __init__(self, phrases: dict[str, str]) -> None:
        self.phrases = phrases

    def clauses(self, schema: Schema, at: str, depth: int) -> Iterator[Marked]:
        """Yield a line for each keyword except the type, in the schema's order."""
        for keyword, value in schema.items():
            if keyword == "type" and isinstance(value, str):
                continue
            if keyword in ("minContains", "maxContains") and "contains" in schema:
                continue  # described below `contains`, which they count
            yield from self._clause(schema, keyword, value, at, depth)

    def _clause(
        self, schema: Schema, keyword: str, value: Any, at: str, depth: int
    ) -> Iterator[Marked]:
        place = pointer(at, keyword)
        match keyword, value:
            case "items", _:
                yield from self._inner("array where each item must be ", value, place, depth)
            case "contains", _:
                counted = "array of which some items, counted here, must be "
                if not {"minContains", "maxContains"} & schema.keys():
                    counted = "array of which at least one item must be "
                yield from self._inner(counted, value, place, depth)
                for count in ("minContains", "maxContains"):
                    if count in schema:
                        text = self._phrase(count, schema[count])
                        yield _line(text, pointer(at, count), depth)
            case "properties", dict():
                yield _line("object with the properties:" if value else "object", place, depth)
                for name, inner in value.items():
                    yield from self._property(name, inner, pointer(place, name), depth + 1)
            case "required", list():
                named = ", ".join(value) or "none"
                yield _line(f"Required properties: {named}", place, depth)
            case "additionalProperties", bool():
                allowed = "allowed" if value else "not allowed"
                yield _line(f"Additional properties are {allowed}", place, depth)
            case "additionalProperties", _:
                yield from self._inner("Additional properties must be ", value, place, depth)
            case "uniqueItems", bool():
                differ = "No item twice" if value else "Items may be equal"
                yield _line(differ, place, depth)
            case _:
                yield _line(self._phrase(keyword, value), place, depth)

    def _inner(self, lead: str, schema: Any, place: str, depth: int) -> Iterator[Marked]:
        """Yield the line that introduces an inner schema, and its lines, indented."""
        noun, lines = self._described(schema, place, depth)
        line = marked(joined([lead, noun, ":" if lines else ""]), at=place)
        yield joined([INDENT * depth, line])
        yield from lines

    def _property(self, name: str, schema: Any, place: str, depth: int) -> Iterator[Marked]:
        noun, lines = self._described(schema, place, depth)
        yield joined([INDENT * depth, f"{name}: ", noun, " that must be:" if lines else ""])
        yield from lines

    def _described(self, schema: Any, place: str, depth: int) -> tuple[Marked, list[Marked]]:
        """Return the noun for an inner schema, and the lines about it."""
        if not isinstance(schema, dict):
            return Marked("any value" if schema else "no value"), []
        kind = schema.get("type")
        noun = Marked("any value")
        if isinstance(kind, str):
            noun = marked(_noun(kind), at=pointer(place, "type"))
        return noun, list(self.clauses(schema, place, depth + 1))

    def _phrase(self, keyword: str, value: Any) -> str:
        phrase = self.phrases.get(keyword)
        if phrase is None:  # unknown keywords are described too
            return f"{keyword}: {_json(value)}"
        if keyword == "enum" and isinstance(value, list):
            return phrase.format(", ".join(map(_json, value)))
        quoted = keyword in ("pattern", "const")
        return phrase.format(_json(value) if quoted or not isinstance(value, str) else value)


def _noun(kind: str, before: str = "") -> str:
    article = "an" if not before and kind[:1] in "aeiou" else "a"
    return f"{article} {before}{kind}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _line(text: str, place: str, depth: int) -> Marked:
    return joined([INDENT * depth, marked(text, at=place)])
