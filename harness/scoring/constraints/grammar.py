"""The constraint grammar: typed objects, their plain form for YAML and JSON, and validity.

A *base constraint* splits a text into units, transforms them, and relates the result to a target;
``and``, ``or`` and ``all`` combine constraints, at any depth. A `Specification` adds the targets (a
list of the same shape as the tree) and the level of the text to generate.

`read` reads untrusted data. Unknown keys and operations, oversized trees, and constraints that
could never be checked ("at least 'x' characters") are refused with their place.

>>> three = read({"level": "sentence", "targets": 3, "constraint": {
...     "target_level": "word", "transformation": {"op": "count"}, "relation": "=="}})
>>> read(write(three)) == three
True
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from harness import ports
from harness.errors import ConfigError, DataInvalid, nearest
from harness.plugins import calling, kind
from harness.records import encodable

Level: TypeAlias = Literal["character", "word", "sentence", "paragraph", "passage"]
"""What can be generated, from small to large."""
Unit: TypeAlias = Literal["character", "word", "sentence", "paragraph"]
"""What a text can be split into."""
Relation: TypeAlias = Literal["==", "!=", "<", ">", "<=", ">=", "in", "not in"]
Reduction: TypeAlias = Literal["all", "any", "none", "at least", "at most", "exactly"]
Target: TypeAlias = "int | str | tuple[Target, ...]"

LEVELS: tuple[Level, ...] = get_args(Level)

MAX_DEPTH = 32
"""Nested mappings and lists in a specification."""
MAX_PARTS = 10_000
"""Mappings, lists and values in it: a few lines of YAML aliases can stand for billions."""

KEYS = ("level", "constraint", "targets")
_ORDERINGS = ("<", ">", "<=", ">=")
_COUNTED = ("at least", "at most", "exactly")


class Count(Struct, frozen=True, tag_field="op", tag="count", forbid_unknown_fields=True):
    """The number of units, or of those that equal ``of``."""

    of: str | None = None


class Position(Struct, frozen=True, tag_field="op", tag="position", forbid_unknown_fields=True):
    """The unit at an index from 0 (negative: from the end), or those at several."""

    index: int | tuple[int, ...]


class ForEach(Struct, frozen=True, tag_field="op", tag="for_each", forbid_unknown_fields=True):
    """Apply ``do`` to every unit."""

    do: Transformation


class Max(Struct, frozen=True, tag_field="op", tag="max", forbid_unknown_fields=True):
    """The greatest number that ``do`` gives."""

    do: Transformation


class Min(Struct, frozen=True, tag_field="op", tag="min", forbid_unknown_fields=True):
    """The least number that ``do`` gives."""

    do: Transformation


class MeasureOp(Struct, frozen=True, tag_field="op", tag="measure", forbid_unknown_fields=True):
    """A number that a plug-in computes from the units (`harness.ports.Measure`)."""

    name: str


class Identity(Struct, frozen=True, tag_field="op", tag="identity", forbid_unknown_fields=True):
    """The units themselves."""


Transformation: TypeAlias = Count | Position | ForEach | Max | Min | MeasureOp | Identity


class Base(Struct, frozen=True, forbid_unknown_fields=True):
    """A base constraint.

    Attributes:
        input_level: Split the text into these units first, and each of them into units of
            ``target_level``; None splits the text into the latter directly.
        reduction: How the outcomes for several values become one verdict; None relates the value
            as a whole.
        reduction_value: The n of ``at least``, ``at most`` and ``exactly``.
    """

    target_level: Unit
    transformation: Transformation
    relation: Relation
    input_level: Unit | None = None
    reduction: Reduction | None = None
    reduction_value: int | None = None


class Combination(Struct, frozen=True):
    """Constraints joined by ``and``, ``or`` or ``all`` (which reads as a numbered list)."""

    logic: Literal["and", "or", "all"]
    constraints: tuple[Constraint, ...]


Constraint: TypeAlias = Base | Combination


class Specification(Struct, frozen=True):
    """A constraint with its targets, for a text of a level."""

    level: Level
    constraint: Constraint
    targets: Target

    def bases(self) -> Iterator[tuple[Base, Target]]:
        """Return the base constraints from left to right, each with its target."""
        return _paired(self.constraint, self.targets)


def _paired(constraint: Constraint, targets: Target) -> Iterator[tuple[Base, Target]]:
    if isinstance(constraint, Base):
        yield constraint, targets
        return
    assert isinstance(targets, tuple)  # `read` refuses anything else
    for part, target in zip(constraint.constraints, targets, strict=True):
        yield from _paired(part, target)


@cache
def measure(name: str) -> ports.Measure:
    """Return a plug-in's measure, made once.

    Raises:
        ConfigError: There is none of this name, or it cannot be made.
    """
    with calling(f"The measure {name!r}"):
        found: ports.Measure = kind("measures").build(name, {})
    return found


def measure_name(base: Base) -> str | None:
    """Return the measure that a base constraint uses, or None if it uses none."""
    inner: Transformation = base.transformation
    while isinstance(inner, ForEach | Max | Min):
        inner = inner.do
    return inner.name if isinstance(inner, MeasureOp) else None


_WORDS: Mapping[str, tuple[str, ...]] = {
    "op": ("count", "position", "for_each", "max", "min", "measure", "identity"),
    "relation": get_args(Relation),
    "target_level": get_args(Unit),
    "input_level": get_args(Unit),
    "reduction": get_args(Reduction),
}
"""Key -> the words that it may hold."""


def read(raw: object, where: str = "the constraint") -> Specification:
    """Read a specification from its plain form.

    Args:
        raw: The plain form.
        where: How messages name the place ("mine.jsonl, line 3").

    Raises:
        DataInvalid: It is not a specification.
    """
    refuse_excess(raw, where)
    fields = _mapping(raw, where, KEYS)
    for key in KEYS:
        if key not in fields:
            raise DataInvalid(f"{where}: {key!r} is missing.")
    level = fields["level"]
    if level not in LEVELS:
        raise DataInvalid(f"{where}: there is no level {level!r:.40}.", nearest(str(level), LEVELS))
    constraint = read_constraint(fields["constraint"], f"{where}, constraint")
    targets = read_targets(fields["targets"], f"{where}, targets")
    refuse_misfits(level, constraint, targets, where)
    return Specification(level, constraint, targets)


def write(part: Specification | Constraint | Target) -> Any:
    """Return the plain form of a specification, a tree or targets, which `read` reads."""
    return msgspec.to_builtins(part)


def refuse_excess(raw: object, where: str) -> None:
    """Refuse oversized trees and half characters, before anything uses them.

    Raises:
        DataInvalid: There is one.
    """
    parts = 0
    pending: list[tuple[object, int]] = [(raw, 1)]
    while pending:
        value, depth = pending.pop()
        parts += 1
        if depth > MAX_DEPTH:
            raise DataInvalid(f"{where} is nested more than {MAX_DEPTH} deep.")
        if parts > MAX_PARTS:
            raise DataInvalid(f"{where} has more than {MAX_PARTS:,} parts.")
        if isinstance(value, str) and encodable(value) != value:
            raise DataInvalid(f"{where}: {value!a:.40} has half of a surrogate pair.")
        if isinstance(value, Mapping):
            pending += ((part, depth + 1) for part in value.values())
        elif isinstance(value, list | tuple):
            pending += ((part, depth + 1) for part in value)


def _mapping(raw: object, where: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise DataInvalid(f"{where} must be a mapping, not {type(raw).__name__}.")
    for key in raw:
        if key not in known:
            raise DataInvalid(f"{where}: unknown key {key!r}.", nearest(str(key), known))
    return raw


def read_constraint(raw: object, where: str) -> Constraint:
    """Read a tree without targets: a base constraint unless it has a ``logic``.

    `refuse_misfits` checks whether it fits a level and targets.

    Raises:
        DataInvalid: It is not a tree of constraints.
    """
    if not (isinstance(raw, Mapping) and "logic" in raw):
        try:
            return msgspec.convert(raw, Base)
        except msgspec.ValidationError as error:
            raise _misread(raw, where, str(error)) from None
    fields = _mapping(raw, where, ("logic", "constraints"))
    logic, parts = fields["logic"], fields.get("constraints")
    if logic not in ("and", "or", "all"):
        raise DataInvalid(f"{where}: there is no logic {logic!r}.", "Write and, or, or all.")
    if not isinstance(parts, list | tuple) or not parts:
        raise DataInvalid(f"{where}: 'constraints' must be a list of constraints.")
    return Combination(
        logic,
        tuple(read_constraint(part, f"{where}.{number}") for number, part in enumerate(parts, 1)),
    )


def _misread(raw: object, where: str, message: str) -> DataInvalid:
    """Return the error for a wrong base constraint; a mistyped word gets the nearest valid one."""
    # msgspec's message ends in the place: … - at `$.transformation.op`
    path = message.partition("`$.")[2].rstrip("`").split(".")
    value = raw
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    if path[-1] in _WORDS and value is not None:
        place = f"{where}.{'.'.join(path)}"
        return DataInvalid(
            f"{place}: there is no {value!r:.40} here.", nearest(str(value), _WORDS[path[-1]])
        )
    message = message[:1].lower() + message[1:]
    return DataInvalid(f"{where}: {message}.", "docs/collie.md has the grammar.")


def read_targets(raw: object, where: str) -> Target:
    """Read targets.

    Raises:
        DataInvalid: They are not numbers, texts or lists of them.
    """
    if isinstance(raw, list | tuple):
        return tuple(read_targets(part, f"{where}.{number}") for number, part in enumerate(raw, 1))
    if isinstance(raw, str) or (isinstance(raw, int) and not isinstance(raw, bool)):
        return raw
    raise DataInvalid(f"{where}: a target is a whole number, a text or a list, not {raw!r:.40}.")


@dataclass(frozen=True, slots=True)
class Several:
    """Any number of values of one shape."""

    of: Shape


Shape: TypeAlias = Literal["number", "text"] | Several

MANY_TEXTS = Several("text")


def outcome(transformation: Transformation, units: Shape, where: str) -> Shape:
    """Derive the shape of a transformation's result from the grammar alone.

    A text is a sequence of characters.

    Raises:
        DataInvalid: The transformation does not apply to such units.
    """
    if isinstance(transformation, Identity):
        return units
    if units == "number":
        op = transformation.__struct_config__.tag
        raise DataInvalid(f"{where}: {op!r} does not apply to a number.")
    unit: Shape = units.of if isinstance(units, Several) else "text"
    if isinstance(transformation, Count):
        if transformation.of is not None and unit != "text":
            raise DataInvalid(f"{where}: 'count' of {transformation.of!r} needs single units.")
        return "number"
    if isinstance(transformation, MeasureOp):
        try:
            measure(transformation.name)
        except ConfigError as error:
            raise DataInvalid(
                f"{where}: {error.message}",
                error.remedy or "Install the package that has it (docs/collie_build.md).",
            ) from None
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


def refuse_misfits(level: Level, constraint: Constraint, targets: Target, where: str) -> None:
    """Refuse a constraint that does not fit its level or its targets.

    Raises:
        DataInvalid: It does not fit.
    """
    if isinstance(constraint, Base):
        _refuse_base(level, constraint, targets, where)
        return
    parts = constraint.constraints
    if constraint.logic != "all" and len(parts) < 2:
        raise DataInvalid(f"{where}: {constraint.logic!r} needs at least two constraints.")
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

    counted = base.reduction in _COUNTED
    if counted != (base.reduction_value is not None):
        raise DataInvalid(
            f"{where}: 'reduction_value' goes with the reductions {', '.join(_COUNTED)},"
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
    # A list of targets applies item by item, a single one to every value.
    each = target if isinstance(target, tuple) else (target,)
    if not each:
        raise DataInvalid(f"{where}: the list of targets is empty.")
    for part in each:
        _refuse_target(base, shape.of, part, where)


def _refuse_target(base: Base, shape: Shape, target: Target, where: str) -> None:
    """Refuse a target for which the relation can never hold with a value of this shape."""
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
        if base.relation in _ORDERINGS:
            raise DataInvalid(
                f"{where}: {base.relation!r} compares numbers one by one: add a reduction."
            )
        wanted = shape.of
        fits = isinstance(target, tuple) and all(_is(part, wanted) for part in target)
    else:
        if base.relation in _ORDERINGS and shape != "number":
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
