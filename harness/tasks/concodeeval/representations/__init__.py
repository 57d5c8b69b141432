"""A JSON Schema in the five representations of ConCodeEval.

Kammakomati et al. 2024, arXiv 2407.03387: the same constraints as JSON, YAML, XML, Python and
English. The four kinds of code lose nothing. The position of each keyword in the text is known too,
and so is the third of a schema that contains a violated one.

>>> schema = {"type": "string", "maxLength": 5}
>>> start, end = spans(schema, "json")["/maxLength"]
>>> render(schema, "json")[start:end]
'maxLength'
"""

from __future__ import annotations

from harness.errors import ConfigError, nearest
from harness.tasks.concodeeval.representations import documents, natural_language, python
from harness.tasks.concodeeval.representations.schema import (
    Marked,
    Representation,
    Schema,
    Spans,
    Wording,
    keywords,
)

__all__ = [
    "REPRESENTATIONS",
    "Representation",
    "Schema",
    "Spans",
    "Wording",
    "keywords",
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


def render(
    schema: Schema, representation: Representation, *, wording: Wording = "corrected"
) -> str:
    """Return the schema's text.

    Args:
        schema: The schema.
        representation: One of the five representations.
        wording: For natural_language: ``paper``, with the authors' mistakes, or ``corrected``.

    Raises:
        ConfigError: There is no such representation.
        DataInvalid: XML cannot hold a character.
    """
    return _rendered(schema, representation, wording).text


def spans(
    schema: Schema, representation: Representation, *, wording: Wording = "corrected"
) -> Spans:
    """Locate each keyword in the text of `render`: map its pointer to its start and end.

    In code that is the keyword's own word (in Python, pydantic's word for it; for ``required``,
    which has none, the first required field; for ``items``, the type in the brackets), in English
    the clause about it.
    """
    found = _rendered(schema, representation, wording).spans
    return {place: found[place] for place, _, _ in keywords(schema) if place in found}


def _rendered(schema: Schema, representation: Representation, wording: Wording) -> Marked:
    if representation == "natural_language":
        return natural_language.render(schema, wording)
    if representation not in RENDERERS:
        raise ConfigError(
            f"There is no representation {representation!r} of schemas.",
            nearest(representation, REPRESENTATIONS),
        )
    return RENDERERS[representation](schema)
