"""Which schemas a provider rejects, by the keywords in them.

Providers hold decoding to parts of JSON Schema, each to others, and refuse the rest with an error
that tells of one keyword at a time. What is counted here is over all schemas of a run.

>>> features({"type": "array", "contains": {"format": "date"}})
('root: array', 'contains', 'format', 'format: date', 'type')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from harness.records import ConstraintKind, Outcome
from harness.store.index import AttemptIndex

REJECTED = "RequestRejected: "
"""How the error of an attempt begins whose request a provider refused."""

NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose members are names of the user's."""
DEEPEST = 100
MOST_MESSAGES = 1_000
LONGEST_MESSAGE = 300


class Feature(Struct, frozen=True):
    """A keyword (or root type, or format, or kind of constraint) and the instances that have it.

    n, n_rejected: instances whose constraint has it, and those of them that were rejected.
    """

    name: str
    n: int
    n_rejected: int


class Rejections(Struct, frozen=True):
    """What a provider rejected in a run.

    n, n_rejected: instances with a constraint.
    n_failed: those without an answer for other reasons: they tell nothing, and are in no count.
    features: those that are rejected most often first.
    messages: what the provider said, the most frequent first.
    """

    n: int
    n_rejected: int
    n_failed: int
    features: list[Feature]
    messages: dict[str, int]


class Asked(Struct, frozen=True):
    """The constraint on decoding of one instance's first attempt.

    Attributes:
        instance: the instance's name.
        kind: json_schema, regex and so on.
        value: the schema, the expression and so on.
        error: why there is no answer; None if there is one.
    """

    instance: str
    kind: ConstraintKind
    value: Any
    error: str | None


class _Decoding(Struct, gc=False):
    constraint: dict[ConstraintKind, Any] = {}


class _Request(Struct, gc=False):
    decoding: _Decoding = field(default_factory=_Decoding)


class _Line(Struct, gc=False):
    instance: str
    outcome: Outcome
    request: _Request
    error: str | None = None


def read_asked(index: AttemptIndex) -> Iterator[Asked]:
    """Yield the constraints of a run's first samples; nothing if decoding was not constrained.

    Raises:
        DataInvalid: A line is damaged.
        StoreFailed: The file cannot be read.
    """
    rows = index.in_order()
    first = (index.attempts.sample[rows] == 0) & (index.attempts.round[rows] == 1)
    for line in index.read(_Line, rows[first]):
        for kind, value in line.request.decoding.constraint.items():
            failed = line.error if line.outcome == "error" else None
            yield Asked(line.instance, kind, value, failed)


def rejections(asked: Iterable[Asked]) -> Rejections:
    """Count what was asked for and rejected, by feature."""
    having, rejected = Counter[str](), Counter[str]()
    messages = Counter[str]()
    n = n_failed = 0
    for one in asked:
        refused = one.error is not None and one.error.startswith(REJECTED)
        if one.error is not None and not refused:
            n_failed += 1
            continue
        n += 1
        found = features(one.value) if one.kind == "json_schema" else (one.kind,)
        having.update(found)
        if refused:
            rejected.update(found)
            said = str(one.error).removeprefix(REJECTED)[:LONGEST_MESSAGE]
            if said in messages or len(messages) < MOST_MESSAGES:
                messages[said] += 1
    listed = [Feature(name, count, rejected[name]) for name, count in having.items()]
    return Rejections(
        n=n,
        n_rejected=messages.total(),
        n_failed=n_failed,
        features=sorted(listed, key=lambda one: (-one.n_rejected / one.n, -one.n, one.name)),
        messages=dict(messages.most_common()),
    )


def features(schema: Any) -> tuple[str, ...]:
    """What a schema has: its root's type, each keyword anywhere in it, each format; once each."""
    root = schema.get("type", "any") if isinstance(schema, Mapping) else schema
    return (f"root: {root}", *sorted(set(_keywords(schema, 0))))


def _keywords(schema: Any, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
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
        elif keyword in NAMES and isinstance(value, Mapping):
            yield from _keywords(list(value.values()), depth + 1)
        elif keyword not in ("const", "enum", "default", "examples"):
            yield from _keywords(value, depth + 1)
