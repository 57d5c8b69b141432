"""XML in the form of the paper: by its types, and by its schema where it has none."""

from typing import Any

import pytest

from harness.errors import DataInvalid
from harness.plugins.benchmarks.concodeeval.documents import read, render
from harness.scoring.validators import UnparseableDocument
from tests.scoring.validators.named import named

TYPED = """<?xml version="1.0" ?>
<all>
    <name type="str"> Ann </name>
    <age type="int">5</age>
    <height type="float">1.5</height>
    <known type="bool">true</known>
    <car type="null"/>
    <tags type="list">
        <item type="str">5</item>
        <item type="dict"/>
    </tags>
    <key name="a b" type="list"/>
</all>
"""
VALUE = {
    "name": " Ann ",
    "age": 5,
    "height": 1.5,
    "known": True,
    "car": None,
    "tags": ["5", {}],
    "a b": [],
}


def test_the_form_of_the_paper_both_ways() -> None:
    assert read(TYPED, "xml") == VALUE
    assert render(VALUE, "xml") == TYPED


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("<all>5</all>", {"type": "number"}, 5),
        ("<all>5</all>", {"type": "integer"}, 5),
        ("<all>5</all>", {"type": "string"}, "5"),
        ("<all> Ann </all>", {"type": "string"}, "Ann"),
        ("<all>true</all>", {"type": "boolean"}, True),
        ("<all>null</all>", {"type": "null"}, None),
        ("<all/>", {"type": "null"}, None),
        ("<all/>", {"type": "string"}, ""),
        ("<all/>", {"type": "object"}, {}),
        ("<all/>", {"type": "array"}, []),
        ("<all>five</all>", {"type": "number"}, "five"),
        ("<all>5</all>", True, 5),
        ("<all>x</all>", True, "x"),
        ("<all>5</all>", {"minLength": 1}, "5"),
        ("<all>5</all>", {"enum": ["5", "6"]}, "5"),
        ("<all>5</all>", {"enum": ["4", 5]}, 5),
        ("<all>5</all>", {"const": "5"}, "5"),
        ("<all>5</all>", {"type": ["string", "null"]}, "5"),
        ("<all>5</all>", {"anyOf": [{"type": "string"}, {"type": "boolean"}]}, "5"),
        ("<all>5</all>", {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, "5"),
        ("<all>5</all>", {"$ref": "#"}, 5),
        ("<all>5</all>", {"$ref": f"#/anyOf/{'1' * 5000}", "anyOf": [{"type": "string"}]}, "5"),
        ("<all><item>5</item></all>", {"type": "array", "items": {"type": "string"}}, ["5"]),
        ("<all><item>5</item></all>", {"type": "object"}, {"item": 5}),
        ("<all><item>5</item></all>", {"properties": {"item": {"type": "string"}}}, {"item": "5"}),
        ("<all><item>5</item><item>x</item></all>", True, [5, "x"]),
        (
            "<all><item>5</item><item>6</item></all>",
            {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "number"}},
            ["5", 6],
        ),
        (
            "<all><item>5</item><item>6</item></all>",
            {"type": "array", "items": [{"type": "string"}]},
            ["5", 6],
        ),
        (
            "<root><a>5</a><b>5</b><c>6</c></root>",
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                "additionalProperties": {"type": "string"},
            },
            {"a": "5", "b": 5, "c": "6"},
        ),
        ('<all type="number">5</all>', {"type": "string"}, 5),
        ('<all xmlns:xsi="x" xsi:nil="y">5</all>', True, 5),
        ("<all><!-- a --><a>1<![CDATA[2]]></a></all>", True, {"a": 12}),
        ("  <?xml version='1.0'?><all>&lt;&#65;</all>", True, "<A"),
    ],
    ids=named,
)
def test_what_has_no_type_is_what_the_schema_says(text: str, schema: Any, value: Any) -> None:
    found = read(text, "xml", schema=schema)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("<all>", "unparseable", r"not XML: no element found \(line 1, column 6\)"),
        ("", "unparseable", "not XML"),
        ("<all></al>", "unparseable", "mismatched tag"),
        ("<all/><all/>", "unparseable", "junk"),
        ("<all>&nbsp;</all>", "unparseable", "undefined entity"),
        ("<all>\0</all>", "unparseable", "not XML"),
        ("<all>\ud83d</all>", "unparseable", "half of a surrogate pair"),
        ("<all><a/>x</all>", "unparseable", "has text"),
        ("<all><a>1</a><a>2</a></all>", "unparseable", "'a' occurs twice"),
        ('<all a="1"/>', "unparseable", "the attribute 'a' is not allowed"),
        ('<all type="tree"/>', "unparseable", 'type="tree" is not one of'),
        ('<all type="int">5.5</all>', "unparseable", "'5.5' is not of type integer"),
        ('<all type="bool">yes</all>', "unparseable", "'yes' is not of type boolean"),
        ('<all type="int"><a/></all>', "unparseable", "contains elements"),
        ('<all type="list"><a/></all>', "unparseable", "a list's member is <item>"),
        ("<a>" * 300_000, "limit", "deeper than 100"),
        ("<all>" + "<a/>" * 150_000, "limit", "100,000 values"),
        ('<all type="int">' + "9" * 5000 + "</all>", "limit", "digits"),
        (
            '<!DOCTYPE a [<!ENTITY a "x"><!ENTITY b "&a;&a;">]><all>&b;</all>',
            "unparseable",
            "document type",
        ),
        (
            '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><all>&a;</all>',
            "unparseable",
            "document type",
        ),
        ('<!DOCTYPE a SYSTEM "http://127.0.0.1/x.dtd"><all/>', "unparseable", "document type"),
    ],
    ids=named,
)
def test_refusals(text: str, kind: str, reason: str) -> None:
    with pytest.raises(UnparseableDocument, match=reason) as refused:
        read(text, "xml")
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    ("value", "place"),
    [({"a": ["\0"]}, "/a/0"), ("\x1b", "the root"), ({"\x01": 1}, "/\x01"), (["\ufffe"], "/0")],
    ids=named,
)
def test_what_xml_cannot_hold_is_said(value: Any, place: str) -> None:
    with pytest.raises(DataInvalid, match=f"at {place} has the character.*JSON or YAML"):
        render(value, "xml")
