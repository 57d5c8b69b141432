"""A JSON Schema in the five representations of ConCodeEval, and back.

Kammakomati et al. 2024, arXiv 2407.03387: the same constraints as JSON, YAML, XML, Python and
English. Code is read back without loss; English is not read. Where each keyword stands in the text
is known too, for the question which third of a schema the violated one is in.

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
    json,
    natural_language,
    python,
    python_reader,
    xml,
    yaml,
)
from harness.tasks.concodeeval.representations.marked import Marked
from harness.tasks.concodeeval.representations.schema import (
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
RENDERERS = {"json": json.render, "yaml": yaml.render, "xml": xml.render, "python": python.render}
READERS = {"json": json.read, "yaml": yaml.read, "xml": xml.read, "python": python_reader.read}
READABLE = tuple(READERS)
"""Those that a schema can be read back from."""


def render(
    schema: Schema, representation: Representation, *, wording: Wording = "corrected"
) -> str:
    """The schema's text.

    wording: of natural_language: ``paper`` with the authors' mistakes, or ``corrected``.

    Raises: ConfigError where there is no such representation; DataInvalid where XML cannot hold a
        character.
    """
    return _rendered(schema, representation, wording).text


def spans(
    schema: Schema, representation: Representation, *, wording: Wording = "corrected"
) -> Spans:
    """Where each keyword stands in that text: its pointer to the offsets of its first and last.

    In code it is the keyword's own word (Python: pydantic's word for it; for ``required``, which
    has none, the first required field; for ``items`` the type in the brackets), in English the
    clause that speaks of it.
    """
    found = _rendered(schema, representation, wording).spans
    return {place: found[place] for place, _, _ in keywords(schema) if place in found}


def read(text: str, representation: Representation) -> dict[str, Any]:
    """The schema that a text stands for. Nothing in the text is ever run.

    Raises: DataInvalid where it stands for none; ConfigError where the representation is not
        one that is read.
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
