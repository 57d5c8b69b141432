"""The audit of a data set in COLLIE's format: whether each instance is right, and how hard it is.

The reference answer must pass its own checker, its near misses must fail, and no constraint may
have duplicate, implied or contradictory parts: numbers are compared as ranges, texts as the checker
compares them. Difficulty is the share of natural texts that pass, whatever they were written for;
an instance that most of them satisfy is trivial.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from harness.builders.collie.near_misses import NearMisses, near_misses, texts_of
from harness.builders.workers import Workers
from harness.scoring.constraints.check import Observed, bare, check, extract, judged
from harness.scoring.constraints.grammar import (
    Base,
    Constraint,
    ForEach,
    Identity,
    Position,
    Specification,
    Target,
    read,
    write,
)
from harness.scoring.constraints.levels import splitter
from harness.scoring.constraints.render import clause
from harness.tasks.collie import CollieItem

Kind = Literal["duplicate", "implied", "contradictory"]
TRIVIAL = 0.5
"""An instance is trivial if at least this share of natural texts pass."""
TRIVIAL_PART = 0.95
"""The same for one of its base constraints."""
BACKGROUND = 40
"""Approximate number of natural texts per level (and source) that instances are checked against."""
PIECE = 200
"""Instances that a process audits at a time."""
INFINITY = float("inf")


def problems(specification: Specification) -> list[str]:
    """Return the problems of pairs of base constraints, as ``contradictory: … / …``."""
    pairs = _required(specification.constraint, specification.targets)
    return [
        f"{kind}: {clause(*one)} / {clause(*other)}"
        for one, other in combinations(pairs, 2)
        if (kind := _problem(*one, *other))
    ]


def _required(constraint: Constraint, targets: Target) -> Iterator[tuple[Base, Target]]:
    """Yield the base constraints outside of every ``or``, with their targets."""
    if isinstance(constraint, Base):
        yield constraint, targets
    elif constraint.logic != "or":
        assert isinstance(targets, tuple)
        for part, target in zip(constraint.constraints, targets, strict=True):
            yield from _required(part, target)


def _problem(one: Base, target: Target, other: Base, wanted: Target) -> Kind | None:
    if one == other and _same(target, wanted):
        return "duplicate"
    if _forbids(one, target, other, wanted) or _forbids(other, wanted, one, target):
        return "contradictory"
    if _measured(one) != _measured(other):
        return None
    first, second = _range(one, target), _range(other, wanted)
    if first is None or second is None:
        return "contradictory" if _excludes(one, target, other, wanted) else None
    low, high = max(first[0], second[0]), min(first[1], second[1])
    if low > high:
        return "contradictory"
    return "implied" if (low, high) in (first, second) else None


def _measured(base: Base) -> tuple[object, ...]:
    return base.input_level, base.target_level, base.transformation, base.reduction


def _range(base: Base, target: Target) -> tuple[float, float] | None:
    """Return the numbers that satisfy a base constraint, or None if they are not a range."""
    number = _sole(target)
    if not isinstance(number, int) or base.reduction not in (None, "all"):
        return None
    return {
        "==": (number, number),
        ">=": (number, INFINITY),
        ">": (number + 1, INFINITY),
        "<=": (-INFINITY, number),
        "<": (-INFINITY, number - 1),
    }.get(base.relation)


def _excludes(one: Base, target: Target, other: Base, wanted: Target) -> bool:
    """Return whether the values that two constraints require exclude each other."""
    relations = {one.relation, other.relation}
    if one.reduction not in (None, "all") or not relations <= {"==", "!="}:
        return False
    return "==" in relations and _same(target, wanted) == ("!=" in relations)


def _forbids(base: Base, target: Target, asking: Base, wanted: Target) -> bool:
    """Return whether one constraint forbids a unit that the other requires."""
    each = (ForEach(Identity()), Identity())
    if base.relation != "not in" or base.transformation not in each or base.reduction is not None:
        return False
    if asking.target_level != base.target_level or asking.reduction not in (None, "all"):
        return False
    done = asking.transformation
    at_a_place = isinstance(done.do if isinstance(done, ForEach) else done, Position)
    asks = asking.relation == "==" and at_a_place
    asks |= asking.relation == "in" and done in each and asking.reduction is None
    return asks and not set(map(bare, texts_of(target))).isdisjoint(map(bare, texts_of(wanted)))


def _sole(target: Target) -> Target:
    return target[0] if isinstance(target, tuple) and len(target) == 1 else target


def _same(one: Target, other: Target) -> bool:
    return bare(_sole(one)) == bare(_sole(other))


Background = Mapping[str, Mapping[str, Sequence[str]]]
"""Source -> level -> natural texts."""


class AuditRow(Struct, frozen=True):
    """An instance, in the format of the task ``collie``; ``constraint`` is in plain form."""

    id: str
    structure: str
    source: str
    level: str
    constraint: dict[str, Any]
    targets: Any
    prompt: str
    example: str | None
    metadata: dict[str, Any] = field(default_factory=dict)
    near_misses: tuple[str, ...] = ()

    @property
    def plain(self) -> dict[str, Any]:
        """Return the specification in plain form."""
        return {"level": self.level, "constraint": self.constraint, "targets": self.targets}


class Audited(Struct, frozen=True):
    """What the audit found about an instance: a line of ``audit.jsonl``.

    Attributes:
        passes: Whether the reference answer passes; None if there is none.
        near_misses: Texts that fail, each for a different base constraint.
        unbroken: Base constraints that no change of the reference answer violates.
        natural: Number of natural texts tried; ``share`` is the share of them that pass.
        trivial_parts: Base constraints that nearly all natural texts satisfy.
        same_as: The first instance with the same prompt and reference answer, if not this one.
    """

    id: str
    structure: str
    source: str
    passes: bool | None
    near_misses: tuple[str, ...]
    unbroken: tuple[str, ...]
    problems: tuple[str, ...]
    natural: int
    share: float | None
    trivial: bool
    trivial_parts: tuple[str, ...]
    same_as: str | None = None


def audit(
    rows: Sequence[AuditRow], background: Background, nltk_data: Path, workers: Workers
) -> list[Audited]:
    """Audit instances, in their order, against natural texts."""
    pieces = (rows[first : first + PIECE] for first in range(0, len(rows), PIECE))
    work = partial(_audit_piece, background, nltk_data)
    found = [one for part in workers.in_order(work, pieces) for one in part]
    first: dict[tuple[str, str | None], str] = {}
    same = [first.setdefault((row.prompt, row.example), row.id) for row in rows]
    return [
        one if one.id == other else replace(one, same_as=other)
        for one, other in zip(found, same, strict=True)
    ]


def audit_items(items: Iterable[CollieItem], nltk_data: Path, workers: Workers) -> list[Audited]:
    """Audit a data set; the natural texts are the other reference answers of the same level."""
    rows = []
    texts: dict[str, dict[str, None]] = defaultdict(dict)
    for one in items:
        plain = write(one.specification)
        rows.append(
            AuditRow(
                one.id, one.structure, one.source, **plain, prompt=one.prompt, example=one.example
            )
        )
        if one.example is not None:
            texts[one.specification.level][one.example] = None
    spread = {
        level: list(found)[:: max(1, len(found) // BACKGROUND)] for level, found in texts.items()
    }
    return audit(rows, dict.fromkeys({row.source for row in rows}, spread), nltk_data, workers)


def _audit_piece(
    background: Background, nltk_data: Path, rows: Sequence[AuditRow]
) -> list[Audited]:
    units = splitter(nltk_data)

    @cache  # a structure's instances differ in their targets alone
    def observe(base: Base, text: str) -> Observed:
        return extract(base, text, units)

    def audited(row: AuditRow) -> Audited:
        specification = read(row.plain, row.id)
        bases = list(specification.bases())
        clauses = [clause(base, target) for base, target in bases]
        reference = row.example
        passes = None if reference is None else check(specification, reference, units).passed
        missed = NearMisses((), ())
        if reference is not None and passes:
            missed = near_misses(specification, reference, units)
        verdicts = [
            judged(specification, (observe(base, text) for base, _ in bases))
            for text in background[row.source].get(row.level, ())
            if text != reference
        ]
        n = len(verdicts)
        share = sum(verdict.passed for verdict in verdicts) / n if n else None
        satisfied = [
            sum(verdict.findings[place].passed for verdict in verdicts)
            for place in range(len(bases))
        ]
        return Audited(
            id=row.id,
            structure=row.structure,
            source=row.source,
            passes=passes,
            near_misses=missed.texts,
            unbroken=tuple(clauses[place] for place in missed.unbroken),
            problems=tuple(problems(specification)),
            natural=n,
            share=share,
            trivial=share is not None and share >= TRIVIAL,
            trivial_parts=tuple(
                part
                for part, passing in zip(clauses, satisfied, strict=True)
                if n and passing / n >= TRIVIAL_PART
            ),
        )

    return [audited(row) for row in rows]
