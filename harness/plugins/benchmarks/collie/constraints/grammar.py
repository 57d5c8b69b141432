"""The constraint grammar: typed objects, conversion from and to plain data, and validation.

A `Specification` has a tree of constraints, their targets (in lists nested like the tree), and the
level of the text to generate. `read` accepts untrusted data. It refuses unknown keys and
operations, oversized trees, and constraints that cannot be checked or cannot fail or pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from harness import ports
from harness.errors import ConfigError, DataInvalid
from harness.plugin_interface import wrap_errors
from harness.plugin_loader import kind
from harness.scoring.validators.limits import UnparseableDocument, check_json

Level: TypeAlias = Literal["character", "word", "sentence", "paragraph", "passage"]
"""The kinds of text to generate, from the smallest to the largest."""
Unit: TypeAlias = Literal["character", "word", "sentence", "paragraph"]
"""The units that text can be split into."""
Relation: TypeAlias = Literal["==", "!=", "<", ">", "<=", ">=", "in", "not in"]
Reduction: TypeAlias = Literal["all", "any", "none", "at least", "at most", "exactly"]
Target: TypeAlias = "int | str | tuple[Target, ...]"

_Form = TypeVar("_Form")
LEVELS: tuple[Level, ...] = get_args(Level)

_CONTAINING = ("in", "not in")
_ORDERINGS = ("<", ">", "<=", ">=")
_COUNTED = ("at least", "at most", "exactly")


class _Operation(Struct, frozen=True, tag_field="op", forbid_unknown_fields=True):
    """Base class of operations on units."""


class Count(_Operation, frozen=True, tag="count"):
    """The number of units or, if ``of`` is set, of units equal to it, ignoring case and periods."""

    of: str | None = None


class Position(_Operation, frozen=True, tag="position"):
    """The unit at an index (from 0, or negative from the end), or the units at several indices."""

    index: int | tuple[int, ...]


class ForEach(_Operation, frozen=True, tag="for_each"):
    """The results of ``do`` for each unit."""

    do: Transformation


class Max(_Operation, frozen=True, tag="max"):
    """The largest of the numbers that ``do`` computes from the units."""

    do: Transformation


class Min(_Operation, frozen=True, tag="min"):
    """The smallest of the numbers that ``do`` computes from the units."""

    do: Transformation


class MeasureOp(_Operation, frozen=True, tag="measure"):
    """The number that the plug-in ``name`` computes from the units."""

    name: str


class Identity(_Operation, frozen=True, tag="identity"):
    """The units themselves, unchanged."""


UNCHANGED = (Identity(), ForEach(Identity()))
"""Operations whose result is the units themselves."""


Transformation: TypeAlias = Count | Position | ForEach | Max | Min | MeasureOp | Identity


def listed(target: Target) -> tuple[Target, ...]:
    """Return the items of a list, or a single value as the only item."""
    return target if isinstance(target, tuple) else (target,)


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    """One unit of the text, given by its kind and its index from 0 (negative: from the end)."""

    level: Unit
    index: int


class Base(Struct, frozen=True, forbid_unknown_fields=True):
    """A base constraint (COLLIE, equation 4) on the text, or on the part that ``within`` names.

    The text is split into units of ``input_level``, if set, and then of ``target_level``. The
    transformation computes a value from the units, and the relation compares it with the target. If
    there are several values, a reduction combines their verdicts into one. ``reduction_value`` is
    the number in "at least", "at most" or "exactly".
    """

    target_level: Unit
    transformation: Transformation
    relation: Relation
    input_level: Unit | None = None
    reduction: Reduction | None = None
    reduction_value: int | None = None
    within: tuple[Part, ...] | UnsetType = UNSET


class Combination(Struct, frozen=True):
    """Constraints joined by ``and`` or ``or``. ``all`` is ``and`` written as a numbered list."""

    logic: Literal["and", "or", "all"]
    constraints: tuple[Constraint, ...]


Constraint: TypeAlias = Base | Combination


class Specification(Struct, frozen=True):
    """A constraint and its targets, for text of a given level."""

    level: Level
    constraint: Constraint
    targets: Target

    def bases(self) -> Iterator[tuple[Base, Target]]:
        """Yield the base constraints in order, each with its target."""
        for base, target, _ in base_constraints(self.constraint, self.targets):
            yield base, target

    def units(self) -> set[Unit | None]:
        """Return the kinds of units into which the text is divided."""
        units: set[Unit | None] = set()
        for base, _ in self.bases():
            units |= {base.input_level, base.target_level}
            units |= {part.level for part in base.within or ()}
        return units


def base_constraints(
    constraint: Constraint, targets: Target, where: str = ""
) -> Iterator[tuple[Base, Target, str]]:
    """Yield each base constraint with its target, and where it is, for messages.

    Raises:
        DataInvalid: If the constraints of a combination are too few, or do not fit the targets.
    """
    if isinstance(constraint, Base):
        yield constraint, targets, where
        return
    parts = constraint.constraints
    if constraint.logic != "all" and len(parts) < 2:
        raise DataInvalid(f"{where}: {constraint.logic!r} needs at least two constraints.")
    n_targets = len(targets) if isinstance(targets, tuple) else "no list"
    if not isinstance(targets, tuple) or n_targets != len(parts):
        n = len(parts)
        raise DataInvalid(f"{where}: {n} constraints need a list of {n} targets, not {n_targets}.")
    for number, (part, target) in enumerate(zip(parts, targets, strict=True), start=1):
        yield from base_constraints(part, target, f"{where}, constraint {number}")


@cache
def measure(name: str) -> ports.Measure:
    """Return the measure plug-in called ``name``, created on first use.

    Raises:
        ConfigError: If it is not installed, or cannot be loaded.
    """
    with wrap_errors(f"The measure {name!r}"):
        plugin: ports.Measure = kind("measures").build(name, {})
    return plugin


def measure_name(base: Base) -> str | None:
    """Return the name of the measure that a base constraint uses, or None."""
    inner: Transformation = base.transformation
    while isinstance(inner, ForEach | Max | Min):
        inner = inner.do
    return inner.name if isinstance(inner, MeasureOp) else None


def read(raw: object, where: str = "the constraint") -> Specification:
    """Parse and check a specification from dicts and lists. Error messages begin with ``where``."""
    refuse_excess(raw, where)
    plain = _converted(raw, _Plain, where)
    constraint = read_constraint(plain.constraint, f"{where}, constraint")
    targets = read_targets(plain.targets, f"{where}, targets")
    refuse_misfits(plain.level, constraint, targets, where)
    return Specification(plain.level, constraint, targets)


def write(part: Specification | Constraint | Target) -> Any:
    """Return a specification, or a part of it, in the form that `read` accepts."""
    return msgspec.to_builtins(part)


def refuse_excess(raw: object, where: str) -> None:
    """Raise DataInvalid if dicts and lists are oversized or not valid JSON."""
    try:
        check_json(raw)
    except UnparseableDocument as error:
        raise DataInvalid(f"{where}: {error}.") from None


class _Plain(Struct, forbid_unknown_fields=True):
    level: Level
    constraint: Any
    targets: Any


class _PlainTree(Struct, forbid_unknown_fields=True):
    logic: Literal["and", "or", "all"]
    constraints: Annotated[list[Any], Meta(min_length=1)]


def _converted(raw: object, form: type[_Form], where: str) -> _Form:
    try:
        return msgspec.convert(raw, form)
    except msgspec.ValidationError as error:
        problem = f"{str(error)[:1].lower()}{str(error)[1:]}"
        remedy = "'harness docs collie' has the grammar."
        raise DataInvalid(f"{where}: {problem}.", remedy) from None


def read_constraint(raw: object, where: str) -> Constraint:
    """Parse a constraint from dicts and lists, without the checks of `refuse_misfits`."""
    if not isinstance(raw, Mapping) or "logic" not in raw:
        return _converted(raw, Base, where)
    tree = _converted(raw, _PlainTree, where)
    parts = []
    for number, part in enumerate(tree.constraints, start=1):
        parts.append(read_constraint(part, f"{where}.{number}"))
    return Combination(tree.logic, tuple(parts))


def read_targets(raw: object, where: str) -> Target:
    """Parse a target: a whole number, a string, or a list of targets (returned as a tuple)."""
    if isinstance(raw, list | tuple):
        return tuple(read_targets(part, f"{where}.{n}") for n, part in enumerate(raw, 1))
    if isinstance(raw, str) or (isinstance(raw, int) and not isinstance(raw, bool)):
        return raw
    raise DataInvalid(f"{where}: a target is a whole number, a string or a list, not {raw!r:.40}.")


@dataclass(frozen=True, slots=True)
class Several:
    """The type of a list of values; ``of`` is the type of each value."""

    of: Shape


Shape: TypeAlias = Literal["number", "text"] | Several


def observed_shape(base: Base, where: str) -> Shape:
    """Return the type of the value that a base constraint compares with its target."""
    units = Several("text")
    if base.input_level:
        units = Several(units)
    return outcome(base.transformation, units, where)


def outcome(transformation: Transformation, units: Shape, where: str) -> Shape:
    """Return the type of a transformation's result, given the type of its input."""
    if isinstance(transformation, Identity):
        return units
    if units == "number":
        op = transformation.__struct_config__.tag
        raise DataInvalid(f"{where}: {op!r} does not apply to a number.")
    unit: Shape = units.of if isinstance(units, Several) else "text"
    match transformation:
        case Count(of=of):
            if of is not None and unit != "text":
                raise DataInvalid(f"{where}: 'count' of {of!r} needs single units.")
            return "number"
        case MeasureOp(name=name):
            try:
                measure(name)
            except ConfigError as error:
                remedy = error.remedy or "Install its package (harness docs collie_build)."
                raise DataInvalid(f"{where}: {error.message}", remedy) from None
            if unit != "text":
                raise DataInvalid(f"{where}: the measure {name!r} needs single units.")
            return "number"
        case Position(index=index):
            if index == ():
                raise DataInvalid(f"{where}: 'position' has an empty list of indices.")
            return unit if isinstance(index, int) else Several(unit)
        case ForEach(do=do):
            return Several(outcome(do, unit, where))
        case Max(do=do) | Min(do=do):
            if outcome(do, units, where) != Several("number"):
                problem = "'max' and 'min' need several numbers, as for_each count gives."
                raise DataInvalid(f"{where}: {problem}")
            return "number"


def refuse_misfits(level: Level, constraint: Constraint, targets: Target, where: str) -> None:
    """Raise DataInvalid if a constraint does not fit the text's level or its targets."""
    for base, target, place in base_constraints(constraint, targets, where):
        if problem := _misfit(level, base, target, place):
            raise DataInvalid(f"{place}: {problem}.")


def _misfit(level: Level, base: Base, target: Target, where: str) -> str:
    """Return why a base constraint does not fit, or "" if it fits."""
    for part in base.within or ():
        if not _is_made_of(level, part.level):
            return f"a {level} is not made of {part.level}s"
        level = part.level
    outer = base.input_level or base.target_level
    inner = base.target_level
    if outer != level and not _is_made_of(level, outer):
        return f"a {level} is not made of {outer}s"
    if base.input_level and not _is_made_of(outer, inner):
        return f"a {outer} is not made of {inner}s"
    shape = observed_shape(base, where)
    if (base.reduction in _COUNTED) != (base.reduction_value is not None):
        return f"'reduction_value' is required with {', '.join(_COUNTED)}, otherwise refused"
    if base.reduction_value is not None and base.reduction_value < 0:
        return "'reduction_value' is negative"
    if target == ():
        return "the list of targets is empty"
    if base.reduction is None:
        return _target_misfit(base, shape, target)
    if not isinstance(shape, Several):
        return f"a reduction needs several values, not one {shape}"
    # A list of targets applies item by item; a single target, to every value.
    for item in listed(target):
        if problem := _target_misfit(base, shape.of, item):
            return problem
    return ""


def _is_made_of(level: Level, part: Level) -> bool:
    return LEVELS.index(part) < LEVELS.index(level)


def _target_misfit(base: Base, shape: Shape, target: Target) -> str:
    """Return why no value of the type ``shape`` can meet the target, or ""."""
    value_shape = shape.of if isinstance(shape, Several) else shape
    if isinstance(value_shape, Several):
        return "a list of lists needs a reduction, or a transformation of each"
    relation = base.relation
    if relation in _CONTAINING and shape == "number":
        return f"{relation!r} needs texts or a list, not a number"
    several = isinstance(shape, Several) and relation not in _CONTAINING
    if relation in _ORDERINGS and shape != "number":
        hint = f", not a {shape}"
        if several:
            hint = " one by one: add a reduction"
        return f"{relation!r} compares numbers{hint}"
    targets = listed(target)
    value_type = int if value_shape == "number" else str
    fits = bool(targets) and all(isinstance(item, value_type) for item in targets)
    expected: str = value_shape
    if several:
        expected = f"list of {value_shape}s"
        fits = fits and isinstance(target, tuple)
        index = getattr(base.transformation, "index", None)
        if fits and isinstance(index, tuple) and len(index) != len(targets):
            return f"{len(index)} positions need as many targets, not {len(targets)}"
    elif relation not in _CONTAINING:
        fits = fits and len(targets) == 1  # published single targets are lists of one
    if fits:
        return ""
    return f"the target of {relation!r} must be a {expected}, not {target!r:.60}"
