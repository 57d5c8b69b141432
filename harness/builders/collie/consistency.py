"""Finds what is wrong with a constraint in itself: duplicate, implied, or contradictory parts.

It examines the base constraints that must all hold. Numbers are compared as ranges, texts as the
checker compares them. A constraint without a known problem may still be impossible.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Literal

from harness.scoring.constraints.check import bare
from harness.scoring.constraints.grammar import (
    Base,
    Constraint,
    ForEach,
    Identity,
    Position,
    Specification,
    Target,
)
from harness.scoring.constraints.render import clause

Kind = Literal["duplicate", "implied", "contradictory"]
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
    """Return whether one value would have to be two things, or one thing and not that thing."""
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
    return asks and not set(_bare_texts(target)).isdisjoint(_bare_texts(wanted))


def _sole(target: Target) -> Target:
    return target[0] if isinstance(target, tuple) and len(target) == 1 else target


def _same(one: Target, other: Target) -> bool:
    return bare(_sole(one)) == bare(_sole(other))


def _bare_texts(target: Target) -> Iterator[str]:
    if isinstance(target, tuple):
        for part in target:
            yield from _bare_texts(part)
    elif isinstance(target, str):
        yield str(bare(target))
