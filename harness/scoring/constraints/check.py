"""Checks a text: what each base constraint observes, and the verdict.

Texts are compared without case and without the punctuation around them ("Bird," is "bird"), unless
nothing else is left. A missing value (the ninth of five words) has no order and equals nothing.
"""

from __future__ import annotations

import hashlib
import inspect
import operator
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias

from harness.plugins import calling
from harness.scoring.constraints.grammar import (
    Base,
    Constraint,
    Count,
    ForEach,
    Identity,
    Max,
    MeasureOp,
    Min,
    Position,
    Reduction,
    Relation,
    Specification,
    Target,
    Transformation,
    measure,
    measure_name,
)
from harness.scoring.constraints.levels import Splitter, splitter

Observed: TypeAlias = "int | str | tuple[Observed, ...] | None"
"""The result of a transformation; None if there is nothing at a position."""

_MARKS = string.punctuation + " "
_ORDERS = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}
_REDUCTIONS: dict[Reduction, Callable[[int, int, int], bool]] = {
    "all": lambda held, of, n: held == of,
    "any": lambda held, of, n: held > 0,
    "none": lambda held, of, n: held == 0,
    "at least": lambda held, of, n: held >= n,
    "at most": lambda held, of, n: held <= n,
    "exactly": lambda held, of, n: held == n,
}


@dataclass(frozen=True, slots=True)
class ConstraintFinding:
    """What one base constraint found in a text."""

    base: Base
    target: Target
    observed: Observed
    passed: bool


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a text satisfies a specification, with the findings from left to right."""

    passed: bool
    findings: tuple[ConstraintFinding, ...]


def check(specification: Specification, text: str, units: Splitter | None = None) -> CheckResult:
    """Check a text, split by ``units`` or else by the best splitter, against every constraint."""
    units = units or splitter()
    return judged(specification, (extract(base, text, units) for base, _ in specification.bases()))


def judged(specification: Specification, observed: Iterable[Observed]) -> CheckResult:
    """Return the result, given what each base constraint observed, from left to right."""
    findings = tuple(
        ConstraintFinding(base, target, found, satisfied(base, found, target))
        for (base, target), found in zip(specification.bases(), observed, strict=True)
    )
    passed = _passed(specification.constraint, iter(finding.passed for finding in findings))
    return CheckResult(passed, findings)


def extract(base: Base, text: str, units: Splitter) -> Observed:
    """Return what a base constraint observes in a text, whatever its target."""
    if base.input_level is None:
        return _transformed(base.transformation, units.units(text, base.target_level))
    parts = units.units(text, base.input_level)
    inner = tuple([units.units(part, base.target_level) for part in parts])
    return _transformed(base.transformation, inner)


def satisfied(base: Base, observed: Observed, target: Target) -> bool:
    """Whether the observed value meets the target; a list of targets needs as many values."""
    if base.reduction is None:
        return holds(base.relation, observed, target)
    held = outcomes(base, observed, target)
    if held is None:
        return False
    return _REDUCTIONS[base.reduction](sum(held), len(held), base.reduction_value or 0)


def outcomes(base: Base, observed: Observed, target: Target) -> list[bool] | None:
    """Return, for each of several values, whether the relation holds: the input of a reduction.

    A single target applies to every value, a list item by item. None if the numbers of targets and
    values differ, or there is no value.
    """
    if not isinstance(observed, tuple):  # the words of the ninth of five sentences
        return None
    targets = target if isinstance(target, tuple) else (target,) * len(observed)
    if len(observed) != len(targets):
        return None
    pairs = zip(observed, targets, strict=True)
    return [holds(base.relation, value, each) for value, each in pairs]


def _passed(constraint: Constraint, verdicts: Iterator[bool]) -> bool:
    """Return the verdict of a tree, given its base constraints' verdicts from left to right."""
    if isinstance(constraint, Base):
        return next(verdicts)
    parts = [_passed(part, verdicts) for part in constraint.constraints]
    return any(parts) if constraint.logic == "or" else all(parts)


def _transformed(transformation: Transformation, units: Observed) -> Observed:
    """Apply a transformation. A text is a sequence of characters; a missing value stays missing."""
    if isinstance(transformation, Identity) or units is None:
        return units
    assert not isinstance(units, int)  # `grammar.read` refuses anything else
    match transformation:
        case Count(of=None):
            return len(units)
        case Count(of=unit):
            return sum(one == unit for one in units)
        case MeasureOp(name=name):
            with calling(f"The measure {name!r}"):
                texts = tuple(unit for unit in units if isinstance(unit, str))
                return int(measure(name).number(texts))
        case Position(index=index):
            if isinstance(index, int):
                return _at(units, index)
            return tuple([_at(units, one) for one in index])
        case ForEach(do=do):
            return tuple([_transformed(do, unit) for unit in units])
        case Min(do=do) | Max(do=do):
            numbers = _transformed(do, units)
            assert isinstance(numbers, tuple)
            known = [number for number in numbers if isinstance(number, int)]
            extreme = min if isinstance(transformation, Min) else max
            return extreme(known, default=None)


def _at(units: tuple[Observed, ...] | str, index: int) -> Observed:
    return units[index] if -len(units) <= index < len(units) else None


def holds(relation: Relation, observed: Observed, target: Target) -> bool:
    """Return whether a relation holds.

    ``in``: the observed text or list contains the target, or all of several. ``not in``: it
    contains none of them.
    """
    if relation in ("in", "not in"):
        wanted = target if isinstance(target, tuple) else (target,)
        contained = [observed is not None and _contains(observed, part) for part in wanted]
        return all(contained) if relation == "in" else not any(contained)
    if isinstance(target, tuple) and len(target) == 1 and not isinstance(observed, tuple):
        target = target[0]
    if relation not in _ORDERS:
        return (bare(observed) == bare(target)) is (relation == "==")
    if not isinstance(observed, int) or not isinstance(target, int):
        return False
    return bool(_ORDERS[relation](observed, target))


def bare(value: Observed) -> Observed:
    """Return a text, or each of a list, in lower case and without the punctuation around it."""
    if isinstance(value, str):
        stripped = value.lower().strip(_MARKS)
        return stripped or value
    return _all_bare(value) if isinstance(value, tuple) else value


@lru_cache(maxsize=128)  # several "does not contain the word …" on one text
def _all_bare(values: tuple[Observed, ...]) -> tuple[Observed, ...]:
    return tuple([bare(value) if isinstance(value, str) else value for value in values])


def _contains(observed: Observed, target: Target) -> bool:
    haystack, needle = bare(observed), bare(target)
    if isinstance(haystack, str):
        return isinstance(needle, str) and needle in haystack
    return isinstance(haystack, tuple) and needle in haystack


def fingerprints(specification: Specification) -> Iterator[tuple[str, str]]:
    """Yield the measures that a specification uses, each with a hash of its code."""
    for base, _ in specification.bases():
        name = measure_name(base)
        if name is not None:
            yield name, _code_sha256(name)


@cache
def _code_sha256(name: str) -> str:
    try:
        code = inspect.getsource(type(measure(name)))
    except (OSError, TypeError):  # it has no file
        return "unknown"
    return hashlib.sha256(code.encode()).hexdigest()
