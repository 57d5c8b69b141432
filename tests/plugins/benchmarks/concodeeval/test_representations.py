"""The forms as they stand, and what is said of texts that are none."""

import json
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml as pyyaml
from hypothesis import given, settings

from harness.errors import DataInvalid
from harness.plugins.benchmarks.concodeeval.representations import (
    REPRESENTATIONS,
    Representation,
    keywords,
    render,
    rendered,
)
from tests.plugins.benchmarks.concodeeval.readers import READABLE, read
from tests.plugins.builders.concodeeval.drawn import generated, strange

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ticket": {"type": "string", "format": "uuid"},
        "price": {"type": "number", "minimum": 0, "exclusiveMaximum": 9.5},
        "note": {},
    },
    "required": ["ticket"],
    "additionalProperties": False,
}
TAGS: dict[str, Any] = {
    "type": "array",
    "contains": {"type": "string", "maxLength": 5},
    "minContains": 2,
}

XML = """\
<?xml version="1.0" ?>
<all>
    <type type="str">object</type>
    <properties type="dict">
        <ticket type="dict">
            <type type="str">string</type>
            <format type="str">uuid</format>
        </ticket>
        <price type="dict">
            <type type="str">number</type>
            <minimum type="int">0</minimum>
            <exclusiveMaximum type="float">9.5</exclusiveMaximum>
        </price>
        <note type="dict"/>
    </properties>
    <required type="list">
        <item type="str">ticket</item>
    </required>
    <additionalProperties type="bool">false</additionalProperties>
</all>"""

PYTHON = """\
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Schema(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ticket: str = Field(json_schema_extra={"format": "uuid"})
    price: float = Field(default=None, ge=0, lt=9.5)
    note: Any = None
"""

PYTHON_TAGS = """\
from typing import Annotated

from pydantic import Field, RootModel, TypeAdapter


class Schema(RootModel):
    root: list = Field(json_schema_extra={"contains": \
TypeAdapter(Annotated[str, Field(max_length=5)]).json_schema(), "minContains": 2})
"""

ENGLISH = """\
This JSON schema defines an object that must be:
object with the properties:
    ticket: a string that must be:
        string of format uuid
    price: a number that must be:
        Minimum value greater than or equal to 0
        Maximum value strictly less than 9.5
    note: any value
Required properties: ticket
Additional properties are not allowed"""

ENGLISH_TAGS = """\
This JSON schema defines an array that must be:
array of which some items, counted here, must be a string:
    Maximum length less than or equal to 5
Number of such items greater than or equal to 2"""


@pytest.mark.parametrize(
    ("schema", "representation", "text"),
    [
        (ORDER, "xml", XML),
        (ORDER, "python", PYTHON),
        (ORDER, "natural_language", ENGLISH),
        (TAGS, "python", PYTHON_TAGS),
        (TAGS, "natural_language", ENGLISH_TAGS),
        (TAGS, "yaml", "contains:\n  maxLength: 5\n  type: string\nminContains: 2\ntype: array\n"),
    ],
)
def test_forms(schema: dict[str, Any], representation: Representation, text: str) -> None:
    assert render(schema, representation) == text


@pytest.mark.parametrize(
    ("keyword", "value", "clause"),
    [
        ("multipleOf", 5.88, "Multiple of 5.88"),
        ("minimum", 0, "Minimum value greater than or equal to 0"),
        ("exclusiveMinimum", 0, "Minimum value strictly greater than 0"),
        ("maximum", 10, "Maximum value less than or equal to 10"),
        ("exclusiveMaximum", 10, "Maximum value strictly less than 10"),
        ("minLength", 2, "Minimum length greater than or equal to 2"),
        ("maxLength", 9, "Maximum length less than or equal to 9"),
        ("format", "date-time", "string of format date-time"),
        ("pattern", "^a\\d", 'string that matches the regular expression "^a\\\\d"'),
        ("const", "east", 'Equal to "east"'),
        ("enum", ["east", 7, None], 'One of "east", 7, null'),
        ("items", {"type": "string"}, "array where each item must be a string"),
        ("items", {}, "array where each item must be any value"),
        ("items", False, "array where each item must be no value"),
        ("contains", {"type": "null"}, "array of which at least one item must be a null"),
        ("minItems", 1, "Minimum number of items greater than or equal to 1"),
        ("maxItems", 4, "Maximum number of items less than or equal to 4"),
        ("uniqueItems", True, "No item twice"),
        ("uniqueItems", False, "Items may be equal"),
        ("properties", {"a": {"type": "boolean"}}, "object with the properties:"),
        ("required", ["a", "b"], "Required properties: a, b"),
        ("required", [], "Required properties: none"),
        ("additionalProperties", False, "Additional properties are not allowed"),
        ("additionalProperties", True, "Additional properties are allowed"),
        ("additionalProperties", {"type": "null"}, "Additional properties must be a null"),
        ("minProperties", 2, "minProperties: 2"),
        ("minContains", 2, "Number of such items greater than or equal to 2"),
    ],
)
def test_the_clause_of_each_keyword(keyword: str, value: object, clause: str) -> None:
    schema = {keyword: value}
    text = render(schema, "natural_language")
    assert text.splitlines()[:2] == ["This JSON schema defines any value that must be:", clause]
    start, end = rendered(schema, "natural_language")[1][f"/{keyword}"]
    assert text[start:end] == clause


@pytest.mark.parametrize(
    ("schema", "paper", "corrected"),
    [
        ({"type": "string"}, "a single string that must be:", "a single string."),
        ({"type": "boolean"}, "a single boolean that must be:", "a single boolean."),
        ({"type": "null"}, "a single null that must be:", "a single null."),
        ({"type": "array"}, "an array that must be:", "an array."),
        ({}, "any value that must be:", "any value."),
    ],
)
def test_types_without_constraints(schema: dict[str, Any], paper: str, corrected: str) -> None:
    start = "This JSON schema defines "
    assert render(schema, "natural_language", wording="paper") == start + paper
    assert render(schema, "natural_language") == start + corrected


PAPER_ORDER = """\
This is a JSON schema that defines the structure of an object. Here's a breakdown of the schema:

**Top-level properties**

* `type`: The type of the JSON data, which is an object (`"object"`).
* `properties`: An object that defines the properties of the object.
* `additionalProperties`: A boolean value that indicates whether additional properties not \
specified in the schema are allowed. In this case, it is set to False
* required: An array that specifies required properties are ticket

**Properties object**

The `properties` object defines the structure of each property in the object. Here's a brief \
description of each property:

ticket: A string that must be format uuid
price: A number that must be greater than or equal to 0, strictly lesser than 9.5
note: An object with no specific type or constraints."""

PAPER_ORDERS = """\
The schema defines an array of objects.

**Object Properties

Each object in the array has the following properties.

ticket: A string that must be format uuid
price: A number that must be greater than or equal to 0, strictly lesser than 9.5
note: An object with no specific type or constraints.

*`additionalProperties`: A boolean value that indicates whether additional properties not \
specified in the schema are allowed. In this case, it is set to False
* required: An array that specifies required properties are ticket
minimum number of object in array are 0
maxmimum number of objects in array are 5"""

PAPER_TAGS = """\
This JSON schema defines an array of strings where each string must follow the constraints given below.
Maximum length greater than equal to 5
Minimum number of elements in array are 2"""  # noqa: E501


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (ORDER, PAPER_ORDER),
        (
            {"type": "array", "contains": ORDER, "minContains": 0, "maxContains": 5},
            PAPER_ORDERS,
        ),
        (TAGS, PAPER_TAGS),
        (
            {"type": "array", "items": {"type": "null"}},
            "This JSON schema defines an array of nulls",
        ),
    ],
)
def test_the_authors_english_of_objects_and_arrays(schema: dict[str, Any], text: str) -> None:
    found, places = rendered(schema, "natural_language", "paper")
    assert found == text
    assert {place.rpartition("/")[2] for place in places} <= {
        word for _, word, _ in keywords(schema)
    }
    for place, word, value in keywords(schema):
        start, end = places.get(place, (0, 0))
        if word in ("exclusiveMaximum", "maxLength", "minContains", "format"):
            assert found[start:end] == str(value)


def test_what_the_authors_have_no_words_for_is_said_in_the_corrected_wording() -> None:
    nested = {"type": "object", "properties": {"order": ORDER}, "maxProperties": 5}
    for schema in (nested, {**TAGS, "uniqueItems": True}, {**TAGS, "contains": {}}):
        paper = render(schema, "natural_language", wording="paper")
        assert paper == render(schema, "natural_language")
        assert "greater than equal" not in paper


def test_what_stands_at_the_spans() -> None:
    def at(schema: dict[str, Any], representation: Representation, place: str) -> str:
        start, end = rendered(schema, representation)[1][place]
        return render(schema, representation)[start:end]

    assert at(ORDER, "python", "/properties/price/exclusiveMaximum") == "lt"
    assert at(ORDER, "python", "/properties/price/type") == "float"
    assert at(ORDER, "python", "/properties/ticket/format") == "format"
    assert at(ORDER, "python", "/required") == "ticket"
    assert at(ORDER, "python", "/additionalProperties") == 'extra="forbid"'
    assert at(ORDER, "python", "/properties") == "Schema"
    assert at(TAGS, "python", "/contains/maxLength") == "max_length"
    assert at(TAGS, "python", "/minContains") == "minContains"
    assert at(TAGS, "natural_language", "/contains/type") == "a string"
    english = at(ORDER, "natural_language", "/properties/price/exclusiveMaximum")
    assert english == "Maximum value strictly less than 9.5"
    start, _ = rendered(ORDER, "json")[1]["/properties/price/minimum"]
    assert render(ORDER, "json")[start - 1 :].startswith('"minimum": 0')


def test_xml_says_which_character_it_cannot_hold() -> None:
    with pytest.raises(DataInvalid, match=r"U\+0000"):
        render({"pattern": "a\0"}, "xml")


@pytest.mark.parametrize("mark", "\ufdd0\ufdd1\ufdd2")
def test_the_marks_of_keywords_cannot_stand_in_a_schema(mark: str) -> None:
    for schema in ({"title": f"a{mark}"}, {"properties": {f"x{mark}y": {"type": "integer"}}}):
        with pytest.raises(DataInvalid, match="noncharacters"):
            render(schema, "json")


def canonical(schema: object) -> str:
    """Equal only where Python's == would confuse 1, 1.0 and true."""
    return json.dumps(schema, sort_keys=True)


@pytest.mark.parametrize("representation", READABLE)
@given(schema=generated)
@settings(max_examples=30, deadline=None)
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
@settings(max_examples=30, deadline=None)
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
    found = rendered(schema, representation)[1]
    assert set(found) == {place for place, _, _ in keywords(schema)}
    for place, keyword, _ in keywords(schema):
        start, end = found[place]
        assert 0 <= start < end <= len(text)
        if representation in ("json", "yaml", "xml"):
            assert text[start:end] == keyword


FRAME = Path(__file__).parents[4] / "prompts/concodeeval/natural_language.jinja"
MISTAKEN = ("maximum", "exclusiveMaximum", "maxLength")


@pytest.fixture
def concodeeval(data_dir: Path) -> Path:
    folder = data_dir / "concodeeval"
    if not folder.is_dir():
        pytest.skip("no recorded data of ConCodeEval: set HARNESS_DATA_DIR")
    return folder


def test_the_recorded_prompts_byte_for_byte(concodeeval: Path) -> None:
    template = jinja2.Environment(autoescape=False).from_string(FRAME.read_text("utf-8"))
    lines = (concodeeval / "scalar_schemas.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 300
    corrected = 0
    for row in rows:
        description = render(row["schema"], "natural_language", wording="paper")
        assert template.render(schema=description, output="JSON") == row["nl_prompt"], row["idx"]
        right = render(row["schema"], "natural_language", wording="corrected")
        mistaken = any(keyword in row["schema"] for keyword in MISTAKEN)
        assert ("less than" in right) == mistaken
        corrected += mistaken
    assert corrected == 146


def test_the_recorded_xml(concodeeval: Path) -> None:
    prompts = json.loads((concodeeval / "prompts.json").read_text("utf-8"))
    shots = prompts["BAM_inference.py:prompt_few_shot_xml"].split("XML format schema:\n")[1:4]
    for shot in shots:
        recorded = shot.split("\nJSON sample:")[0]
        # One line of the recorded three schemas stands eight columns in, where all others
        # of its kind stand twelve in: a slip of whoever pasted it.
        tidy = recorded.replace(
            '\n        <item type="str">thermoses', '\n            <item type="str">thermoses'
        )
        assert render(read(recorded, "xml"), "xml") == tidy


def test_the_recorded_yaml(concodeeval: Path) -> None:
    prompts = json.loads((concodeeval / "prompts.json").read_text("utf-8"))
    shots = prompts["BAM_inference.py:prompt_few_shot_YAML"].split("YAML format schema:\n\n")[1:4]
    for shot in shots:
        recorded = shot.split("\nJSON sample:")[0]
        assert render(read(recorded, "yaml"), "yaml") == recorded
