"""The constraint grammar as typed objects.

A *base constraint* splits a text into units, transforms them, and relates what
comes out to a target; ``and``, ``or`` and ``all`` combine constraints, at any
depth. A `Specification` adds what a tree alone lacks: the targets
(a list of the same form as the tree) and the level of the text to generate.
`form` reads and writes these objects; what it has read always fits together.

>>> eleven_letters = Specification("word", Base("character", Count(), ">="), 11)
>>> [target for base, target in eleven_letters.bases()]
[11]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

Level: TypeAlias = Literal["character", "word", "sentence", "paragraph", "passage"]
"""What can be generated, in ascending order."""
Unit: TypeAlias = Literal["character", "word", "sentence", "paragraph"]
"""What a text can be split into, in ascending order."""
Relation: TypeAlias = Literal["==", "!=", "<", ">", "<=", ">=", "in", "not in"]
Reduction: TypeAlias = Literal["all", "any", "none", "at least", "at most", "exactly"]
Target: TypeAlias = "int | str | tuple[Target, ...]"

LEVELS: tuple[Level, ...] = get_args(Level)


class Count(Struct, frozen=True, tag_field="op", tag="count", forbid_unknown_fields=True):
    """How many units there are, or how many of them equal ``of``."""

    of: str | None = None


class Position(Struct, frozen=True, tag_field="op", tag="position", forbid_unknown_fields=True):
    """The unit at an index from 0 (negative: from the end), or those at several."""

    index: int | tuple[int, ...]


class ForEach(Struct, frozen=True, tag_field="op", tag="for_each", forbid_unknown_fields=True):
    """What ``do`` makes of every unit."""

    do: Transformation


class Max(Struct, frozen=True, tag_field="op", tag="max", forbid_unknown_fields=True):
    """The greatest number that ``do`` gives."""

    do: Transformation


class Min(Struct, frozen=True, tag_field="op", tag="min", forbid_unknown_fields=True):
    """The least number that ``do`` gives."""

    do: Transformation


class Measure(Struct, frozen=True, tag_field="op", tag="measure", forbid_unknown_fields=True):
    """A number that a plug-in makes of the units (`harness.ports.Measure`)."""

    name: str


class Identity(Struct, frozen=True, tag_field="op", tag="identity", forbid_unknown_fields=True):
    """The units themselves."""


Transformation: TypeAlias = Count | Position | ForEach | Max | Min | Measure | Identity


class Base(Struct, frozen=True, forbid_unknown_fields=True):
    """A base constraint.

    input_level: the text is first split into these units, and each of them into
        units of ``target_level``; None splits the text into the latter directly.
    reduction: how the outcomes for several values make one verdict; None relates
        the value as a whole.
    reduction_value: the n of ``at least``, ``at most`` and ``exactly``.
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
    """A constraint with its targets, on a text of a level."""

    level: Level
    constraint: Constraint
    targets: Target

    def bases(self) -> Iterator[tuple[Base, Target]]:
        """The base constraints from left to right, each with its target."""
        return _paired(self.constraint, self.targets)


def _paired(constraint: Constraint, targets: Target) -> Iterator[tuple[Base, Target]]:
    if isinstance(constraint, Base):
        yield constraint, targets
        return
    assert isinstance(targets, tuple)  # `form` refuses anything else
    for part, target in zip(constraint.constraints, targets, strict=True):
        yield from _paired(part, target)
