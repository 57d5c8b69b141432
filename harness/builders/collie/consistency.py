"""Finds what is wrong with a constraint in itself: duplicate, implied, or contradictory parts.

It examines the base constraints that must all hold. Numbers are compared as ranges, texts as the
checker compares them. A constraint without a known problem may still be impossible.

>>> [problem.kind for problem in problems(specification)]  # doctest: +SKIP
['contradictory']
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any, Literal, NamedTuple

from harness.builders.collie.structure import Structure
from harness.builders.collie.targets import Sweep
from harness.errors import DataInvalid
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
MOST_TRIED = 10_000
"""Pairs of values of two sweeps."""


class Problem(NamedTuple):
    """A problem, and the base constraints that cause it, in words."""

    kind: Kind
    clauses: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.kind}: {' / '.join(self.clauses)}"


def problems(specification: Specification) -> list[Problem]:
    """Return the problems of pairs of base constraints."""
    found = []
    pairs = _required(specification.constraint, specification.targets)
    for one, other in combinations(pairs, 2):
        kind = _problem(*one, *other)
        if kind is not None:
            found.append(Problem(kind, (clause(*one), clause(*other))))
    return found


def refuse_impossible(structure: Structure) -> None:
    """Refuse a structure if two parts of each of its constraints contradict each other.

    Only values that sweeps name are examined: those taken from a text are satisfied by that text.

    Raises:
        DataInvalid: No text can satisfy the structure.
    """
    found = [_contradiction(one, structure.rules) for one in structure.constraints]
    if found[0] is not None and None not in found:
        raise DataInvalid(
            f"No text can satisfy the structure {structure.name}: {found[0]}.",
            "Change the values of its targets.",
        )


def _contradiction(constraint: Constraint, rules: Any) -> Problem | None:
    """Return the first two parts that contradict each other for all values of their sweeps."""
    swept = [(b, rule.values) for b, rule in _required(constraint, rules) if type(rule) is Sweep]
    for (one, values), (other, others) in combinations(swept, 2):
        targets = product(values, others) if len(values) * len(others) <= MOST_TRIED else ()
        kinds = {_problem(one, target, other, wanted) for target, wanted in targets}
        if kinds == {"contradictory"}:
            return Problem("contradictory", (clause(one, values[0]), clause(other, others[0])))
    return None


def _required(constraint: Constraint, targets: Any) -> Iterator[tuple[Base, Any]]:
    """Yield the base constraints outside of every ``or``, with their targets (or rules)."""
    if isinstance(constraint, Base):
        yield constraint, targets
    elif constraint.logic != "or":
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
