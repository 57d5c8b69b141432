"""JSON Schemas: the names of keywords, and texts in which keywords are marked.

A keyword is named by the JSON Pointer (RFC 6901) to it in the schema, such as
``/properties/order/minLength``; validators report the same as ``schema_path``. A representation is
first written with marks around the words that stand for keywords. The marks are Unicode's
noncharacters, which no text contains.

>>> pointer("/properties", "a/b", "type")
'/properties/a~1b/type'
>>> unmarked("{ " + marked("type", "/type"))
('{ type', {'/type': (2, 6)})
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema with ConCodeEval's keywords; its values are any JSON, so they are untyped."""

Representation: TypeAlias = Literal["json", "yaml", "xml", "python", "natural_language"]
Wording: TypeAlias = Literal["paper", "corrected"]
Spans: TypeAlias = dict[str, tuple[int, int]]
"""The position of each keyword in a text: pointer to character offsets (start, end)."""

MARKS = re.compile("(\ufdd0[^\ufdd1]*\ufdd1|\ufdd2)")
RESERVED = re.compile("[\ufdd0-\ufdd2]")
"""The characters of marks: a single one in a schema would corrupt its text."""


def pointer(base: str, *tokens: object) -> str:
    """Return the pointer ``base`` extended by some tokens."""
    escaped = (str(token).replace("~", "~0").replace("/", "~1") for token in tokens)
    return "/".join([base, *escaped])


def keywords(schema: Schema, at: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield each keyword of a schema and of those inside it: its pointer, name and value."""
    for keyword, value in schema.items():
        place = pointer(at, keyword)
        yield place, keyword, value
        if not isinstance(value, Mapping):
            continue
        if keyword in ("items", "contains", "additionalProperties"):
            yield from keywords(value, place)
        elif keyword in ("properties", "patternProperties", "$defs", "definitions"):
            for name, inner in value.items():
                if isinstance(inner, Mapping):
                    yield from keywords(inner, pointer(place, name))


def marked(text: str, at: str) -> str:
    """Mark a text that stands, as a whole, for the keyword with this pointer."""
    return f"\ufdd0{at}\ufdd1{text}\ufdd2"


def unmarked(text: str) -> tuple[str, Spans]:
    """Return a text without its marks, and where they were; of two for a keyword, the first."""
    pieces: list[str] = []
    spans: Spans = {}
    opened: list[tuple[str, int]] = []
    length = 0
    for piece in MARKS.split(text):
        if piece == "\ufdd2":
            place, start = opened.pop()
            spans.setdefault(place, (start, length))
        elif piece.startswith("\ufdd0"):
            opened.append((piece[1:-1], length))
        else:
            pieces.append(piece)
            length += len(piece)
    return "".join(pieces), spans
