"""Decoding constraints that a provider rejects.

Providers support different parts of JSON Schema for constrained decoding, and reject the rest with
an error that names one keyword at a time. This counts over all schemas of a run.

>>> features({"type": "array", "contains": {"format": "date"}})
('root: array', 'contains', 'format', 'format: date', 'type')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from harness.records import Outcome
from harness.store.index import AttemptIndex

REJECTED = "RequestRejected: "
"""How the error of an attempt begins if the provider rejected its request."""

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords of JSON Schema whose members are the user's names."""
MAX_DEPTH = 100
MAX_MESSAGE_LENGTH = 300


class Feature(Struct, frozen=True):
    """A keyword (or root type, format, or kind of constraint), and how many instances have it."""

    name: str
    n: int
    n_rejected: int


class Rejections(Struct, frozen=True):
    """What a provider rejected in a run; the most often rejected features and messages first.

    Of n instances with a constraint, n_rejected were rejected. The n_failed without an answer for
    other reasons are excluded from all counts.
    """

    n: int
    n_rejected: int
    n_failed: int
    features: list[Feature]
    messages: dict[str, int]


class _Decoding(Struct, frozen=True, gc=False):
    constraint: dict[str, Any] = {}


class _Request(Struct, gc=False):
    decoding: _Decoding = _Decoding()


class _Asked(Struct, gc=False):
    outcome: Outcome
    request: _Request
    error: str | None = None


def read_asked(index: AttemptIndex) -> Iterator[tuple[str, Any, str | None]]:
    """Yield the decoding constraints of round 1 of each instance's first sample.

    Each is its kind (json_schema, regex …), its value, and why there is no answer, None if there
    is one.
    """
    rows = index.in_order()
    first = (index.attempts.sample[rows] == 0) & (index.attempts.round[rows] == 1)
    for line in index.read(_Asked, rows[first]):
        for kind, value in line.request.decoding.constraint.items():
            yield kind, value, line.error if line.outcome == "error" else None


def rejections(asked: Iterable[tuple[str, Any, str | None]]) -> Rejections:
    """Count requested and rejected constraints (`read_asked`), by feature."""
    having, rejected, messages = Counter[str](), Counter[str](), Counter[str]()
    n = n_failed = 0
    for kind, value, error in asked:
        if error is not None and not error.startswith(REJECTED):
            n_failed += 1
            continue
        n += 1
        found = features(value) if kind == "json_schema" else (kind,)
        having.update(found)
        if error is not None:
            rejected.update(found)
            messages[error.removeprefix(REJECTED)[:MAX_MESSAGE_LENGTH]] += 1
    listed = [Feature(name, count, rejected[name]) for name, count in having.items()]
    return Rejections(
        n=n,
        n_rejected=messages.total(),
        n_failed=n_failed,
        features=sorted(listed, key=lambda one: (-one.n_rejected / one.n, -one.n, one.name)),
        messages=dict(messages.most_common()),
    )


def features(schema: Any) -> tuple[str, ...]:
    """A schema's features: its root type, each keyword anywhere in it, each format; once each."""
    root = schema.get("type", "any") if isinstance(schema, Mapping) else schema
    return (f"root: {root}", *sorted(set(_keywords(schema, 0))))


def _keywords(schema: Any, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        return
    if isinstance(schema, list):
        for one in schema:
            yield from _keywords(one, depth + 1)
    if not isinstance(schema, Mapping):
        return
    for keyword, value in schema.items():
        yield str(keyword)
        if keyword == "format":
            yield f"format: {value}"
        elif keyword in NAMED and isinstance(value, Mapping):
            yield from _keywords(list(value.values()), depth + 1)
        elif keyword not in ("const", "enum", "default", "examples"):
            yield from _keywords(value, depth + 1)
