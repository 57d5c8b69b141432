"""The plain form of a specification, for YAML and JSON: reading it and writing it.

What is read is foreign data. Unknown keys and operations, targets that do not
fit and trees out of proportion are refused with the place named.

>>> three = read({"level": "sentence", "targets": 3, "constraint": {
...     "target_level": "word", "transformation": {"op": "count"}, "relation": "=="}})
>>> read(write(three)) == three
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from harness.errors import DataInvalid, nearest
from harness.scoring.constraints.grammar import (
    LEVELS,
    Base,
    Combination,
    Constraint,
    Reduction,
    Relation,
    Specification,
    Target,
    Unit,
)
from harness.scoring.constraints.shapes import refuse_misfits

MAX_DEPTH = 32
"""Deepest nesting of mappings and lists that a specification may have."""
MAX_PARTS = 10_000
"""Most mappings, lists and values in it: a few lines of YAML aliases can name billions."""

KEYS = ("level", "constraint", "targets")

WORDS: Mapping[str, tuple[str, ...]] = {
    "op": ("count", "position", "for_each", "max", "min", "measure", "identity"),
    "relation": get_args(Relation),
    "target_level": get_args(Unit),
    "input_level": get_args(Unit),
    "reduction": get_args(Reduction),
}
"""Key -> the words that it may hold."""


def read(raw: object, where: str = "the constraint") -> Specification:
    """Read a specification from its plain form.

    where: how a message names the place ("mine.jsonl, line 3").

    Raises: DataInvalid.
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


def write(specification: Specification) -> dict[str, Any]:
    """The plain form that `read` reads."""
    return {
        "level": specification.level,
        "constraint": write_constraint(specification.constraint),
        "targets": write_targets(specification.targets),
    }


def refuse_excess(raw: object, where: str) -> None:
    """Refuse trees out of proportion, and halves of characters, before anything works on them.

    Raises: DataInvalid.
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
        if isinstance(value, str) and not _is_text(value):
            raise DataInvalid(f"{where}: {value!a:.40} has half a surrogate pair: no character.")
        if isinstance(value, Mapping):
            pending += ((part, depth + 1) for part in value.values())
        elif isinstance(value, list | tuple):
            pending += ((part, depth + 1) for part in value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mapping(raw: object, where: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise DataInvalid(f"{where} must be a mapping, not {type(raw).__name__}.")
    for key in raw:
        if key not in known:
            raise DataInvalid(f"{where}: unknown key {key!r}.", nearest(str(key), known))
    return raw


def read_constraint(raw: object, where: str) -> Constraint:
    """Read a tree without targets: a base constraint unless it names a logic.

    Raises: DataInvalid. Whether it fits a level and targets is for `shapes` to say.
    """
    if not (isinstance(raw, Mapping) and "logic" in raw):
        try:
            return msgspec.convert(raw, Base)
        except msgspec.ValidationError as error:
            raise _misfit(raw, where, str(error)) from None
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


def _misfit(raw: object, where: str, said: str) -> DataInvalid:
    """What is wrong with a base constraint; a mistyped word gets the nearest valid one.

    said: msgspec's message, which ends in the place: ``… - at `$.transformation.op` ``.
    """
    path = said.partition("`$.")[2].rstrip("`").split(".")
    value = raw
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    if path[-1] in WORDS and value is not None:
        place = f"{where}.{'.'.join(path)}"
        return DataInvalid(
            f"{place}: there is no {value!r:.40} here.", nearest(str(value), WORDS[path[-1]])
        )
    return DataInvalid(f"{where}: {said[:1].lower()}{said[1:]}.", "docs/collie.md has the grammar.")


def read_targets(raw: object, where: str) -> Target:
    """Read targets. Raises: DataInvalid."""
    if isinstance(raw, list | tuple):
        return tuple(read_targets(part, f"{where}.{number}") for number, part in enumerate(raw, 1))
    if isinstance(raw, str) or (isinstance(raw, int) and not isinstance(raw, bool)):
        return raw
    raise DataInvalid(f"{where}: a target is a whole number, a text or a list, not {raw!r:.40}.")


def write_constraint(constraint: Constraint) -> dict[str, Any]:
    """The plain form of a tree."""
    if isinstance(constraint, Combination):
        return {
            "logic": constraint.logic,
            "constraints": [write_constraint(part) for part in constraint.constraints],
        }
    plain: dict[str, Any] = msgspec.to_builtins(constraint)
    return plain


def write_targets(targets: Target) -> int | str | list[Any]:
    """The plain form of targets."""
    return [write_targets(part) for part in targets] if isinstance(targets, tuple) else targets
