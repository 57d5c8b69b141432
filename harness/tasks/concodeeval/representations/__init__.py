"""A JSON Schema in the five representations of ConCodeEval, and back.

Kammakomati et al. 2024, arXiv 2407.03387: the same constraints as JSON, YAML, XML, Python and
English. Code is read back without loss; English is not read. The position of each keyword in the
text is known too, to tell in which third of a schema a violated one stands.

>>> schema = {"type": "string", "maxLength": 5}
>>> read(render(schema, "xml"), "xml") == schema
True
>>> start, end = spans(schema, "json")["/maxLength"]
>>> render(schema, "json")[start:end]
'maxLength'
"""

from __future__ import annotations

from typing import Any

from harness.errors import ConfigError, nearest
from harness.tasks.concodeeval.representations import (
    documents,
    natural_language,
    python,
    python_reader,
)
from harness.tasks.concodeeval.representations.schema import (
    Marked,
    Representation,
    Schema,
    Spans,
    Wording,
    keywords,
)

__all__ = [
    "READABLE",
    "REPRESENTATIONS",
    "Representation",
    "Schema",
    "Spans",
    "Wording",
    "keywords",
    "read",
    "render",
    "spans",
]

REPRESENTATIONS: tuple[Representation, ...] = ("json", "yaml", "xml", "python", "natural_language")
RENDERERS = {
    "json": documents.render_json,
    "yaml": documents.render_yaml,
    "xml": documents.render_xml,
    "python": python.render,
}
READERS = {
    "json": documents.read_json,
    "yaml": documents.read_yaml,
    "xml": documents.read_xml,
    "python": python_reader.read,
}
READABLE = tuple(READERS)
"""Representations that a schema can be read back from."""


def render(
    schema: Schema, representation: Representation, *, wording: Wording = "corrected"
) -> str:
    """The schema's text.

    Args:
        schema: To render.
        representation: In which of the five.
        wording: Of natural_language: ``paper``, with the authors' mistakes, or ``corrected``.

    Raises:
        ConfigError: There is no such representation.
        DataInvalid: XML cannot hold a character.
    """
    return _rendered(schema, representation, wording).text


def spans(
    schema: Schema, representation: Representation, *, wording: Wording = "corrected"
) -> Spans:
    """Where each keyword stands in the text of `render`: its pointer to its start and end.

    In code that is the keyword's own word (in Python, pydantic's word for it; for ``required``,
    which has none, the first required field; for ``items``, the type in the brackets), in English
    the clause about it.
    """
    found = _rendered(schema, representation, wording).spans
    return {place: found[place] for place, _, _ in keywords(schema) if place in found}


def read(text: str, representation: Representation) -> dict[str, Any]:
    """Read a schema from its text, without ever running it.

    Raises:
        DataInvalid: The text is not a schema in this representation.
        ConfigError: The representation cannot be read.
    """
    if representation not in READERS:
        raise ConfigError(
            f"A schema cannot be read from {representation!r}.", nearest(representation, READABLE)
        )
    return READERS[representation](text)


def _rendered(schema: Schema, representation: Representation, wording: Wording) -> Marked:
    if representation == "natural_language":
        return natural_language.render(schema, wording)
    if representation not in RENDERERS:
        raise ConfigError(
            f"There is no representation {representation!r} of schemas.",
            nearest(representation, REPRESENTATIONS),
        )
    return RENDERERS[representation](schema)
