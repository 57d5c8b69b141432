"""Finds what is wrong with a constraint in itself: duplicate, implied, or contradictory parts.

It examines the base constraints that must all hold. Numbers are compared as ranges, texts as the
checker compares them. A constraint without a known problem may still be impossible.

>>> [problem.kind for problem in problems(specification)]  # doctest: +SKIP
['contradictory']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

from harness.builders.collie.structure import Structure
from harness.builders.collie.targets import Rules, Sweep
from harness.errors import DataInvalid
from harness.scoring.constraints.check import Observed, bare
from harness.scoring.constraints.grammar import (
    Base,
    Combination,
    Constraint,
    Count,
    ForEach,
    Identity,
    Level,
    Position,
    Specification,
    Target,
)
from harness.scoring.constraints.render import clause

Kind = Literal["duplicate", "implied", "contradictory"]
INFINITY = float("inf")
MOST_TRIED = 10_000
"""Pairs of values of two sweeps."""

Pair = tuple[Base, Target]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, and the base constraints that cause it, in words."""

    kind: Kind
    clauses: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}: {' / '.join(self.clauses)}"


def problems(specification: Specification) -> list[Problem]:
    """Return the problems of single base constraints, then of pairs."""
    pairs = list(_required(specification.constraint, specification.targets))
    found = [Problem("contradictory", (clause(*one),)) for one in pairs if _is_below_nothing(one)]
    for one, other in combinations(pairs, 2):
        kind = _problem(one, other)
        if kind is not None:
            found.append(Problem(kind, (clause(*one), clause(*other))))
    return found


def refuse_impossible(structure: Structure) -> None:
    """Refuse a structure if each of its constraints contradicts itself.

    It examines the values that sweeps name: one part that is contradictory for each of its values,
    or two parts that contradict each other for each pair of values. Values taken from a text are
    satisfied by that text.

    Raises:
        DataInvalid: No text can satisfy the structure.
    """
    found = []
    for constraint in structure.constraints:
        swept = list(_swept(constraint, structure.rules))
        found.append(next(_contradictions(structure.level, swept), None))
    if found[0] is not None and None not in found:
        raise DataInvalid(
            f"No text can satisfy the structure {structure.name}: {found[0]}.",
            "Change the values of its targets.",
        )


def _swept(constraint: Constraint, rules: Rules) -> Iterator[tuple[Base, tuple[Target, ...]]]:
    """Yield the base constraints outside of every ``or`` whose values are named."""
    if isinstance(constraint, Base):
        if isinstance(rules, Sweep):
            yield constraint, rules.values
    elif constraint.logic != "or":
        assert isinstance(rules, tuple)
        for part, rule in zip(constraint.constraints, rules, strict=True):
            yield from _swept(part, rule)


def _contradictions(
    level: Level, parts: list[tuple[Base, tuple[Target, ...]]]
) -> Iterator[Problem]:
    for some in (*((one,) for one in parts), *combinations(parts, 2)):
        tree = Combination("all", tuple(base for base, _ in some))
        values = [values for _, values in some]
        if len(values[0]) * len(values[-1]) > MOST_TRIED:
            continue
        first: Problem | None = None
        for targets in product(*values):
            found = problems(Specification(level, tree, targets))
            contradiction = next((one for one in found if one.kind == "contradictory"), None)
            if contradiction is None:
                break
            first = first or contradiction
        else:
            if first is not None:
                yield first


def _required(constraint: Constraint, targets: Target) -> Iterator[Pair]:
    """Yield the base constraints outside of every ``or``, with their targets."""
    if isinstance(constraint, Base):
        yield constraint, targets
    elif constraint.logic != "or":
        assert isinstance(targets, tuple)
        for part, target in zip(constraint.constraints, targets, strict=True):
            yield from _required(part, target)


def _problem(one: Pair, other: Pair) -> Kind | None:
    if one[0] == other[0] and _same(one[1], other[1]):
        return "duplicate"
    for first, second in ((one, other), (other, one)):
        if _forbids(first, second) or _miscounts(first, second):
            return "contradictory"
    if _disagree_on_a_place(one, other):
        return "contradictory"
    if _measured(one[0]) != _measured(other[0]):
        return None
    ranges = _range(one), _range(other)
    if ranges[0] is None or ranges[1] is None:
        return "contradictory" if _excludes(one, other) else None
    low, high = max(ranges[0][0], ranges[1][0]), min(ranges[0][1], ranges[1][1])
    if low > high:
        return "contradictory"
    return "implied" if (low, high) in ranges else None


def _measured(base: Base) -> tuple[object, ...]:
    return base.input_level, base.target_level, base.transformation, base.reduction


def _range(pair: Pair) -> tuple[float, float] | None:
    """Return the range of numbers that satisfies a base constraint, or None if it is not a
    range.
    """
    base, target = pair
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


def _is_below_nothing(pair: Pair) -> bool:
    """Return whether a number of units would have to be negative."""
    wanted = _range(pair)
    return isinstance(_each(pair[0]), Count) and wanted is not None and wanted[1] < 0


def _excludes(one: Pair, other: Pair) -> bool:
    """Return whether one value would have to be two things, or one thing and not that thing."""
    (first, target), (second, wanted) = one, other
    if first.reduction not in (None, "all"):
        return False
    relations = {first.relation, second.relation}
    if relations == {"=="}:
        return not _same(target, wanted)
    return relations == {"==", "!="} and _same(target, wanted)


def _disagree_on_a_place(one: Pair, other: Pair) -> bool:
    """Return whether two base constraints require different texts at the same place."""
    if (one[0].input_level, one[0].target_level) != (other[0].input_level, other[0].target_level):
        return False
    first, second = _places(one), _places(other)
    return any(not _same(first[index], second[index]) for index in first.keys() & second.keys())


def _places(pair: Pair) -> dict[int, Target]:
    """Map each index to the unit that must be there."""
    base, target = pair
    position = base.transformation
    if not isinstance(position, Position) or base.relation != "==":
        return {}
    if base.reduction not in (None, "all"):
        return {}
    if isinstance(position.index, int):
        return {position.index: target}
    if not isinstance(target, tuple):  # each of them
        return dict.fromkeys(position.index, target)
    if len(target) != len(position.index):
        return {}
    return dict(zip(position.index, target, strict=True))


def _forbids(pair: Pair, other: Pair) -> bool:
    """Return whether one constraint forbids a unit that the other requires."""
    base, target = pair
    if base.relation != "not in" or not _is_units(base) or base.reduction is not None:
        return False
    forbidden = set(_bare_texts(target))
    asking, wanted = other
    if asking.target_level != base.target_level or asking.reduction not in (None, "all"):
        return False
    asks = asking.relation == "==" and isinstance(_each(asking), Position)
    asks |= asking.relation == "in" and _is_units(asking) and asking.reduction is None
    return asks and not forbidden.isdisjoint(_bare_texts(wanted))


def _miscounts(pair: Pair, other: Pair) -> bool:
    """Return whether a number of units contradicts the units that the other constraint requires."""
    base, _ = pair
    counted = _range(pair)
    if base.transformation != Count() or base.input_level or counted is None:
        return False
    asking, target = other
    if asking.relation != "==":
        return False
    position = asking.transformation
    if (
        isinstance(position, Position)
        and asking.input_level is None
        and asking.target_level == base.target_level
    ):
        indices = position.index if isinstance(position.index, tuple) else (position.index,)
        needed = max(index + 1 if index >= 0 else -index for index in indices)
        return counted[1] < needed
    if asking.reduction == "all" and asking.input_level == base.target_level:
        listed = isinstance(target, tuple) and isinstance(asking.transformation, ForEach)
        return listed and not counted[0] <= len(_parts(target)) <= counted[1]
    return False


def _is_units(base: Base) -> bool:
    return base.transformation in (ForEach(Identity()), Identity())


def _each(base: Base) -> object:
    """Return what is done to the text, or to each of its parts."""
    done = base.transformation
    return done.do if isinstance(done, ForEach) else done


def _parts(target: Target) -> tuple[Target, ...]:
    return target if isinstance(target, tuple) else (target,)


def _sole(target: Target) -> Target:
    return target[0] if isinstance(target, tuple) and len(target) == 1 else target


def _same(one: Target, other: Target) -> bool:
    return _bared(_sole(one)) == _bared(_sole(other))


def _bared(target: Target) -> Observed:
    return tuple(map(_bared, target)) if isinstance(target, tuple) else bare(target)


def _bare_texts(target: Target) -> Iterator[str]:
    for part in _parts(target):
        if isinstance(part, tuple):
            yield from _bare_texts(part)
        elif isinstance(part, str):
            yield str(bare(part))
