"""A constraint structure: a constraint whose targets are taken from a corpus, in YAML.

docs/collie_build.md describes the form. If a part of the constraint is swept (``index: {sweep: [0,
-1]}``), each text gets one of the resulting constraints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from pydantic import Field

from harness.builders.collie.targets import FilePart, Rules, read_rule, specimen, swept, validated
from harness.errors import ConfigError, DataInvalid, DataMissing, nearest
from harness.prompts.template import Template
from harness.scoring.constraints.grammar import (
    Base,
    Constraint,
    Level,
    Specification,
    Target,
    read_constraint,
    refuse_excess,
    refuse_misfits,
)
from harness.scoring.constraints.render import instruction

FOLDER = Path(__file__).with_name("structures")
"""The paper's 13."""
PAPER = "paper"
"""The name of all 13."""
PROMPT_FIELDS = frozenset({"targets", "level"})
MOST_CONSTRAINTS = 1000
"""Constraints that the sweeps in one may make."""


class _File(FilePart):
    name: Annotated[str, Field(pattern=r"^[\w-]+$")]
    level: Literal["word", "sentence", "paragraph", "passage"]
    constraint: Any
    targets: Any
    about: str = ""
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class Structure:
    """A constraint structure.

    Attributes:
        constraints: The constraints; more than one if a part is swept.
        rules: A target rule for each base constraint, nested like the constraint.
    """

    name: str
    about: str
    level: Level
    constraints: tuple[Constraint, ...]
    rules: Rules
    prompt: Template | None
    plain: Mapping[str, Any]

    def instruction(self, specification: Specification) -> str:
        """Write the prompt of an instance."""
        if self.prompt is None:
            return instruction(specification)
        targets = msgspec.json.decode(msgspec.json.encode(specification.targets))  # plain lists
        return self.prompt.render({"targets": targets, "level": self.level})


def find_structures(names: list[str]) -> list[Structure]:
    """Find structures.

    Args:
        names: Names of the paper's, ``paper`` for all of them, files (of one structure or a list),
            or folders of files.
    """
    found = [structure for name in names for structure in _found(name)]
    for place, structure in enumerate(found):
        if any(structure.name == other.name for other in found[:place]):
            raise DataInvalid(f"There are two structures named {structure.name!r}.", "Rename one.")
    return found


def _found(name: str) -> Iterator[Structure]:
    builtin = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
    if name == PAPER:
        files = list(builtin.values())
    elif name in builtin:
        files = [builtin[name]]
    elif Path(name).is_dir():
        files = sorted(Path(name).glob("*.yaml"))
        if not files:
            raise DataMissing(f"{name} has no file *.yaml.", "Check the path.")
    elif Path(name).is_file():
        files = [Path(name)]
    else:
        raise DataMissing(
            f"{name!r} is neither a structure of the paper nor a file.",
            nearest(name, [*builtin, PAPER]),
        )
    for path in files:
        raw = read_yaml(path)
        for number, one in enumerate(raw if isinstance(raw, list) else [raw], start=1):
            yield read_structure(one, f"{path}, structure {number}")


def read_yaml(path: Path) -> Any:
    """Read a file of YAML, and refuse one that is out of proportion."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise DataInvalid(f"{path}: not YAML ({error}).") from None
    except OSError as error:
        raise DataMissing(f"Cannot read {path}: {error.strerror}.", "Check the path.") from None
    refuse_excess(raw, str(path))
    return raw


def read_structure(raw: Any, where: str = "the structure") -> Structure:
    """Read a structure from its plain form; messages begin with ``where``."""
    refuse_excess(raw, where)
    file = validated(_File, raw, where)
    constraints = tuple(
        read_constraint(plain, f"{where}, constraint")
        for plain in _expanded(file.constraint, f"{where}, constraint")
    )
    rules = _rules(constraints[0], file.targets, f"{where}, targets")
    for constraint in constraints:
        refuse_misfits(file.level, constraint, _specimens(constraint, rules, where), where)
    prompt = None if file.prompt is None else _prompt(file.prompt, f"{where}, prompt")
    return Structure(file.name, file.about, file.level, constraints, rules, prompt, raw)


def _rules(constraint: Constraint, raw: object, where: str) -> Rules:
    if isinstance(constraint, Base):
        return read_rule(raw, where)
    parts = constraint.constraints
    if not isinstance(raw, list) or len(raw) != len(parts):
        raise DataInvalid(f"{where}: {len(parts)} constraints need a list of {len(parts)} rules.")
    return tuple(
        _rules(part, rule, f"{where}.{number}")
        for number, (part, rule) in enumerate(zip(parts, raw, strict=True), start=1)
    )


def _specimens(constraint: Constraint, rules: Rules, where: str) -> Target:
    if isinstance(constraint, Base):
        assert not isinstance(rules, tuple)
        return specimen(rules, constraint, where)
    assert isinstance(rules, tuple)
    pairs = zip(constraint.constraints, rules, strict=True)
    return tuple(_specimens(part, rule, where) for part, rule in pairs)


def _expanded(raw: Any, where: str) -> list[Any]:
    """Return the trees that a tree with ``{sweep: …}`` in it stands for."""
    if isinstance(raw, dict) and set(raw) == {"sweep"}:
        return [list(v) if isinstance(v, tuple) else v for v in swept(raw["sweep"], where)]
    if not isinstance(raw, dict | list):
        return [raw]
    parts = [_expanded(part, where) for part in (raw.values() if isinstance(raw, dict) else raw)]
    if prod(map(len, parts)) > MOST_CONSTRAINTS:
        raise DataInvalid(f"{where}: its sweeps make more than {MOST_CONSTRAINTS:,} constraints.")
    return [
        dict(zip(raw, each, strict=True)) if isinstance(raw, dict) else list(each)
        for each in product(*parts)
    ]


def _prompt(text: str, where: str) -> Template:
    try:
        found = Template(text, where)
    except ConfigError as error:
        raise DataInvalid(error.message, error.remedy) from None
    for name in sorted(found.names - PROMPT_FIELDS):
        raise DataInvalid(f"{where}: there is no field {name!r}.", nearest(name, PROMPT_FIELDS))
    return found
