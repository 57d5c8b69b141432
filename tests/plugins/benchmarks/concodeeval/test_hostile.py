"""Hostile schemas and documents end in a bounded time, with an outcome, without file or network."""

import builtins
import contextlib
import io
import json
import socket
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from harness.errors import DataInvalid
from harness.plugins.benchmarks.concodeeval.documents import FORMATS, Format, Mode, read
from harness.plugins.benchmarks.concodeeval.paper import MOST_SECONDS, PaperValidator
from harness.scoring.validators import (
    BlockExtraction,
    NoAnswerBlock,
    Undecided,
    UnparseableDocument,
    score_document,
    validator,
)
from harness.scoring.validators.limits import MAX_DEPTH, check_json
from harness.scoring.validators.strict import MAX_ROUTES, Routes
from tests.scoring.validators.named import named

MODES: tuple[Mode, ...] = ("strict", "paper")
LONGEST = 10.0
"""Seconds of CPU time: twice what the limits allow."""


@pytest.fixture(autouse=True)
def _libraries_are_loaded() -> None:
    """Before, so that what is touched later is touched by documents and schemas."""
    for mode in MODES:
        validator({"pattern": "a"}, mode=mode).violations("a")
        for text, format in (("1", "json"), ("1", "yaml"), ("<a/>", "xml")):
            read(text, format, mode=mode)  # type: ignore[arg-type]


@contextlib.contextmanager
def nothing_is_touched() -> Iterator[None]:
    """No file is opened and no connection made, or the test fails."""

    def refuse(*given: Any, **named: Any) -> Any:
        raise AssertionError(f"a file or the network was touched: {given}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtins, "open", refuse)
        patch.setattr(io, "open", refuse)
        patch.setattr(socket, "socket", refuse)
        patch.setattr(socket, "create_connection", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        yield


def outcome(work: Callable[[], Any]) -> Any:
    """What comes of it: a value, or the one of our errors."""
    begun = time.process_time()
    try:
        with nothing_is_touched():
            return work()
    except (DataInvalid, Undecided, UnparseableDocument) as error:
        return type(error) if len(str(error)) < 600 else "an endless message"
    finally:
        assert time.process_time() - begun < LONGEST


def chain(count: int, *, twice: bool = False) -> dict[str, Any]:
    """References one after the other; each followed twice, there are two to the power of count."""
    definitions: dict[str, Any] = {"a0": {"type": "string"}}
    for number in range(1, count):
        below = {"$ref": f"#/definitions/a{number - 1}"}
        definitions[f"a{number}"] = {"allOf": [below, below] if twice else [below]}
    return {"allOf": [{"$ref": f"#/definitions/a{count - 1}"}], "definitions": definitions}


def nested(depth: int, value: Any = 0) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def schema_nested(depth: int) -> Any:
    schema: Any = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
DOUBLED = {"type": ["array", "string"], "allOf": [{"items": {"$ref": "#"}}] * 2}
CATASTROPHES = ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*a){20}$", "^(([a-z])+.)+[A-Z]([a-z])+$"]
IRREGULAR = [r"^((a|a)+)+\1$", r"^(?=(a+)+$)b", r"(a*)*(?!x)\1c", r"(?:(?=.*b).)*$"]


@pytest.mark.parametrize(
    ("mode", "pattern", "length"),
    [("strict", one, length) for one in CATASTROPHES + IRREGULAR for length in (40, 5_000, 200_000)]
    + [
        ("paper", IRREGULAR[0], 40),
    ],
)
def test_catastrophic_patterns(mode: Mode, pattern: str, length: int) -> None:
    value = "a" * length + "!"
    schemas: list[Any] = [{"pattern": pattern}, {"not": {"pattern": pattern}}]
    ends = [outcome(lambda one=one: validator(one, mode=mode).violations(value)) for one in schemas]
    assert all(isinstance(end, tuple) or end is Undecided for end in ends)
    if mode == "strict" and pattern in CATASTROPHES:
        assert [len(end) for end in ends] == [1, 0]
    key = {value: 1}
    outcome(lambda: validator({"patternProperties": {pattern: False}}, mode=mode).violations(key))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (chain(2_000), 5),
        (chain(8_000), 5),
        (chain(30, twice=True), "a"),
        (DOUBLED, nested(90)),
        ({"$ref": "#"}, 5),
        ({"allOf": [{"$ref": "#"}]}, 5),
        ({"not": {"$ref": "#"}}, 5),
        ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, 5),
        (
            {
                "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
                "items": {"$ref": "#/definitions/a"},
            },
            [5],
        ),
        ({"additionalProperties": {"$ref": "#"}, "type": "object"}, {"a": {"a": {"a": 5}}}),
        (schema_nested(90), nested(100)),
        (schema_nested(5_000), 5),
        ({"enum": list(range(60_000))}, 5),
        ({"items": {"enum": list(range(20_000))}}, [20_001] * 50_000),
        ({"items": {"enum": [{"a": n} for n in range(3_000)]}}, [{"a": -1}] * 10_000),
        ({"required": [f"a{n}" for n in range(20_000)]}, {"a": "y" * 900_000}),
        ({"items": {"type": "string"}}, [0] * 8_000),
        ({"items": {"anyOf": [{"type": "string"}] * 300}}, [0] * 90_000),
        ({"uniqueItems": True}, [{"a": n} for n in range(45_000)]),
        ({"uniqueItems": True}, [n if n % 2 else str(n) for n in range(90_000)]),
        ({"allOf": [{"pattern": f"{n}a+b"} for n in range(2_000)]}, "a" * 900_000),
        ({"pattern": "((((a{1,100}){1,100}){1,100}){1,100})"}, "a"),
        ({"pattern": "[ab]*a[ab]{9000}c"}, "ab" * 100_000),
        ({"pattern": "[ab]*a[ab]{700}c"}, "abbab" * 150_000),
        ({"multipleOf": Decimal("1e-900")}, Decimal("1e900")),
        ({"multipleOf": 1e-300}, 10**990),
        ({"minimum": 10**5000}, 5),
        ({"$dynamicRef": "#a", "$dynamicAnchor": "a"}, 5),
        ({"type": "string"}, "\ud83d"),
        ({"type": "string"}, nested(300)),
        ({"type": "string"}, nested(5_000)),
        ({"$ref": "#/definitions/" + "a/" * 20_000}, 5),
        ({"pattern": "(" * 5_000}, "a"),
        ({"format": "regex"}, "(" * 50_000),
        ({"format": "uri-template"}, "{" * 200_000),
        ({"format": "email"}, "a@" * 200_000),
        ({"format": "hostname"}, "xn--" * 100_000),
        ({"format": "ipv6"}, ":" * 200_000),
        ({"format": "idn-hostname"}, "é." * 100_000),
        ({"$id": {}}, 5),
        ({"items": {"$schema": DRAFT_7, "pattern": CATASTROPHES[1]}}, ["a" * 60 + "!"]),
        ({"$schema": DRAFT_7, "anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, 5),
        (
            {
                "$schema": DRAFT_7,
                "type": ["array", "string"],
                "allOf": [{"items": {"$ref": "#"}}] * 2,
            },
            nested(10),
        ),
        (
            {
                "allOf": [
                    {
                        "$schema": DRAFT_2020,
                        "unevaluatedProperties": False,
                        "patternProperties": {CATASTROPHES[1]: False},
                    }
                ]
            },
            {"a" * 60 + "!": 1},
        ),
        ({"$ref": "https://example.com/a.json"}, 5),
        ({"$ref": "file:///etc/passwd"}, 5),
        ([], 5),
        ("text", 5),
        (None, 5),
        ({"const": {1}}, 5),
    ],
    ids=named,
)
@pytest.mark.parametrize("mode", MODES)
def test_hostile_schemas(mode: Mode, schema: Any, value: Any) -> None:
    end = outcome(
        lambda: (
            validator(schema) if mode == "strict" else PaperValidator(schema, seconds=0.3)
        ).violations(value)
    )
    assert isinstance(end, tuple) or end in (DataInvalid, Undecided)


def test_validating_ends_at_its_deadline() -> None:
    begun = time.thread_time()
    with pytest.raises(Undecided, match="too long"):
        PaperValidator(DOUBLED, seconds=0.3).violations(nested(90))
    assert 0.3 < time.thread_time() - begun < 1
    assert MOST_SECONDS < 5


def test_a_verdict_is_had_where_its_reasons_are_too_many() -> None:
    """Listing two to the power of twenty errors would take a minute; that there is one is known."""
    [found] = validator(chain(20, twice=True)).violations(5)
    assert (found.path, found.keyword) == ("", "type")
    assert validator(chain(20, twice=True)).violations("a") == ()
    [found] = validator(DOUBLED).violations(nested(18))
    assert found.keyword == "type"
    assert len(validator(chain(6, twice=True)).violations(5)) == 32


def test_ways_are_counted_by_depth() -> None:
    assert Routes({"type": "string"}).count(5) == 1
    assert Routes({"properties": {"a": {"type": "string"}, "b": {}}}).count(1) == 2
    assert Routes(DOUBLED).count(1) < Routes(DOUBLED).count(10) < MAX_ROUTES
    assert Routes(DOUBLED).count(90) == MAX_ROUTES
    assert Routes(chain(30, twice=True)).count(0) > 10**8
    assert Routes(chain(1_000)).count(0) == MAX_ROUTES  # as long a chain is not followed
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    assert Routes(tree).count(90) < 1_000


def test_ways_through_another_base_are_counted() -> None:
    wide = {"$defs": {"wide": {"anyOf": [{"minimum": n} for n in range(50)]}}}
    own = wide | {"$ref": "#/$defs/wide"}
    base = "https://example.org/other.json"
    other = {"$defs": {"other": wide | {"$id": base}}, "$ref": f"{base}#/$defs/wide"}
    nowhere = {"$defs": {"other": wide | {"$id": base}}, "$ref": "#/$defs/wide"}
    assert Routes(other).count(0) == Routes(own).count(0) > 50
    assert Routes(nowhere).count(0) < 50
    for value in (7, -7):
        valid = Draft202012Validator(other).is_valid(value)
        assert (validator(other).violations(value) == ()) == valid


@pytest.mark.parametrize("beside", [0, "text", None])
def test_depth_is_limited_next_to_shallow_values(beside: Any) -> None:
    def nested_beside(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = [beside, value]
        return value

    assert check_json(nested_beside(MAX_DEPTH)) > MAX_DEPTH
    with pytest.raises(UnparseableDocument, match="nested deeper"):
        check_json(nested_beside(MAX_DEPTH + 1))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside),
    max_leaves=8,
)
WORDS = """
    type properties required items contains minContains maxContains minimum maximum multipleOf
    exclusiveMinimum minLength pattern format enum const $ref $id $schema $anchor $dynamicRef
    $defs definitions allOf anyOf oneOf not if then else dependencies dependentSchemas
    additionalProperties patternProperties propertyNames unevaluatedProperties prefixItems
    unevaluatedItems uniqueItems minItems
"""
KEYWORDS = st.sampled_from(WORDS.split())
ARGUMENTS = st.sampled_from(
    [
        "string",
        "#",
        "#/definitions/a",
        "http://x/y",
        "#a",
        "^(a+)+$",
        "(?=a)",
        "(",
        "date",
        "object",
    ]
)
SCHEMAS = st.recursive(
    st.booleans() | ARGUMENTS | st.integers(-2, 5) | JSON_VALUES,
    lambda inside: (
        st.dictionaries(KEYWORDS, inside, max_size=4)
        | st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b"]), inside, max_size=2)
    ),
    max_leaves=15,
)


@settings(deadline=None)
@given(
    st.dictionaries(KEYWORDS, SCHEMAS, max_size=4) | SCHEMAS, JSON_VALUES, st.sampled_from(MODES)
)
def test_any_schema_and_any_value_have_an_outcome(schema: Any, value: Any, mode: Mode) -> None:
    end = outcome(lambda: validator(schema, mode=mode).violations(value))
    assert isinstance(end, tuple) or end in (DataInvalid, Undecided)


TOKENS = st.sampled_from(
    [
        *"[]{}:,-?&*!|>%@`\"'#\n\t <>/=~0159.",
        *("\ud83d", "\0", "\ufeff", "\u2028", "é", "&a ", "*a", "<<: ", "!!int ", "!!str "),
        *("---\n", "...\n", "? ", "- ", "a: ", "<all>", "</all>", "<item>", "<!--", "<![CDATA["),
        *("]]>", "&lt;", "&#0;", "&x;", "<!DOCTYPE a [", ' type="int"', "<?xml version='1.0'?>"),
        *("1e999", "NaN", "```", "```json\n", "\\u", "\\ud83d", "true", "null", "0x1F"),
    ]
)


@settings(deadline=None)
@given(
    st.lists(TOKENS, max_size=40).map("".join) | st.text(max_size=40),
    st.sampled_from(FORMATS),
    st.sampled_from(MODES),
)
def test_any_text_has_an_outcome(text: str, format: Format, mode: Mode) -> None:
    schema = {"type": ["object", "string"], "properties": {"a": {"type": "integer"}}}
    end = outcome(lambda: score_document(text, schema, format=format, mode=mode))
    if end is not UnparseableDocument:
        assert end["valid"].value in (True, False)
        json.dumps(end["valid"].details).encode()
    for way in ("fence", "last_fence", "open_fence", "json", "tags:all", "brackets:a"):
        with contextlib.suppress(NoAnswerBlock):
            assert BlockExtraction(way).read(text) in text


@pytest.mark.parametrize(
    "text",
    ["```" * 300_000, "`" * 900_000, "[" * 900_000, '{"a":' * 180_000, "[1," * 300_000,
     "[" + "9" * 900_000 + "]", "```json\n" * 100_000, "<a>" * 300_000, '["' * 450_000],
    ids=named,
)  # fmt: skip
@pytest.mark.parametrize(
    "way", ["fence", "last_fence", "open_fence", "json", "tags:a", "brackets:a"]
)
def test_extraction_is_bounded(text: str, way: str) -> None:
    begun = time.process_time()
    with contextlib.suppress(NoAnswerBlock):
        BlockExtraction(way).read(text)
    assert time.process_time() - begun < LONGEST
