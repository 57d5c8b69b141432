"""Checking a text: what each base constraint observes, and the verdict.

Every base constraint is looked at, also where the verdict is settled already:
feedback and details want all of them.

>>> check(three_words, "Snow fell overnight.").passed  # doctest: +SKIP
True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.plugins import calling
from harness.scoring.constraints.grammar import (
    Base,
    Constraint,
    Count,
    ForEach,
    Identity,
    Measure,
    Min,
    Position,
    Specification,
    Target,
    Transformation,
)
from harness.scoring.constraints.levels import Splitter, splitter
from harness.scoring.constraints.measuring import measure
from harness.scoring.constraints.relations import Observed, holds


@dataclass(frozen=True, slots=True)
class Finding:
    """What one base constraint found in a text."""

    base: Base
    target: Target
    observed: Observed
    passed: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a text satisfies a specification; findings from left to right."""

    passed: bool
    findings: tuple[Finding, ...]


def check(specification: Specification, text: str, units: Splitter | None = None) -> Verdict:
    """Check a text.

    units: how it is split; None takes the best splitter there is.
    """
    units = units or splitter()
    return judged(specification, (extract(base, text, units) for base, _ in specification.bases()))


def judged(specification: Specification, observed: Iterable[Observed]) -> Verdict:
    """The verdict on a text in which each base constraint, from left to right, observes this."""
    findings = tuple(
        Finding(base, target, found, satisfied(base, found, target))
        for (base, target), found in zip(specification.bases(), observed, strict=True)
    )
    passed = _passed(specification.constraint, iter(finding.passed for finding in findings))
    return Verdict(passed, findings)


def extract(base: Base, text: str, units: Splitter) -> Observed:
    """What a base constraint observes in a text, before any target is known."""
    if base.input_level is None:
        return _transformed(base.transformation, units.units(text, base.target_level))
    parts = units.units(text, base.input_level)
    inner = tuple([units.units(part, base.target_level) for part in parts])
    return _transformed(base.transformation, inner)


def satisfied(base: Base, observed: Observed, target: Target) -> bool:
    """Whether the observed value meets the target, by the base constraint's reduction.

    A list of targets needs as many values, or the constraint is not satisfied.
    """
    if base.reduction is None:
        return holds(base.relation, observed, target)
    held = outcomes(base, observed, target)
    if held is None:
        return False
    n = base.reduction_value or 0
    match base.reduction:
        case "all":
            return all(held)
        case "any":
            return any(held)
        case "none":
            return not any(held)
        case "at least":
            return sum(held) >= n
        case "at most":
            return sum(held) <= n
        case "exactly":
            return sum(held) == n


def outcomes(base: Base, observed: Observed, target: Target) -> list[bool] | None:
    """For each of several values, whether the relation holds; what a reduction reduces.

    A single target is for every value, a list is met one by one: None where
    there are not as many targets as values, or where there is no value at all.
    """
    if not isinstance(observed, tuple):  # the words of the ninth of five sentences
        return None
    targets = target if isinstance(target, tuple) else (target,) * len(observed)
    if len(observed) != len(targets):
        return None
    pairs = zip(observed, targets, strict=True)
    return [holds(base.relation, value, each) for value, each in pairs]


def _passed(constraint: Constraint, verdicts: Iterator[bool]) -> bool:
    """The verdict of a tree whose base constraints' verdicts come from left to right."""
    if isinstance(constraint, Base):
        return next(verdicts)
    parts = [_passed(part, verdicts) for part in constraint.constraints]
    return any(parts) if constraint.logic == "or" else all(parts)


def _transformed(transformation: Transformation, units: Observed) -> Observed:
    """Apply a transformation; a text is a row of characters, nothing gives nothing."""
    if isinstance(transformation, Identity) or units is None:
        return units
    assert not isinstance(units, int)  # `shapes` refuses anything else
    if isinstance(transformation, Count):
        if transformation.of is None:
            return len(units)
        return sum(unit == transformation.of for unit in units)
    if isinstance(transformation, Measure):
        with calling(f"The measure {transformation.name!r}"):
            return int(measure(transformation.name).number(_texts(units)))
    if isinstance(transformation, Position):
        if isinstance(transformation.index, int):
            return _at(units, transformation.index)
        return tuple([_at(units, index) for index in transformation.index])
    if isinstance(transformation, ForEach):
        return tuple([_transformed(transformation.do, unit) for unit in units])
    numbers = _transformed(transformation.do, units)
    assert isinstance(numbers, tuple)
    known = [number for number in numbers if isinstance(number, int)]
    if not known:
        return None
    return min(known) if isinstance(transformation, Min) else max(known)


def _texts(units: tuple[Observed, ...] | str) -> tuple[str, ...]:
    return tuple(unit for unit in units if isinstance(unit, str))


def _at(units: tuple[Observed, ...] | str, index: int) -> Observed:
    return units[index] if -len(units) <= index < len(units) else None
