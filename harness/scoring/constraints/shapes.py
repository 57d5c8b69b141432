"""What a transformation gives, told from the grammar alone, and whether a target fits it.

A number, a text, or several of either: knowing which before any text is there
lets a constraint be refused where it is written, instead of failing (or passing
everything) where it is checked. "At least 'x' characters" never gets past here.

>>> outcome(ForEach(Count()), MANY_TEXTS, "the constraint")
Several(of='number')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.errors import DataInvalid
from harness.scoring.constraints.grammar import (
    LEVELS,
    Base,
    Combination,
    Constraint,
    Count,
    ForEach,
    Identity,
    Level,
    Measure,
    Position,
    Target,
    Transformation,
)
from harness.scoring.constraints.measuring import known


@dataclass(frozen=True, slots=True)
class Several:
    """Any number of values of one shape."""

    of: Shape


Shape: TypeAlias = Literal["number", "text"] | Several

MANY_TEXTS = Several("text")
ORDERINGS = ("<", ">", "<=", ">=")
COUNTED = ("at least", "at most", "exactly")


def outcome(transformation: Transformation, units: Shape, where: str) -> Shape:
    """The shape of what a transformation makes of units; a text is a row of characters.

    Raises: DataInvalid where it makes nothing of them.
    """
    if isinstance(transformation, Identity):
        return units
    if units == "number":
        raise DataInvalid(f"{where}: {_op(transformation)!r} makes nothing of a number.")
    unit: Shape = units.of if isinstance(units, Several) else "text"
    if isinstance(transformation, Count):
        if transformation.of is not None and unit != "text":
            raise DataInvalid(f"{where}: 'count' of {transformation.of!r} needs single units.")
        return "number"
    if isinstance(transformation, Measure):
        known(transformation.name, where)
        if unit != "text":
            raise DataInvalid(f"{where}: the measure {transformation.name!r} needs single units.")
        return "number"
    if isinstance(transformation, Position):
        if isinstance(transformation.index, int):
            return unit
        if not transformation.index:
            raise DataInvalid(f"{where}: 'position' has an empty list of indices.")
        return Several(unit)
    if isinstance(transformation, ForEach):
        return Several(outcome(transformation.do, unit, where))
    if outcome(transformation.do, units, where) != Several("number"):
        raise DataInvalid(
            f"{where}: 'max' and 'min' need several numbers, as for_each count gives."
        )
    return "number"


def _op(transformation: Transformation) -> str:
    return str(transformation.__struct_config__.tag)


def refuse_misfits(level: Level, constraint: Constraint, targets: Target, where: str) -> None:
    """Raise DataInvalid where a constraint does not fit its level or its targets."""
    if isinstance(constraint, Base):
        _refuse_base(level, constraint, targets, where)
        return
    _refuse_combination(level, constraint, targets, where)


def _refuse_combination(level: Level, tree: Combination, targets: Target, where: str) -> None:
    parts = tree.constraints
    if tree.logic != "all" and len(parts) < 2:
        raise DataInvalid(f"{where}: {tree.logic!r} needs at least two constraints.")
    if not isinstance(targets, tuple) or len(targets) != len(parts):
        given = len(targets) if isinstance(targets, tuple) else "no list"
        raise DataInvalid(
            f"{where}: {len(parts)} constraints need a list of {len(parts)} targets, not {given}."
        )
    for number, (part, target) in enumerate(zip(parts, targets, strict=True), start=1):
        refuse_misfits(level, part, target, f"{where}, constraint {number}")


def _refuse_base(level: Level, base: Base, target: Target, where: str) -> None:
    outer = base.input_level or base.target_level
    if LEVELS.index(outer) > LEVELS.index(level):
        raise DataInvalid(f"{where}: a {level} is not made of {outer}s.")
    if base.input_level and LEVELS.index(base.target_level) >= LEVELS.index(base.input_level):
        raise DataInvalid(f"{where}: a {base.input_level} is not made of {base.target_level}s.")
    units: Shape = Several(MANY_TEXTS) if base.input_level else MANY_TEXTS
    shape = outcome(base.transformation, units, where)

    counted = base.reduction in COUNTED
    if counted != (base.reduction_value is not None):
        raise DataInvalid(
            f"{where}: 'reduction_value' goes with the reductions {', '.join(COUNTED)},"
            " and with no other."
        )
    if counted and (base.reduction_value or 0) < 0:
        raise DataInvalid(f"{where}: 'reduction_value' is negative.")

    if base.reduction is None:
        _refuse_target(base, shape, target, where)
        if (
            isinstance(base.transformation, Position)
            and isinstance(base.transformation.index, tuple)
            and base.relation in ("==", "!=")
            and isinstance(target, tuple)
            and len(target) != len(base.transformation.index)
        ):
            raise DataInvalid(
                f"{where}: {len(base.transformation.index)} positions need as many targets, "
                f"not {len(target)}."
            )
        return
    if not isinstance(shape, Several):
        raise DataInvalid(f"{where}: a reduction needs several values, not one {shape}.")
    # A list of targets is met one by one, a single one by every value.
    each = target if isinstance(target, tuple) else (target,)
    if not each:
        raise DataInvalid(f"{where}: the list of targets is empty.")
    for part in each:
        _refuse_target(base, shape.of, part, where)


def _refuse_target(base: Base, shape: Shape, target: Target, where: str) -> None:
    """Whether the relation can hold between a value of this shape and this target."""
    if target == ():
        raise DataInvalid(f"{where}: the list of targets is empty.")
    if isinstance(shape, Several) and isinstance(shape.of, Several):
        raise DataInvalid(
            f"{where}: a list of lists needs a reduction, or a transformation of each."
        )
    if base.relation in ("in", "not in"):
        if shape == "number":
            raise DataInvalid(f"{where}: {base.relation!r} needs texts or a list, not a number.")
        wanted = shape.of if isinstance(shape, Several) else shape
        fits = all(
            _is(part, wanted) for part in (target if isinstance(target, tuple) else (target,))
        )
    elif isinstance(shape, Several):
        if base.relation in ORDERINGS:
            raise DataInvalid(
                f"{where}: {base.relation!r} compares numbers one by one: add a reduction."
            )
        wanted = shape.of
        fits = isinstance(target, tuple) and all(_is(part, wanted) for part in target)
    else:
        if base.relation in ORDERINGS and shape != "number":
            raise DataInvalid(f"{where}: {base.relation!r} compares numbers, not a {shape}.")
        wanted = shape
        # Published targets of a single constraint come in a list of one.
        fits = _is(target[0] if isinstance(target, tuple) and len(target) == 1 else target, wanted)
    if not fits:
        several = isinstance(shape, Several) and base.relation in ("==", "!=")
        raise DataInvalid(
            f"{where}: the target of {base.relation!r} must be a {'list of ' if several else ''}"
            f"{wanted}{'s' if several else ''}, not {target!r:.60}."
        )


def _is(target: Target, shape: Shape) -> bool:
    return isinstance(target, int if shape == "number" else str)
