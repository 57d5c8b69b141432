"""Finds base constraints that no text satisfies, or that every text satisfies.

Such constraints are mistakes: a word is never "New York", and a count is never below 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from harness.errors import DataInvalid
from harness.plugins.benchmarks.collie.constraints import grammar
from harness.plugins.benchmarks.collie.constraints.check import PARAGRAPH_BREAK, bare, plain_words
from harness.plugins.benchmarks.collie.constraints.grammar import (
    Base,
    Constraint,
    Count,
    ForEach,
    Identity,
    Max,
    Min,
    Position,
    Specification,
    Target,
    Transformation,
    Unit,
)

Element: TypeAlias = "Unit | Literal['letter', 'list']"
"""An item of a list: a unit, a letter of a unit's text, or a list of units."""

_LOWEST = {"==": 0, "!=": 0, ">=": 1, ">": 0, "<=": 0, "<": 1}
"""The lowest target of each relation that some counts meet and other counts miss."""
_ALWAYS = ("!=", ">=", ">")  # relations that any count meets if the target is lower than that


def read(raw: object, where: str = "the constraint") -> Specification:
    """Parse and check a specification like `grammar.read`, and refuse one that decides nothing.

    Raises:
        DataInvalid: If it is malformed, or if one of its base constraints is satisfied by no text,
            or by every text. The message begins with ``where``.
    """
    specification = grammar.read(raw, where)
    refuse_undecided(specification.constraint, specification.targets, where)
    return specification


def refuse_undecided(constraint: Constraint, targets: Target, where: str) -> None:
    """Raise DataInvalid if no text satisfies a base constraint, or if every text does."""
    if isinstance(constraint, Base):
        if why := problem(constraint, targets):
            raise DataInvalid(f"{where}: {why}.")
        return
    assert isinstance(targets, tuple)
    parts = zip(constraint.constraints, targets, strict=True)
    for number, (part, target) in enumerate(parts, start=1):
        refuse_undecided(part, target, f"{where}, constraint {number}")


def problem(base: Base, target: Target) -> str:
    """Return why no text satisfies a base constraint, or why every text does, or ""."""
    operation, depth = _innermost(base.transformation)
    elements: list[Element] = [base.target_level, "letter"]
    if base.input_level:
        elements.insert(0, "list")
    if depth >= len(elements) or (depth and elements[depth - 1] == "character"):
        return "a character has no parts"
    # What `operation` counts or finds. Lists have the units as items.
    element = elements[depth + (elements[depth] == "list")]
    for text in _texts(operation, target):
        if why := _never(text, element):
            return why
    if isinstance(operation, Count):
        counted = base.input_level if elements[depth] == "list" else element
        fewest = 1 if counted == "paragraph" and operation.of is None else 0
        if why := _count_problem(base, target, fewest):
            return why
    return _reduction_problem(base, target)


def _innermost(transformation: Transformation) -> tuple[Transformation, int]:
    """Return the operation that is not applied to results, and in how many lists its input is."""
    depth = 0
    while isinstance(transformation, ForEach | Max | Min):
        if isinstance(transformation, ForEach) and not isinstance(transformation.do, Identity):
            depth += 1
        transformation = transformation.do
    return transformation, depth


def _texts(operation: Transformation, target: Target) -> Iterator[str]:
    """Yield the texts that are compared with units."""
    if isinstance(operation, Count):
        if operation.of is not None:
            yield operation.of
        return
    for value in _values(target):
        if isinstance(value, str):
            yield value


def _values(target: Target) -> Iterator[int | str]:
    if isinstance(target, tuple):
        for part in target:
            yield from _values(part)
    else:
        yield target


def _never(text: str, element: Element) -> str:
    """Return why no element equals a text (as `bare` compares them), or ""."""
    compared = bare(text)
    assert isinstance(compared, str)
    if element in ("letter", "character") and len(compared) > 1:
        return f"{text!r:.60} is not one character"
    if element == "character" and compared and not compared.strip().strip("."):
        return f"no character equals {text!r}: spaces and periods are removed before comparing"
    if element == "word" and compared:
        words = plain_words(compared)
        if words is None:
            # How NLTK splits other characters, such as dashes, depends on its version.
            words = compared.split()
        if len(words) != 1:
            parts = " and ".join(map(repr, words[:4])) or "no words"
            return f"no word equals {text!r:.60}, because it is split into {parts:.120}"
    if element == "paragraph" and PARAGRAPH_BREAK in compared:
        return "no paragraph equals the target, because it has a blank line"
    return ""


def _count_problem(base: Base, target: Target, fewest: int) -> str:
    """Return why a count, which is at least ``fewest``, always or never meets its target."""
    lowest = _LOWEST.get(base.relation)
    if lowest is None:
        return ""
    always = base.relation in _ALWAYS
    may_be_missing = base.within or isinstance(base.transformation, Max | Min)
    if always and may_be_missing:
        return ""
    for number in _values(target):
        if isinstance(number, int) and number < lowest + fewest:
            holds = "always" if always else "never"
            return f"a count is at least {fewest} here, so '{base.relation} {number}' {holds} holds"
    return ""


def _reduction_problem(base: Base, target: Target) -> str:
    """Return why a reduction always or never holds, or ""."""
    if base.reduction is None:
        return ""
    n_targets = len(target) if isinstance(target, tuple) else None
    n_values = n_targets
    if isinstance(base.transformation, Position) and isinstance(base.transformation.index, tuple):
        n_values = len(base.transformation.index)
        if n_targets not in (None, n_values):
            return f"{n_values} positions need as many targets, not {n_targets}"
        if base.reduction == "at most" and (base.reduction_value or 0) >= n_values:
            return f"'at most {base.reduction_value}' always holds for {n_values} positions"
    if base.reduction == "at least" and base.reduction_value == 0:
        return "'at least 0' always holds"
    if n_values is None or base.reduction not in ("at least", "exactly"):
        return ""
    if (base.reduction_value or 0) > n_values:
        return f"'{base.reduction} {base.reduction_value}' never holds for {n_values} values"
    return ""
