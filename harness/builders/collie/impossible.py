"""Structures that no text can satisfy, told before a corpus is read.

Looked at are the values that sweeps name: two parts that contradict each other whichever of them
is taken, or one that does so alone. What is taken from a text is satisfied by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from harness.builders.collie.consistency import Problem, problems
from harness.builders.collie.structure import Rules, Structure
from harness.builders.collie.target_rules import Sweep
from harness.errors import DataInvalid
from harness.scoring.constraints.grammar import (
    Base,
    Combination,
    Constraint,
    Level,
    Specification,
    Target,
)

MOST_TRIED = 10_000
"""Values of two sweeps together."""

Swept = tuple[Base, tuple[Target, ...]]


def refuse_impossible(structure: Structure) -> None:
    """Refuse a structure of which every constraint contradicts itself.

    Raises: DataInvalid.
    """
    found = [
        next(_contradictions(structure.level, list(_swept(constraint, structure.rules))), None)
        for constraint in structure.constraints
    ]
    if found[0] is not None and None not in found:
        raise DataInvalid(
            f"No text can satisfy the structure {structure.name}: {found[0]}.",
            "Change the values of its targets.",
        )


def _swept(constraint: Constraint, rules: Rules) -> Iterator[Swept]:
    """The base constraints outside of every ``or`` whose values are named."""
    if isinstance(constraint, Base):
        if isinstance(rules, Sweep):
            yield constraint, rules.values
    elif constraint.logic != "or":
        assert isinstance(rules, tuple)
        for part, rule in zip(constraint.constraints, rules, strict=True):
            yield from _swept(part, rule)


def _contradictions(level: Level, parts: list[Swept]) -> Iterator[Problem]:
    for some in (*((one,) for one in parts), *combinations(parts, 2)):
        tree = Combination("all", tuple(base for base, _ in some))
        values = [values for _, values in some]
        if len(values[0]) * len(values[-1]) > MOST_TRIED:
            continue
        first: Problem | None = None
        for targets in product(*values):
            contradiction = _contradiction(Specification(level, tree, targets))
            if contradiction is None:
                break
            first = first or contradiction
        else:
            if first is not None:
                yield first


def _contradiction(specification: Specification) -> Problem | None:
    found = problems(specification)
    return next((problem for problem in found if problem.kind == "contradictory"), None)
