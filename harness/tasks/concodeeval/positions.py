"""Where constraints stand in a prompted schema, and which of them a sample breaks, and where.

As in ConCodeEval's analysis of where models fail: the third of the schema's text that holds the
violated keyword, and the third of the sample that holds what violates it.

>>> Constraints.of({"type": "string", "maxLength": 5}, "json", "corrected").thirds["/maxLength"]
'last'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from harness.scoring.validators import Format, Mode, Violation, locate, third
from harness.tasks.concodeeval.representations import (
    Representation,
    Schema,
    Wording,
    keywords,
    render,
    spans,
)
from harness.tasks.concodeeval.representations.schema import pointer

NOT_CONSTRAINTS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "items", "$schema", "$id", "title"}
    | {"description", "default", "examples", "$comment"}
)
"""Keywords that hold other schemas, or nothing that a value could break."""
LONGEST = 120
"""Characters of a constraint's text."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of a schema in one representation.

    kinds: pointer of each to its keyword.
    texts: pointer of each to what it says.
    thirds: pointer to first, middle or last, of the schema's text, by the keyword's beginning.
    """

    kinds: Mapping[str, str]
    texts: Mapping[str, str]
    thirds: Mapping[str, str]

    @staticmethod
    def of(schema: Schema, representation: Representation, wording: Wording) -> Constraints:
        """Those of a schema."""
        found = [
            (at, keyword, value)
            for at, keyword, value in keywords(schema)
            if keyword not in NOT_CONSTRAINTS
        ]
        length = len(render(schema, representation, wording=wording))
        where = spans(schema, representation, wording=wording)
        return Constraints(
            kinds={at: keyword for at, keyword, _ in found},
            texts={at: f"{at} {value}"[:LONGEST] for at, _, value in found},
            thirds={at: third(where[at][0], length) for at, _, _ in found if at in where},
        )


class Answer(NamedTuple):
    """What was answered.

    sample: its text; value: what is read of that.
    """

    schema: Schema
    sample: str
    value: Any
    output: Format
    mode: Mode


def constraints_met(
    constraints: Constraints,
    violations: Sequence[Violation],
    answer: Answer,
) -> list[dict[str, Any]]:
    """Each constraint that bears on the answer, with whether it is kept.

    What asks for nothing there (a maximum where no number is, the schema of a member that is
    missing) is left out: it would count as kept. In the shape of `harness.store.findings`.
    """
    broken: dict[str, Violation] = {}
    for found in violations:
        broken.setdefault(found.schema_path, found)
    borne = set(bearing(answer.schema, answer.value))
    told = []
    for at in [*constraints.kinds, *(at for at in broken if at not in constraints.kinds)]:
        violation = broken.get(at)
        if violation is None and at not in borne:
            continue
        entry: dict[str, Any] = {
            "constraint": constraints.texts.get(at, at),
            "kind": constraints.kinds[at] if violation is None else violation.keyword,
            "passed": violation is None,
        }
        groups = {"schema_third": constraints.thirds[at]} if at in constraints.thirds else {}
        if violation is not None:
            entry["reason"] = violation.message[:LONGEST]
            groups["output_third"] = sample_third(
                answer.sample, answer.output, violation.path, answer.mode
            )
        told.append({**entry, "groups": groups})
    return told


def bearing(schema: Any, value: Any, at: str = "") -> Iterator[str]:
    """The pointers of the keywords that ask something of a value, or of what is in it.

    What is inside of ``contains`` asks nothing by itself: another item may do.

    >>> list(bearing({"type": "object", "maximum": 3, "properties": {"a": {"type": "null"}}}, {}))
    ['/type']
    """
    if not isinstance(schema, Mapping):
        return
    for keyword, asked in schema.items():
        place = pointer(at, keyword)
        if keyword not in NOT_CONSTRAINTS and isinstance(value, _BEARS_ON.get(keyword, object)):
            yield place
        if keyword == "properties" and isinstance(value, dict):
            for name, inner in asked.items():
                if name in value:
                    yield from bearing(inner, value[name], pointer(place, name))
        elif keyword == "items" and isinstance(value, list):
            for item in value:
                yield from bearing(asked, item, place)
        elif keyword == "additionalProperties" and isinstance(value, dict):
            for name in value.keys() - schema.get("properties", {}).keys():
                yield from bearing(asked, value[name], place)


_NUMBER, _TEXT, _LIST, _OBJECT = (int, float, Decimal), (str,), (list,), (dict,)
_BEARS_ON: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), _TEXT),
    **dict.fromkeys(("contains", "minContains", "maxContains"), _LIST),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems"), _LIST),
    **dict.fromkeys(("required", "additionalProperties"), _OBJECT),
    **dict.fromkeys(("minProperties", "maxProperties", "propertyNames"), _OBJECT),
}


def sample_third(sample: str, output: Format, path: str, mode: Mode) -> str:
    """The third of a sample where the middle of a value is; ``whole`` for the root's."""
    if not path:
        return "whole"
    found = locate(sample, output, path, mode=mode)
    if found is None:
        return "unknown"
    return third(sum(found) // 2, len(sample))
