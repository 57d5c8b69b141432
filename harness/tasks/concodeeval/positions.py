"""Where constraints stand in a prompted schema, and which of them a sample breaks, and where.

As in ConCodeEval's analysis of where models fail: the third of the schema's text that holds the
violated keyword, and the third of the sample that holds what violates it.

>>> Constraints.of({"type": "string", "maxLength": 5}, "json", "corrected").thirds["/maxLength"]
'last'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.scoring.validators import Format, Mode, Violation, place, third
from harness.tasks.concodeeval.representations import (
    Representation,
    Schema,
    Wording,
    keywords,
    render,
    spans,
)

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


def constraints_met(
    constraints: Constraints,
    violations: Sequence[Violation],
    sample: str,
    output: Format,
    mode: Mode,
) -> list[dict[str, Any]]:
    """Each constraint with whether the sample keeps it, for `harness.store.findings`."""
    broken: dict[str, Violation] = {}
    for found in violations:
        broken.setdefault(found.schema_path, found)
    told = []
    for at in [*constraints.kinds, *(at for at in broken if at not in constraints.kinds)]:
        violation = broken.get(at)
        entry: dict[str, Any] = {
            "constraint": constraints.texts.get(at, at),
            "kind": constraints.kinds[at] if violation is None else violation.keyword,
            "passed": violation is None,
        }
        groups = {"schema_third": constraints.thirds[at]} if at in constraints.thirds else {}
        if violation is not None:
            entry["reason"] = violation.message[:LONGEST]
            groups["output_third"] = sample_third(sample, output, violation.path, mode)
        told.append({**entry, "groups": groups})
    return told


def sample_third(sample: str, output: Format, path: str, mode: Mode) -> str:
    """The third of a sample where the middle of a value is; ``whole`` for the root's."""
    if not path:
        return "whole"
    found = place(sample, output, path, mode=mode)
    if found is None:
        return "unknown"
    return third(sum(found) // 2, len(sample))
