"""Values to texts and back, and the paper's own readers."""

import datetime
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataInvalid
from harness.plugins.benchmarks.concodeeval.documents import FORMATS, Format, read, render
from harness.scoring.validators import UnparseableDocument, score_document, validator
from tests.scoring.validators.named import named

PITFALLS = [
    *("", " ", "no", "true", "null", "~", "5", "1.5", "1e5", "0o17", "0x1F", "1_000", "-", "- a"),
    *("2020-01-01", "12:30", "<<", "=", "a: b", "# a", "a\n", "\na", "\t", "\r\n", "é", "\u2028"),
    *("&amp;", "<a>", "]]>", '"', "'", "\\", "\x85", "\ufeff", "item", "key", "xml", "a b", "…"),
    *(".inf", ".nan", "+.5", "[", "{", "@", "`", "%", "!", "*a", "&a", "|", ">", "?", ":"),
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(PITFALLS)
XML_TEXTS = (
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"))
    | st.sampled_from(PITFALLS)
)  # fmt: skip


def values(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    numbers = (
        st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.decimals(-100, 100, places=25)
    )
    return st.recursive(
        st.none() | st.booleans() | numbers | texts,
        lambda inside: st.lists(inside, max_size=4) | st.dictionaries(texts, inside, max_size=4),
        max_leaves=12,
    )


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types; a Decimal that a float shows is that float."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (float, Decimal)) and isinstance(other, (float, Decimal)):
        return Decimal(str(one)) == Decimal(str(other))
    return type(one) is type(other) and bool(one == other)


@given(values(TEXTS))
def test_json_and_yaml_come_back_as_they_went(value: Any) -> None:
    for text in (render(value), render(value, indent=None)):
        assert same(read(text), value)
    assert same(read(render(value, "yaml"), "yaml"), value)


@given(values(XML_TEXTS))
def test_xml_comes_back_as_it_went(value: Any) -> None:
    assert same(read(render(value, "xml"), "xml"), value)


@given(values(TEXTS))
def test_yaml_reads_the_same_by_the_rules_of_1_1(value: Any) -> None:
    found = yaml.safe_load(render(value, "yaml"))
    assert same(found, _floats(value))


def _floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _floats(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_floats(one) for one in value]
    return float(value) if isinstance(value, Decimal) else value


def test_the_looks_of_a_rendering() -> None:
    value = {"a": [1, {"b": "x"}], "c": {}, "d": "no"}
    assert render(value, indent=2) == (
        '{\n  "a": [\n    1,\n    {\n      "b": "x"\n    }\n  ],\n  "c": {},\n  "d": "no"\n}'
    )
    assert render(value, indent=None) == '{"a": [1, {"b": "x"}], "c": {}, "d": "no"}'
    assert render(value, "yaml") == "a:\n  - 1\n  - b: x\nc: {}\nd: 'no'\n"
    assert render("é", "yaml") == "é\n"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "not a number of JSON"),
        ([math.inf], "not a number of JSON"),
        (Decimal("NaN"), "not a number of JSON"),
        ({1: 2}, "a key that is not a string"),
        ({"a": datetime.date(2020, 1, 1)}, "date is not a type of JSON"),
        ({"a": {1, 2}}, "set is not a type of JSON"),
        ("\ud83d", "half of a surrogate pair"),
        ({"\ud83d": 1}, "half of a surrogate pair"),
        (10**5000, "digits"),
        ([1, 10**5000], "digits"),
        (Decimal("1e5000"), "digits"),
        ([0] * 200_000, "100,000 values"),
    ],
    ids=named,
)
@pytest.mark.parametrize("format", FORMATS)
def test_what_cannot_be_written_is_refused(value: Any, reason: str, format: Any) -> None:
    with pytest.raises(DataInvalid, match=reason):
        render(value, format)


def test_what_is_nested_without_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(DataInvalid, match="deeper than 100"):
        render(endless)


@pytest.mark.parametrize(
    ("text", "format", "value"),
    [
        ('{"a": 1, "a": 2}', "json", {"a": 2}),
        ("[Infinity, 1e999]", "json", [math.inf, math.inf]),
        ("0.10000000000000000001", "json", 0.1),
        ("no", "yaml", False),
        ("2020-01-01", "yaml", datetime.date(2020, 1, 1)),
        ("", "yaml", None),
        ("a: 1\na: 2", "yaml", {"a": 2}),
        ("<all>5</all>", "xml", {"all": "5"}),
        ("<a><b>1</b><b>2</b></a>", "xml", {"a": {"b": ["1", "2"]}}),
        ('<a type="int">5</a>', "xml", {"a": {"@type": "int", "#text": "5"}}),
    ],
    ids=named,
)
def test_the_paper_reads_with_the_libraries_as_they_are(text: str, format: Any, value: Any) -> None:
    assert read(text, format, mode="paper") == value


@pytest.mark.parametrize(
    ("text", "format", "kind"),
    [
        ("[" * 1_000_000, "json", "limit"),
        ("[" * 101 + "]" * 101, "json", "limit"),
        ("9" * 5000, "json", "limit"),
        ("{", "json", "unparseable"),
        ("[" * 50_000, "yaml", "limit"),
        ("a" * 200_000, "yaml", "limit"),
        ("&a [*a]", "yaml", "limit"),
        ("0x" + "f" * 9_000, "yaml", "limit"),
        ("2020-13-45", "yaml", "unparseable"),
        ("{[1]: 2}", "yaml", "unparseable"),
        ("!!python/object/apply:os.system ['true']", "yaml", "unparseable"),
        ('"\\UFFFFFFFF"', "yaml", "unparseable"),
        ("<a>" * 200_000, "xml", "limit"),
        ("<a>", "xml", "unparseable"),
        ('<!DOCTYPE a [<!ENTITY a "x">]><all>&a;</all>', "xml", "unparseable"),
        ('<!DOCTYPE a [<!ATTLIST b c CDATA "x">]><a><b/></a>', "xml", "unparseable"),
    ],
    ids=named,
)
def test_the_papers_readers_are_bounded(text: str, format: Any, kind: str) -> None:
    with pytest.raises(UnparseableDocument) as refused:
        read(text, format, mode="paper")
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.50, true, null]}', {"a": [1, 2.5, True, None]}),
        ("0.1", 0.1),
        ("1e2", 100.0),
        ("-0", 0),
        ("0.10000000000000000001", Decimal("0.10000000000000000001")),
        ("1e400", Decimal("1e400")),
        ("1e-400", Decimal("1e-400")),
        ("9" * 1000, 10**1000 - 1),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\u0000"', "\0"),
        (" \n 5 \t", 5),
    ],
    ids=named,
)
def test_values(text: str, value: Any) -> None:
    found = read(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ('{"a": 1, "a": 2}', "unparseable", 'the key "a" occurs twice'),
        ("NaN", "unparseable", "NaN is not a JSON number"),
        ("[-Infinity]", "unparseable", "-Infinity is not a JSON number"),
        ('{"a":\n 1,}', "unparseable", r"line 2, column 4"),
        ("5 6", "unparseable", "extra data"),
        ("", "unparseable", "expecting value"),
        ("\ufeff5", "unparseable", "expecting value"),
        ('"\\ud83d"', "unparseable", "half of a surrogate pair"),
        ('"\ud83d"', "unparseable", "half of a surrogate pair"),
        ('{"\\udc00": 1}', "unparseable", "half of a surrogate pair"),
        ('"\n"', "unparseable", "control character"),
        ("\0", "unparseable", "expecting value"),
        ("1e999999", "limit", "exponent beyond"),
        ("1e-999999", "limit", "exponent beyond"),
        ("1" * 100_001, "limit", "1,000 digits"),
        ("0." + "1" * 100_001, "limit", "1,000 digits"),
        ("[" * 1_000_000, "limit", "deeper than 100"),
        ("[" * 101 + "]" * 101, "limit", "deeper than 100"),
        ('{"a":' * 200_000, "limit", "deeper than 100"),
        ("[" + "1," * 150_000 + "1]", "limit", "100,000 values"),
        ('"' + "a" * 1_000_000 + '"', "limit", "1,000,000"),
    ],
    ids=named,
)
def test_refusals(text: str, kind: str, reason: str) -> None:
    with pytest.raises(UnparseableDocument, match=reason) as refused:
        read(text)
    assert refused.value.kind == kind
    assert len(str(refused.value)) < 300


def test_a_hundred_levels_are_read() -> None:
    assert read("[" * 100 + "]" * 100) == json.loads("[" * 100 + "]" * 100)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_no_digit_of_a_number_is_lost(number: Decimal) -> None:
    found = read(str(number).replace("E+", "e"))
    assert Decimal(repr(found) if isinstance(found, float) else found) == number


@given(st.text(alphabet='[]{}",:0123456789.eE+-\\utrnfalsd \n', max_size=60))
def test_what_is_read_is_what_python_reads(text: str) -> None:
    try:
        found = read(text)
    except UnparseableDocument:
        return
    assert json.loads(json.dumps(found, default=float)) == json.loads(text)


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("format", ["yaml", "xml"])
def test_every_expected_verdict_on_real_schemas(data_dir: Path, step: int, format: Format) -> None:
    """As in JSON: tests/scoring/validators/test_strict.py."""
    lines = (data_dir / "jsonschema" / "sample200.jsonl").read_text().splitlines()[::step]
    for row in map(json.loads, lines):
        compiled = validator(row["schema"])
        for instance in row["instances"]:
            value = read(json.dumps(instance["data"]))
            violations = compiled.violations(read(render(value, format), format))
            assert (not violations) == instance["valid"], (row["name"], violations)


def test_scores_of_other_formats() -> None:
    schema = {"type": "object", "properties": {"a": {"maximum": 3}}, "required": ["b"]}
    assert score_document("a: 1\nb: no", schema, format="yaml")["valid"].passed
    assert score_document("<all><a>1</a><b/></all>", schema, format="xml")["valid"].passed
