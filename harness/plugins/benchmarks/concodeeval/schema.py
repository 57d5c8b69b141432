"""The constraints of a schema: their positions in its text, and which of them a sample violates.

A keyword is identified by its JSON Pointer in the schema. Functions that render a schema put marks
around the words that express a keyword, so that its position is known once the text is complete. As
in ConCodeEval's analysis of failures, positions are thirds of the schema's text or of the sample.

>>> unmarked("{ " + marked("type", pointer("/properties", "a/b", "type")))
('{ type', {'/properties/a~1b/type': (2, 6)})
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from harness.plugins.benchmarks.concodeeval.documents import Format, Mode, locate, third
from harness.records import JsonObject
from harness.scoring.validators import Violation, limits

Schema: TypeAlias = Mapping[str, Any]  # a JSON Schema, whose values can be any JSON

Representation: TypeAlias = Literal["json", "yaml", "xml", "python", "natural_language"]
Wording: TypeAlias = Literal["paper", "corrected"]
Spans: TypeAlias = dict[str, tuple[int, int]]  # by keyword pointer: (start, end) in characters

MARKS = re.compile("(\ufdd0[^\ufdd1]*\ufdd1|\ufdd2)")
RESERVED = re.compile("[\ufdd0-\ufdd2]")  # the marks' characters; no schema may contain any


def pointer(base: str, *tokens: str | int) -> str:
    """Return the JSON Pointer ``base`` extended by ``tokens``, which are escaped here."""
    return base + limits.pointer(tokens)


def keywords(schema: Schema, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield (pointer, name, value) of the keywords of a schema and its subschemas."""
    for keyword, value in schema.items():
        place = pointer(path, keyword)
        yield place, keyword, value
        if not isinstance(value, Mapping):
            continue
        if keyword in ("items", "contains", "additionalProperties"):
            yield from keywords(value, place)
        elif keyword in ("properties", "patternProperties", "$defs", "definitions"):
            for name, inner in value.items():
                if isinstance(inner, Mapping):
                    yield from keywords(inner, pointer(place, name))


def marked(text: str, path: str) -> str:
    """Return text that expresses the keyword at the JSON Pointer ``path``, between marks."""
    return f"\ufdd0{path}\ufdd1{text}\ufdd2"


def unmarked(text: str) -> tuple[str, Spans]:
    """Return text without marks, and the position of each keyword's first occurrence."""
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


_INNER = "properties patternProperties $defs definitions items"
_NOTES = "$schema $id title description default examples $comment"
# Keywords that no value violates: they contain other schemas, or notes.
NOT_CONSTRAINTS = frozenset(f"{_INNER} {_NOTES}".split())
LONGEST = 120  # maximum characters of a constraint's text


class Constraints:
    """The constraints of a schema in one representation.

    ``found`` maps each constraint's JSON Pointer to the fields of its
    `harness.analysis.failures.ListedConstraint`.
    """

    def __init__(self, schema: Schema, text: str, spans: Spans) -> None:
        self.schema = schema
        self.found: dict[str, JsonObject] = {}
        for path, keyword, value in keywords(schema):
            if keyword in NOT_CONSTRAINTS:
                continue
            groups = {}
            if path in spans:
                groups["schema_third"] = third(spans[path][0], len(text))
            constraint = {"constraint": f"{path} {value}"[:LONGEST], "kind": keyword}
            self.found[path] = {**constraint, "groups": groups}

    def met(
        self, violations: Sequence[Violation], value: Any, sample: str, output: Format, mode: Mode
    ) -> list[JsonObject]:
        """Return an entry for each constraint that applies to a sample, with its verdict.

        ``sample`` is the text of the ``value``, in which the violations are located.
        """
        broken: dict[str, Violation] = {}
        for breach in violations:
            broken.setdefault(breach.schema_path, breach)
        applicable = set(applicable_keywords(self.schema, value))
        met = []
        for path in dict.fromkeys([*self.found, *broken]):
            entry = self.found.get(path, {"constraint": path, "groups": {}})
            if violation := broken.get(path):
                place = sample_third(sample, output, violation.path, mode)
                failure = {
                    "kind": violation.keyword,
                    "passed": False,
                    "reason": violation.message[:LONGEST],
                    "groups": {**entry["groups"], "output_third": place},
                }
                met.append(entry | failure)
            elif path in applicable:
                met.append({**entry, "passed": True})
        return met


def applicable_keywords(schema: Any, value: Any, path: str = "") -> Iterator[str]:
    """Yield the JSON pointers of the keywords that apply to a value or its parts.

    Keywords inside ``contains`` are excluded: another item may satisfy them.

    >>> list(applicable_keywords({"type": "object", "maximum": 3, "items": {}}, {}))
    ['/type']
    """
    if not isinstance(schema, Mapping):
        return
    for keyword, inner_schema in schema.items():
        place = pointer(path, keyword)
        if keyword not in NOT_CONSTRAINTS and isinstance(value, _APPLIES_TO.get(keyword, object)):
            yield place
        if keyword == "properties" and isinstance(value, dict):
            for name, inner in inner_schema.items():
                if name in value:
                    yield from applicable_keywords(inner, value[name], pointer(place, name))
        elif keyword == "items" and isinstance(value, list):
            for item in value:
                yield from applicable_keywords(inner_schema, item, place)
        elif keyword == "additionalProperties" and isinstance(value, dict):
            for name in value.keys() - schema.get("properties", {}).keys():
                yield from applicable_keywords(inner_schema, value[name], place)


_TYPES: Mapping[tuple[type, ...], str] = {
    (int, float, Decimal): "minimum maximum multipleOf exclusiveMinimum exclusiveMaximum",
    (str,): "minLength maxLength pattern format",
    (list,): "contains minContains maxContains minItems maxItems uniqueItems",
    (dict,): "required additionalProperties minProperties maxProperties propertyNames",
}
_APPLIES_TO = {keyword: types for types, words in _TYPES.items() for keyword in words.split()}


def sample_third(sample: str, output: Format, path: str, mode: Mode) -> str:
    """Return which third of a sample's text (first, middle, last) has the value at a pointer.

    The result is "whole" for the root, and "unknown" if the value cannot be located.
    """
    if not path:
        return "whole"
    span = locate(sample, output, path, mode=mode)
    if span is None:
        return "unknown"
    return third(sum(span) // 2, len(sample))
