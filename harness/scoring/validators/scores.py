"""A document's score against its schema: valid or not, and what it violates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from harness.records import Score
from harness.scoring.validators.documents import Format, Mode, read
from harness.scoring.validators.drafts import Draft
from harness.scoring.validators.schemas import Undecided
from harness.scoring.validators.validator import validator
from harness.scoring.validators.violations import Violation

LONGEST_REASON = 300
"""Characters."""
MOST_IN_REASON = 3
MOST_IN_DETAILS = 20
"""Violations that are kept one by one; their keywords are counted for all."""


def score_document(
    text: str,
    schema: Any,
    *,
    format: Format = "json",
    mode: Mode = "strict",
    draft: Draft = "2020-12",
) -> Mapping[str, Score]:
    """Read an answer and validate it: the score ``valid``.

    Its value is None where no verdict can be had in a bounded time: that is no 0.

    Raises: Unreadable (an Unparseable) where the text is no document of the format; DataInvalid
        where the schema is none.

    >>> score_document('{"a": 5}', {"properties": {"a": {"maximum": 3}}})["valid"].reason
    '/a: 5 is more than 3'
    """
    compiled = validator(schema, mode=mode, draft=draft)
    value = read(text, format, mode=mode, schema=schema)
    try:
        return {"valid": score(compiled.violations(value))}
    except Undecided as error:
        return {"valid": Score(value=None, reason=str(error)[:LONGEST_REASON])}


def score(violations: Sequence[Violation]) -> Score:
    """The score of what was found."""
    if not violations:
        return Score(value=True, passed=True)
    first = [one.message for one in violations[:MOST_IN_REASON]]
    if len(violations) > MOST_IN_REASON:
        first.append(f"and {len(violations) - MOST_IN_REASON:,} more")
    reason = "; ".join(first)
    return Score(
        value=False,
        passed=False,
        reason=reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 1]}…",
        details={
            "errors": [_cut(asdict(one)) for one in violations[:MOST_IN_DETAILS]],
            "keywords": dict(Counter(one.keyword[:60] for one in violations)),
            "n_errors": len(violations),
        },
    )


def _cut(fields: dict[str, str]) -> dict[str, str]:
    return {name: text if len(text) <= 200 else f"{text[:199]}…" for name, text in fields.items()}
