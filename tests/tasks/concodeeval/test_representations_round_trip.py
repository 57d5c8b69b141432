"""What is written is read back, of every schema, and every keyword's place is known."""

import json
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given, settings

from harness.tasks.concodeeval.representations import (
    READABLE,
    REPRESENTATIONS,
    Representation,
    keywords,
    read,
    render,
    spans,
)
from tests.builders.concodeeval.drawn import generated, strange


def canonical(schema: object) -> str:
    """Equal only where Python's == would confuse 1, 1.0 and true."""
    return json.dumps(schema, sort_keys=True)


@pytest.mark.parametrize("representation", READABLE)
@given(schema=generated)
@settings(max_examples=60, deadline=None)
def test_the_generators_schemas(representation: Representation, schema: dict[str, Any]) -> None:
    text = render(schema, representation)
    assert canonical(read(text, representation)) == canonical(schema)


@given(schema=generated)
@settings(max_examples=30, deadline=None)
def test_from_one_representation_to_the_next(schema: dict[str, Any]) -> None:
    found = schema
    for representation in ("python", "xml", "yaml", "json", "xml", "python"):
        found = read(render(found, representation), representation)
    assert canonical(found) == canonical(schema)


@pytest.mark.parametrize("representation", READABLE)
@given(schema=strange)
@settings(max_examples=80, deadline=None)
def test_schemas_of_strange_names_and_values(
    representation: Representation, schema: dict[str, Any]
) -> None:
    text = render(schema, representation)
    assert canonical(read(text, representation)) == canonical(schema)


@given(schema=strange)
@settings(max_examples=50, deadline=None)
def test_texts_are_those_of_the_usual_libraries(schema: dict[str, Any]) -> None:
    assert render(schema, "json") == json.dumps(schema, indent=4, ensure_ascii=False)
    assert pyyaml.safe_load(render(schema, "yaml")) == schema


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@given(schema=generated)
@settings(max_examples=40, deadline=None)
def test_every_keyword_has_a_place(representation: Representation, schema: dict[str, Any]) -> None:
    text = render(schema, representation)
    found = spans(schema, representation)
    assert set(found) == {place for place, _, _ in keywords(schema)}
    for place, keyword, _ in keywords(schema):
        start, end = found[place]
        assert 0 <= start < end <= len(text)
        if representation in ("json", "yaml", "xml"):
            assert text[start:end] == keyword
