"""Reads constraint structures from YAML (docs/collie_build.md), and finds targets in texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
import yaml
from pydantic import ConfigDict, Field, model_validator

from harness.config.validation import Section, validate
from harness.errors import DataInvalid, DataMissing, suggest_name
from harness.plugins.benchmarks.collie.constraints import check, grammar
from harness.plugins.benchmarks.collie.constraints.check import Observed, Splitter, bare
from harness.plugins.benchmarks.collie.constraints.grammar import (
    Base,
    Constraint,
    Level,
    Several,
    Shape,
    Target,
)
from harness.plugins.benchmarks.collie.constraints.render import instruction
from harness.plugins.builders.draws import Draws
from harness.prompts import Template

FOLDER = Path(__file__).with_name("structures")  # the paper's 13
PAPER = "paper"  # the name of all 13 together
PROMPT_FIELDS = ("targets", "level")
MOST_CONSTRAINTS = 1000  # maximum constraints that a structure's sweeps may make
MOST_VALUES = 10_000  # maximum values of a sweep


class FilePart(Section):
    """Base class for the parts of a file that the user writes. Unknown keys are errors."""

    model_config = ConfigDict(strict=True)


class Bounds(FilePart):
    """A range of integers that includes both ends. An end of None sets no limit."""

    low: int | None = Field(None, alias="from")
    high: int | None = Field(None, alias="to")

    @model_validator(mode="after")
    def _in_order(self) -> Bounds:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"the range from {self.low} to {self.high} is empty")
        return self

    def holds(self, number: int) -> bool:
        """Return whether the range contains a number."""
        if self.low is not None and number < self.low:
            return False
        return self.high is None or number <= self.high


class _SweptRange(FilePart):
    low: int = Field(alias="from")
    high: int = Field(alias="to")
    step: Annotated[int, Field(ge=1)] = 1


class _SweepRule(FilePart):
    sweep: Any


class Take(Bounds):
    """A rule that takes a constraint's target from a text.

    It applies only if all numbers in the target are within the bounds, and the length of an
    observed list is within ``values``.
    """

    how: Literal["value", "common", "least", "greatest", "sample"] = Field(alias="take")
    values: Bounds = Bounds()
    size: int = 0

    @model_validator(mode="after")
    def _sized(self) -> Take:
        if (self.how == "sample") is not (self.size > 0):
            raise ValueError("'size' must be 1 or more, and needs 'take: sample'")
        return self


Sweep: TypeAlias = list[Target]  # a rule that lists the possible targets
Rule: TypeAlias = Sweep | Take
# Nested like the constraint: for each base constraint, its rule (Rules) or its targets (Options).
Rules: TypeAlias = "Rule | tuple[Rules, ...]"
Options: TypeAlias = "list[Target] | tuple[Options, ...]"


def read_rule(raw: object, where: str) -> Rule:
    """Return the rule that parsed YAML defines (a plain target is a sweep with one value)."""
    if not isinstance(raw, Mapping):
        return [grammar.read_targets(raw, where)]
    if "sweep" in raw:
        return _swept(validate(_SweepRule, raw, where).sweep, where)
    return validate(Take, raw, where)


def _swept(raw: Any, where: str) -> Sweep:
    """Return the values of a sweep, given as a list or as ``{from: 3, to: 9, step: 2}``."""
    if isinstance(raw, Mapping):
        bounds = validate(_SweptRange, raw, where)
        raw = range(bounds.low, bounds.high + 1, bounds.step)
    if not isinstance(raw, list | range) or not 0 < len(raw) <= MOST_VALUES:
        form = f"a list of 1 to {MOST_VALUES:,} values, or {{from: …, to: …}}"
        raise DataInvalid(f"{where}: a sweep must be {form}.")
    return [grammar.read_targets(value, where) for value in raw]


def satisfying(
    constraint: Constraint, rules: Rules, text: str, units: Splitter, draws: Callable[[], Draws]
) -> Options | None:
    """Return the targets that the rules allow and with which a text satisfies a constraint.

    They are nested like the constraint. If a text satisfies only some parts of an ``or``, the
    others get all values of their sweeps. The result is None if there are no targets, or if one of
    these others has no sweep.
    """
    if isinstance(constraint, Base):
        assert not isinstance(rules, tuple)
        observed = check.extract(constraint, text, units)
        return options(rules, constraint, observed, draws) or None
    assert isinstance(rules, tuple)
    parts: list[Options] = []
    any_satisfied = False
    for part, rule in zip(constraint.constraints, rules, strict=True):
        targets = satisfying(part, rule, text, units, draws)
        any_satisfied |= targets is not None
        if targets is None and constraint.logic == "or":
            targets = _named(rule)
        if targets is None:
            return None
        parts.append(targets)
    return tuple(parts) if any_satisfied else None


def _named(rules: Rules) -> Options | None:
    """Return all values of the sweeps, nested like the rules, if each rule is a sweep."""
    if isinstance(rules, Take):
        return None
    if isinstance(rules, list):
        return rules
    parts = []
    for rule in rules:
        part = _named(rule)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


def draw(allowed: Options, draws: Callable[[], Draws]) -> Target:
    """Draw a target for each base constraint from its options."""
    if isinstance(allowed, tuple):
        return tuple(draw(part, draws) for part in allowed)
    if len(allowed) == 1:
        return allowed[0]
    return draws().choice(allowed)


def options(rule: Rule, base: Base, observed: Observed, draws: Callable[[], Draws]) -> list[Target]:
    """Return the targets that a rule allows and with which a text satisfies a base constraint.

    ``observed`` is what the constraint extracts from the text. ``draws`` returns the random draws
    for a rule that takes a sample of the extracted values.
    """
    if isinstance(rule, list):
        return [value for value in rule if check.satisfied(base, observed, value)]
    target = _taken(rule, observed, draws)
    if target is None or not _within(target, rule) or not check.satisfied(base, observed, target):
        return []
    return [target]


def _taken(rule: Take, observed: Observed, draws: Callable[[], Draws]) -> Target | None:
    if not isinstance(observed, tuple):
        return observed if rule.how == "value" else None
    if not observed or not _is_whole(observed) or not rule.values.holds(len(observed)):
        return None
    values = cast("tuple[Target, ...]", observed)
    numbers = [number for number in values if isinstance(number, int)]
    match rule.how:
        case "value":
            return values
        case "common":
            return values[0] if len(set(values)) == 1 else None
        case "least":
            return min(numbers, default=None)
        case "greatest":
            return max(numbers, default=None)
    texts = {bare(text): text for text in reversed(values) if isinstance(text, str)}
    clean = sorted(text for text in texts.values() if not suspicious(text))
    if len(clean) < rule.size:
        return None
    return tuple(draws().sample(clean, rule.size))


def _is_whole(observed: Observed) -> bool:
    """Return whether all observed values exist, unlike the ninth of five words."""
    if isinstance(observed, tuple):
        return all(map(_is_whole, observed))
    return observed is not None


def _within(target: Target, bounds: Bounds) -> bool:
    if isinstance(target, tuple):
        return all(_within(part, bounds) for part in target)
    return isinstance(target, str) or bounds.holds(target)


def suspicious(target: Target) -> bool:
    """Return whether a string in a target lacks a letter or digit at its beginning or end.

    >>> suspicious((3, "end")), suspicious(("``", "end"))
    (False, True)
    """
    if isinstance(target, tuple):
        return any(map(suspicious, target))
    return isinstance(target, str) and not (target[:1].isalnum() and target[-1:].isalnum())


def specimen(rule: Rule, base: Base, where: str) -> Target:
    """Return an example of the targets that a rule can give."""
    if isinstance(rule, list):
        return rule[0]
    shape = grammar.observed_shape(base, where)
    if rule.how == "value":
        return _specimen(shape, base)
    several = shape.of if isinstance(shape, Several) else None
    needed = _OBSERVED_BY.get(rule.how, several)
    if several is None or several != needed:
        raise DataInvalid(f"{where}: take: {rule.how} does not fit what is observed here.")
    if rule.how == "sample":
        return ("a",) * rule.size
    return _specimen(several, base)


_OBSERVED_BY: Mapping[str, Shape] = {"least": "number", "greatest": "number", "sample": "text"}
"""The type of the values, by the way in which a rule takes a target from them."""


def _specimen(shape: Shape, base: Base) -> Target:
    if shape == "number":
        return 2
    if shape == "text":
        return "a"
    size = max(2, base.reduction_value or 0)
    match base.transformation:
        case grammar.Position(index=tuple() as indices) if not base.input_level:
            size = len(indices)
    return (_specimen(shape.of, base),) * size


class _File(FilePart):
    name: Annotated[str, Field(pattern=r"^[\w-]+$")]
    level: Literal["word", "sentence", "paragraph", "passage"]
    constraint: Any
    targets: Any
    about: str = ""
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class Structure:
    """A constraint structure, whose instances differ in their targets.

    ``constraints`` has one constraint for each combination of its sweeps' values. ``plain`` is the
    structure as parsed from YAML.
    """

    name: str
    level: Level
    constraints: tuple[Constraint, ...]
    rules: Rules
    prompt: Template | None
    plain: Mapping[str, Any]

    def instruction(self, specification: grammar.Specification) -> str:
        """Return an instance's prompt, rendered from the template or from the constraint."""
        if self.prompt is None:
            return instruction(specification)
        targets = msgspec.json.decode(msgspec.json.encode(specification.targets))  # plain lists
        return self.prompt.render({"targets": targets, "level": self.level})


def find_structures(names: list[str]) -> list[Structure]:
    """Return the structures with the given names.

    A name is ``paper`` (all 13 structures of the paper), the name of one of the 13, a YAML file, or
    a folder of YAML files.
    """
    structures: dict[str, Structure] = {}
    for path in chain.from_iterable(map(_files, names)):
        raw = read_yaml(path)
        trees = raw if isinstance(raw, list) else [raw]
        for number, tree in enumerate(trees, start=1):
            structure = read_structure(tree, f"{path}, structure {number}")
            if structure.name in structures:
                message = f"There are two structures named {structure.name!r}."
                raise DataInvalid(message, "Rename one.")
            structures[structure.name] = structure
    return list(structures.values())


def _files(name: str) -> list[Path]:
    paper = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
    path = paper.get(name, Path(name))
    if name == PAPER:
        path = FOLDER
    if path.is_file():
        return [path]
    if not path.is_dir():
        message = f"{name!r} is neither a structure of the paper nor a file."
        raise DataMissing(message, suggest_name(name, [*paper, PAPER]))
    files = sorted(path.glob("*.yaml"))
    if not files:
        raise DataMissing(f"{name} has no file *.yaml.", "Check the path.")
    return files


def read_yaml(path: Path) -> Any:
    """Return the parsed content of a YAML file."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise DataInvalid(f"{path}: not YAML ({error}).") from None
    except OSError as error:
        raise DataMissing(f"Cannot read {path}: {error.strerror}.", "Check the path.") from None
    grammar.refuse_excess(raw, str(path))
    return raw


def read_structure(raw: Any, where: str = "the structure") -> Structure:
    """Return the structure that parsed YAML defines."""
    grammar.refuse_excess(raw, where)
    file = validate(_File, raw, where)
    place = f"{where}, constraint"
    variants = _expanded(file.constraint, place)
    constraints = [grammar.read_constraint(plain, place) for plain in variants]
    rules = _rules(constraints[0], file.targets, f"{where}, targets")
    for constraint in constraints:
        specimens = _specimens(constraint, rules, where)
        grammar.refuse_misfits(file.level, constraint, specimens, where)
        check.refuse_undecided(constraint, specimens, where)
    prompt: Template | None = None
    if file.prompt is not None:
        prompt = Template(file.prompt, f"{where}, prompt")
        prompt.check_fields(PROMPT_FIELDS)
    return Structure(file.name, file.level, tuple(constraints), rules, prompt, raw)


def _rules(constraint: Constraint, raw: object, where: str) -> Rules:
    if isinstance(constraint, Base):
        return read_rule(raw, where)
    parts = constraint.constraints
    if not isinstance(raw, list) or len(raw) != len(parts):
        raise DataInvalid(f"{where}: {len(parts)} constraints need a list of {len(parts)} rules.")
    rules = []
    for number, (part, rule) in enumerate(zip(parts, raw, strict=True), start=1):
        rules.append(_rules(part, rule, f"{where}.{number}"))
    return tuple(rules)


def _specimens(constraint: Constraint, rules: Rules, where: str) -> Target:
    if isinstance(constraint, Base):
        assert not isinstance(rules, tuple)
        return specimen(rules, constraint, where)
    assert isinstance(rules, tuple)
    pairs = zip(constraint.constraints, rules, strict=True)
    return tuple(_specimens(part, rule, where) for part, rule in pairs)


def _expanded(raw: Any, where: str) -> list[Any]:
    """Return all variants of a YAML tree, with values in place of every ``{sweep: …}``."""
    if isinstance(raw, dict) and set(raw) == {"sweep"}:
        values = _swept(raw["sweep"], where)
        return [list(value) if isinstance(value, tuple) else value for value in values]
    if not isinstance(raw, dict | list):
        return [raw]
    parts = raw.values() if isinstance(raw, dict) else raw
    variants = [_expanded(part, where) for part in parts]
    if prod(map(len, variants)) > MOST_CONSTRAINTS:
        raise DataInvalid(f"{where}: its sweeps make more than {MOST_CONSTRAINTS:,} constraints.")
    trees = map(list, product(*variants))
    if isinstance(raw, dict):
        return [dict(zip(raw, tree, strict=True)) for tree in trees]
    return list(trees)
