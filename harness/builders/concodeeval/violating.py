"""Instances that break exactly one keyword, at one place.

The validator has the last word: what it says is broken is that keyword at that place and nothing
else. Where no such instance is found in bounded attempts, or where the keyword excludes nothing,
that is the answer.

>>> broken = violating({"type": "number", "exclusiveMaximum": 10}, "/exclusiveMaximum", Draws(0))
>>> broken.value, broken.violation
(10, Violation(path='', keyword='exclusiveMaximum', schema_path='/exclusiveMaximum'))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.builders.concodeeval.breaking import breaking, unbreakable
from harness.builders.concodeeval.targets import Target, replaced, targets
from harness.builders.concodeeval.valid import NoInstanceError, valid
from harness.builders.concodeeval.verdict import Verdicts, Violation
from harness.builders.draws import Draws
from harness.tasks.concodeeval.representations.schema import Schema

ATTEMPTS = 8
"""Valid instances that are tried to be broken."""


@dataclass(frozen=True, slots=True)
class Broken:
    """An instance and the one keyword it breaks."""

    value: Any
    violation: Violation


@dataclass(frozen=True, slots=True)
class Unbroken:
    """A keyword that was not broken alone, and why."""

    schema_path: str
    reason: str


def violating(
    schema: Schema, schema_path: str, draws: Draws, verdicts: Verdicts | None = None
) -> Broken | Unbroken:
    """An instance that breaks the keyword at a path of the schema, and no other."""
    for target in targets(schema):
        if target.schema_path == schema_path:
            return break_target(schema, target, draws, verdicts or Verdicts(schema))
    return Unbroken(schema_path, "the schema has no such keyword that an instance can break")


def break_target(
    schema: Schema, target: Target, draws: Draws, verdicts: Verdicts
) -> Broken | Unbroken:
    """An instance that breaks the target and nothing else."""
    if reason := unbreakable(target.schema, target.keyword):
        return Unbroken(target.schema_path, reason)
    for _ in range(ATTEMPTS):
        try:
            found = _attempt(schema, target, draws, verdicts)
        except NoInstanceError:
            continue
        if found:
            return found
    return Unbroken(
        target.schema_path, f"in {ATTEMPTS} attempts every instance that breaks it breaks another"
    )


def _attempt(schema: Schema, target: Target, draws: Draws, verdicts: Verdicts) -> Broken | None:
    base = valid(schema, draws, verdicts)
    candidates: list[Any] = []

    def collect(value: Any) -> Any:
        candidates.extend(breaking(target.schema, target.keyword, value, draws))
        return value

    whole, path = replaced(base, schema, target.route, collect, draws)
    for candidate in candidates:
        value = _put(whole, path, candidate)
        found = verdicts.violations(value)
        if found == [Violation(path, target.keyword, target.schema_path)]:
            return Broken(value, found[0])
    return None


def _put(value: Any, path: str, new: Any) -> Any:
    """The value with another one at a pointer."""
    if not path:
        return new
    token, *rest = path[1:].split("/", 1)
    below = f"/{rest[0]}" if rest else ""
    if isinstance(value, list):
        items = list(value)
        items[int(token)] = _put(items[int(token)], below, new)
        return items
    key = token.replace("~1", "/").replace("~0", "~")
    return {**value, key: _put(value[key], below, new)}
