"""The targets of a structure, taken from a text that then satisfies them.

>>> found = extract(structure, "Snow fell on the old pond.", splitter(), seed=0)  # doctest: +SKIP
>>> check(found, "Snow fell on the old pond.").passed  # doctest: +SKIP
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from harness.builders.collie.structure import Rules, Structure
from harness.builders.collie.target_rules import Sweep, options
from harness.builders.draws import Draws
from harness.scoring.constraints import check
from harness.scoring.constraints.grammar import Base, Combination, Constraint, Specification, Target
from harness.scoring.constraints.levels import Splitter

Options: TypeAlias = "list[Target] | tuple[Options, ...]"
"""For each base constraint the targets that a text satisfies, in lists like the tree."""


def extract(structure: Structure, text: str, units: Splitter, seed: int) -> Specification | None:
    """One specification that the text satisfies, drawn from those there are; None where none is.

    The draw depends on the seed, the structure's name and the text, and on nothing else.
    """

    made: list[Draws] = []

    def draws() -> Draws:  # most texts give no target, and need none
        if not made:
            made.append(Draws(seed, "targets", structure.name, text))
        return made[0]

    constraints = structure.constraints
    if len(constraints) > 1:
        constraints = tuple(draws().shuffled(constraints))
    for constraint in constraints:
        found = satisfying(constraint, structure.rules, text, units, draws)
        if found is not None:
            return Specification(structure.level, constraint, _drawn(constraint, found, draws))
    return None


def satisfying(
    constraint: Constraint, rules: Rules, text: str, units: Splitter, draws: Callable[[], Draws]
) -> Options | None:
    """The targets that a text satisfies, for each base constraint; None where it cannot.

    Of an ``or``, one part must be satisfied; the others may get any value that their sweeps name.
    """
    if isinstance(constraint, Base):
        assert not isinstance(rules, tuple)
        observed = check.extract(constraint, text, units)
        return options(rules, constraint, observed, draws) or None
    assert isinstance(rules, tuple)
    parts: list[Options] = []
    any_satisfied = False
    for part, rule in zip(constraint.constraints, rules, strict=True):
        found = satisfying(part, rule, text, units, draws)
        any_satisfied |= found is not None
        if found is None and constraint.logic == "or":
            found = _named(rule)
        if found is None:
            return None
        parts.append(found)
    return tuple(parts) if any_satisfied else None


def _named(rules: Rules) -> Options | None:
    """Every value that sweeps name, whatever the text; None where one is to be taken from it."""
    if isinstance(rules, Sweep):
        return list(rules.values)
    if not isinstance(rules, tuple):
        return None
    parts = [_named(rule) for rule in rules]
    return None if None in parts else tuple(part for part in parts if part is not None)


def _drawn(constraint: Constraint, found: Options, draws: Callable[[], Draws]) -> Target:
    if isinstance(found, list):
        return found[0] if len(found) == 1 else draws().choice(found)
    assert isinstance(constraint, Combination)
    pairs = zip(constraint.constraints, found, strict=True)
    return tuple(_drawn(part, options_, draws) for part, options_ in pairs)
