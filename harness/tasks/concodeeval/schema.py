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

from harness.errors import DataInvalid

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema with ConCodeEval's keywords; its values are any JSON, so they are untyped."""

Representation: TypeAlias = Literal["json", "yaml", "xml", "python", "natural_language"]
Wording: TypeAlias = Literal["paper", "corrected"]
Spans: TypeAlias = dict[str, tuple[int, int]]
"""The position of each keyword in a text: pointer to character offsets (start, end)."""

DEEPEST = 64
"""Most levels that a text may have; the schemas of benchmarks have a handful."""

MARKS = re.compile("(\ufdd0[^\ufdd1]*\ufdd1|\ufdd2)")


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


def as_schema(found: object, form: str) -> dict[str, Any]:
    """Check that what was read is an object and not too deep; errors name the form."""
    if not isinstance(found, dict):
        raise DataInvalid(
            f"The {form} schema is a {type(found).__name__}.", "A schema must be an object."
        )
    level: list[Any] = [found]
    for _ in range(DEEPEST):
        members = (each for one in level for each in (one.values() if type(one) is dict else one))
        level = [each for each in members if isinstance(each, dict | list)]
        if not level:
            return found
    raise DataInvalid(f"The {form} schema has more than {DEEPEST} levels.", "Check its text.")


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
