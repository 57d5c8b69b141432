"""JSON Schemas: the names of keywords, and texts with the positions of keywords.

A keyword is named by the JSON Pointer (RFC 6901) to it in the schema, such as
``/properties/order/minLength``; validators report the same as ``schema_path``.

>>> pointer("/properties", "a/b", "type")
'/properties/a~1b/type'
>>> (Marked("{ ") + marked("type", at="/type")).spans
{'/type': (2, 6)}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from harness.errors import DataInvalid

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema with ConCodeEval's keywords; its values are any JSON, so they are untyped."""

Representation: TypeAlias = Literal["json", "yaml", "xml", "python", "natural_language"]
Wording: TypeAlias = Literal["paper", "corrected"]
Spans: TypeAlias = Mapping[str, tuple[int, int]]
"""The position of each keyword in a text: pointer to character offsets (start, end)."""


def pointer(base: str, *tokens: object) -> str:
    """Return the pointer ``base`` extended by some tokens."""
    escaped = (str(token).replace("~", "~0").replace("/", "~1") for token in tokens)
    return "/".join([base, *escaped])


MAPS_OF_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Keywords whose members have free names, each with a schema."""

SCHEMAS = frozenset({"items", "contains", "additionalProperties"})
"""Keywords whose value is itself a schema."""


def keywords(schema: Schema, at: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield each keyword of a schema and of those inside it: its pointer, name and value."""
    for keyword, value in schema.items():
        place = pointer(at, keyword)
        yield place, keyword, value
        if not isinstance(value, Mapping):
            continue
        if keyword in SCHEMAS:
            yield from keywords(value, place)
        elif keyword in MAPS_OF_SCHEMAS:
            for name, inner in value.items():
                if isinstance(inner, Mapping):
                    yield from keywords(inner, pointer(place, name))


DEEPEST = 64
"""Most levels that a text may have; the schemas of benchmarks have a handful."""


def as_schema(found: object, form: str) -> dict[str, Any]:
    """Check that what was read is an object and not too deep.

    Raises:
        DataInvalid: It is something else; the message names the form.
    """
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


@dataclass(frozen=True, slots=True)
class Marked:
    """A text and the spans of the keywords in it; they move along when texts are joined."""

    text: str = ""
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __add__(self, other: Marked | str) -> Marked:
        return joined([self, other])


def marked(part: Marked | str, *, at: str) -> Marked:
    """Return a text that stands, as a whole, for the keyword with this pointer."""
    text, inside = (part, {}) if isinstance(part, str) else (part.text, part.spans)
    return Marked(text, {at: (0, len(text)), **inside})


def joined(parts: Iterable[Marked | str], between: str = "") -> Marked:
    """Join the parts in sequence. If a keyword occurs twice, its first position counts."""
    texts: list[str] = []
    spans: dict[str, tuple[int, int]] = {}
    offset = 0
    for number, part in enumerate(parts):
        if number:
            texts.append(between)
            offset += len(between)
        text = part if isinstance(part, str) else part.text
        if isinstance(part, Marked):
            for name, (start, end) in part.spans.items():
                spans.setdefault(name, (start + offset, end + offset))
        texts.append(text)
        offset += len(text)
    return Marked("".join(texts), spans)
