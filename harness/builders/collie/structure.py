"""A constraint structure: a constraint whose targets are to be found, in YAML.

    name: sent02
    about: exactly n words, of which the 4th, 8th and 11th are given
    level: sentence
    constraint:                        # as in docs/collie.md, without targets
      logic: all
      constraints:
        - {target_level: word, transformation: {op: count}, relation: "=="}
        - {target_level: word, transformation: {op: position, index: [3, 7, 10]}, relation: "=="}
    targets:                           # a rule for each (see `target_rules`)
      - sweep: {from: 10, to: 19}
      - take: value

A part of the constraint may be swept, too (``index: {sweep: [0, -1]}``): each text then gets one of
the constraints that come of it. ``prompt`` is a template for the instruction, over ``targets``; by
default the constraint is rendered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from harness.builders.collie.target_rules import Rule, read_rule, specimen, swept
from harness.errors import ConfigError, DataInvalid, DataMissing, nearest
from harness.prompts.template import Template
from harness.scoring.constraints.form import read_constraint, refuse_excess, write_targets
from harness.scoring.constraints.grammar import (
    LEVELS,
    Base,
    Combination,
    Constraint,
    Level,
    Specification,
    Target,
)
from harness.scoring.constraints.render import instruction
from harness.scoring.constraints.shapes import refuse_misfits

FOLDER = Path(__file__).with_name("structures")
"""The 13 of the paper."""
PAPER = "paper"
"""Means all of them."""
KEYS = ("name", "about", "level", "constraint", "targets", "prompt")
FIELDS = frozenset({"targets", "level"})
"""That a prompt may name."""
MOST_CONSTRAINTS = 1000
"""That may come of what is swept in one."""

Rules: TypeAlias = "Rule | tuple[Rules, ...]"
"""A rule for each base constraint, in lists like the tree."""


@dataclass(frozen=True, slots=True)
class Structure:
    """A constraint structure.

    about: what it asks, in a line.
    constraints: those that come of it; most structures have one.
    plain: the mapping that it was read from.
    """

    name: str
    about: str
    level: Level
    constraints: tuple[Constraint, ...]
    rules: Rules
    prompt: Template | None
    plain: Mapping[str, Any]

    def instruction(self, specification: Specification) -> str:
        """What a model is asked.

        Raises: DataInvalid where the structure's own prompt does not fit.
        """
        if self.prompt is None:
            return instruction(specification)
        return self.prompt.render(
            {"targets": write_targets(specification.targets), "level": self.level}
        )


def find_structures(names: list[str]) -> list[Structure]:
    """Structures by name, ``paper``, a file (one, or a list of them) or a folder of files.

    Raises: DataMissing, DataInvalid.
    """
    found = [structure for name in names for structure in _found(name)]
    for number, structure in enumerate(found):
        if any(structure.name == other.name for other in found[:number]):
            raise DataInvalid(f"There are two structures named {structure.name!r}.", "Rename one.")
    return found


def suited(
    structures: Sequence[Structure], levels: Collection[Level]
) -> tuple[list[Structure], list[Structure]]:
    """The structures that are of some levels, and the others."""
    ours = [structure for structure in structures if structure.level in levels]
    return ours, [structure for structure in structures if structure not in ours]


def _found(name: str) -> Iterator[Structure]:
    own = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
    if name == PAPER:
        yield from (structure for path in own.values() for structure in _of_file(path))
    elif name in own:
        yield from _of_file(own[name])
    elif Path(name).is_dir():
        files = sorted(Path(name).glob("*.yaml"))
        if not files:
            raise DataMissing(f"{name} has no file *.yaml.", "Check the path.")
        yield from (structure for path in files for structure in _of_file(path))
    elif Path(name).is_file():
        yield from _of_file(Path(name))
    else:
        raise DataMissing(
            f"{name!r} is neither a structure of the paper nor a file.",
            nearest(name, [*own, PAPER]),
        )


def _of_file(path: Path) -> Iterator[Structure]:
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise DataInvalid(f"{path}: not YAML ({error}).") from None
    except OSError as error:
        raise DataMissing(f"Cannot read {path}: {error.strerror}.") from None
    several = raw if isinstance(raw, list) else [raw]
    for number, one in enumerate(several, start=1):
        yield read_structure(one, f"{path}, structure {number}" if len(several) > 1 else str(path))


def read_structure(raw: object, where: str = "the structure") -> Structure:
    """Read a structure from its plain form.

    where: how a message names the place.

    Raises: DataInvalid.
    """
    refuse_excess(raw, where)
    if not isinstance(raw, Mapping):
        raise DataInvalid(f"{where} must be a mapping, not {type(raw).__name__}.")
    for key in raw:
        if key not in KEYS:
            raise DataInvalid(f"{where}: unknown key {key!r}.", nearest(str(key), KEYS))
    for key in ("name", "level", "constraint", "targets"):
        if key not in raw:
            raise DataInvalid(f"{where}: {key!r} is missing.")
    name, level = raw["name"], raw["level"]
    if not isinstance(name, str) or not name.replace("-", "_").replace("_", "a").isalnum():
        raise DataInvalid(f"{where}: 'name' is letters, digits, - and _, not {name!r:.40}.")
    if level not in LEVELS[1:]:
        raise DataInvalid(
            f"{where}: there is no level {level!r:.40}.", nearest(str(level), LEVELS[1:])
        )
    constraints = tuple(
        read_constraint(plain, f"{where}, constraint")
        for plain in _expanded(raw["constraint"], f"{where}, constraint")
    )
    if len(constraints) > MOST_CONSTRAINTS:
        raise DataInvalid(f"{where}: its sweeps make more than {MOST_CONSTRAINTS:,} constraints.")
    rules = _rules(constraints[0], raw["targets"], f"{where}, targets")
    for constraint in constraints:
        refuse_misfits(level, constraint, _specimens(constraint, rules, where), where)
    return Structure(
        name, str(raw.get("about", "")), level, constraints, rules, _prompt(raw, where), raw
    )


def _rules(constraint: Constraint, raw: object, where: str) -> Rules:
    if isinstance(constraint, Base):
        return read_rule(raw, where)
    parts = constraint.constraints
    if not isinstance(raw, list | tuple) or len(raw) != len(parts):
        raise DataInvalid(f"{where}: {len(parts)} constraints need a list of {len(parts)} rules.")
    return tuple(
        _rules(part, rule, f"{where}.{number}")
        for number, (part, rule) in enumerate(zip(parts, raw, strict=True), start=1)
    )


def _specimens(constraint: Constraint, rules: Rules, where: str) -> Target:
    if isinstance(constraint, Combination):
        assert isinstance(rules, tuple)
        pairs = zip(constraint.constraints, rules, strict=True)
        return tuple(_specimens(part, rule, where) for part, rule in pairs)
    assert not isinstance(rules, tuple)
    return specimen(rules, constraint, where)


def _expanded(raw: object, where: str) -> list[Any]:
    """The trees that come of one whose parts may be ``{sweep: …}``."""
    if isinstance(raw, Mapping):
        if set(raw) == {"sweep"}:
            return [list(v) if isinstance(v, tuple) else v for v in swept(raw["sweep"], where)]
        each: list[list[Any]] = [_expanded(part, where) for part in raw.values()]
        return [dict(zip(raw, parts, strict=True)) for parts in _product(each, where)]
    if isinstance(raw, list | tuple):
        return [list(parts) for parts in _product([_expanded(p, where) for p in raw], where)]
    return [raw]


def _product(each: list[list[Any]], where: str) -> Iterator[tuple[Any, ...]]:
    total = 1
    for parts in each:
        total *= len(parts)
    if total > MOST_CONSTRAINTS:
        raise DataInvalid(f"{where}: its sweeps make more than {MOST_CONSTRAINTS:,} constraints.")
    return product(*each)


def _prompt(raw: Mapping[str, Any], where: str) -> Template | None:
    text = raw.get("prompt")
    if text is None:
        return None
    if not isinstance(text, str):
        raise DataInvalid(f"{where}: 'prompt' must be a text.")
    try:
        found = Template(text, f"{where}, prompt")
    except ConfigError as error:
        raise DataInvalid(error.message, error.remedy) from None
    for name in sorted(found.names - FIELDS):
        raise DataInvalid(f"{where}, prompt: there is no field {name!r}.", nearest(name, FIELDS))
    return found
