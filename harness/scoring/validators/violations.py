"""Violations of a schema by an answer, whichever engine found them; and the score."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from harness.records import Score, encodable
from harness.scoring import cut
from harness.scoring.validators.schemas import type_of

LONGEST_VALUE = 120
"""Characters of a value in a violation."""
LONGEST_REASON = 300
"""Characters of a score's reason."""
MOST_IN_REASON = 3
MOST_IN_DETAILS = 20
"""Violations that are kept one by one; their keywords are counted for all."""

_MESSAGES = {
    "type": "{found} is not of type {expected}",
    "required": "the member {expected} is missing",
    "additionalProperties": "members beyond the schema's: {found}",
    "unevaluatedProperties": "members beyond the schema's: {found}",
    "additionalItems": "more items than the schema has",
    "unevaluatedItems": "items beyond the schema's",
    "minimum": "{found} is less than {expected}",
    "exclusiveMinimum": "{found} is not more than {expected}",
    "maximum": "{found} is more than {expected}",
    "exclusiveMaximum": "{found} is not less than {expected}",
    "multipleOf": "{found} is no multiple of {expected}",
    "minLength": "{found} is shorter than {expected} characters",
    "maxLength": "{found} is longer than {expected} characters",
    "format": "{found} is no {expected}",
    "pattern": "{found} does not match {expected}",
    "minItems": "fewer than {expected} items",
    "maxItems": "more than {expected} items",
    "uniqueItems": "items come twice",
    "contains": "no item is as contains asks",
    "minContains": "fewer than {expected} items are as contains asks",
    "maxContains": "more than {expected} items are as contains asks",
    "minProperties": "fewer than {expected} members",
    "maxProperties": "more than {expected} members",
    "const": "{found} is not {expected}",
    "enum": "{found} is none of {expected}",
    "falseSchema": "nothing is allowed here",
    "anyOf": "{found} is as none of the alternatives asks",
    "oneOf": "{found} is not as exactly one of the alternatives asks",
    "not": "{found} is what it must not be",
}
"""Models are sent these as feedback: the wording does not change."""


class Violation(Struct, frozen=True):
    """A keyword that a value breaks (``falseSchema`` for a schema that is plain false).

    ``expected`` is the keyword's value as JSON and ``found`` the document's, both cut if long.
    ``path`` is a JSON pointer to the value and ``schema_path`` one to the keyword, with references
    followed; both are empty for the whole, ``schema_path`` also for a keyword of a meta-schema.
    """

    path: str
    keyword: str
    expected: str
    found: str
    schema_path: str = ""

    @property
    def message(self) -> str:
        """A short description, with the path."""
        form = _MESSAGES.get(self.keyword, "{keyword} is violated")
        text = form.format(keyword=self.keyword, expected=self.expected, found=self.found)
        return f"{self.path}: {text}" if self.path else text


def score(violations: Sequence[Violation]) -> Score:
    """Score a document with these violations."""
    if not violations:
        return Score(value=True, passed=True)
    first = [one.message for one in violations[:MOST_IN_REASON]]
    if len(violations) > MOST_IN_REASON:
        first.append(f"and {len(violations) - MOST_IN_REASON:,} more")
    shortened = violations[:MOST_IN_DETAILS]
    errors = [{name: cut(text, 200) for name, text in asdict(one).items()} for one in shortened]
    keywords = dict(Counter(one.keyword[:60] for one in violations))
    details = {"errors": errors, "keywords": keywords, "n_errors": len(violations)}
    return Score(False, False, cut("; ".join(first), LONGEST_REASON), details)


def root_type_violated(value: Any, schema: Any) -> bool:
    """Return whether a document's root is not of the schema's ``type``: the RTV% of ConCodeEval.

    Integer and float are one type. A schema without a type is never violated.
    """
    named = schema.get("type") if isinstance(schema, dict) else None
    if named is None:
        return False
    names = named if isinstance(named, (list, tuple)) else [named]
    return type_of(value) not in {"number" if name == "integer" else name for name in names}


def shown(value: Any, longest: int = LONGEST_VALUE) -> str:
    """Format a value as JSON on one line, writing no more of it than is shown."""
    pieces, length = [], 0
    for piece in _pieces(value, longest):
        pieces.append(piece)
        length += len(piece)
        if length > longest:
            break
    return cut(encodable("".join(pieces)), longest)


def _pieces(value: Any, longest: int) -> Iterator[str]:
    if isinstance(value, str):
        yield json.dumps(value[: longest + 1], ensure_ascii=False)
    elif isinstance(value, (dict, list, tuple)):
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        yield opening
        for number, key in enumerate(value):
            yield ", " if number else ""
            if isinstance(value, dict):
                yield json.dumps(key[: longest + 1] if isinstance(key, str) else str(key)) + ": "
            yield from _pieces(value[key] if isinstance(value, dict) else key, longest)
        yield closing
    elif value is None or isinstance(value, bool):
        yield json.dumps(value)
    elif isinstance(value, int) and value.bit_length() >= 10_000:
        yield "an integer of thousands of digits"  # Python writes at most 4,300
    else:
        yield str(value)[: longest + 1]
