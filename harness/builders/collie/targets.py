"""Target rules of a structure, and what they take from a text.

    sweep: {from: 3, to: 9}        # or a list: one of the values, if the text satisfies it
    take: least                    # or: what is observed in the text
    from: 10

A text gives no target if it satisfies no value of a sweep, or if what is observed is out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

from harness.builders.draws import Draws
from harness.errors import DataInvalid, nearest
from harness.scoring.constraints import check
from harness.scoring.constraints.check import Observed, bare
from harness.scoring.constraints.grammar import (
    MANY_TEXTS,
    Base,
    Constraint,
    Position,
    Several,
    Shape,
    Target,
    outcome,
    read_targets,
)
from harness.scoring.constraints.levels import Splitter

Taking: TypeAlias = Literal["value", "common", "least", "greatest", "sample"]
TAKINGS: tuple[Taking, ...] = get_args(Taking)

MOST_VALUES = 10_000
"""Values of a sweep."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A range of whole numbers with both ends included; None is an open end."""

    low: int | None = None
    high: int | None = None

    def holds(self, number: int) -> bool:
        """Return whether a number is in the range."""
        return (self.low is None or number >= self.low) and (
            self.high is None or number <= self.high
        )


@dataclass(frozen=True, slots=True)
class Sweep:
    """A rule that takes those of some given values that the text satisfies."""

    values: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Take:
    """A rule that takes what is observed in the text.

    Attributes:
        how: ``value``, as it is; ``common``, the one value that several have in common; ``least``
            or ``greatest`` of several numbers; ``sample``, some of several texts.
        bounds: Bounds of each number that is taken.
        values: How many values must be observed, if there are several.
        size: Size of a sample.
    """

    how: Taking
    bounds: Bounds = Bounds()
    values: Bounds = Bounds()
    size: int = 0


Rule: TypeAlias = Sweep | Take
Rules: TypeAlias = "Rule | tuple[Rules, ...]"
"""A rule for each base constraint, nested like the constraint."""
Options: TypeAlias = "list[Target] | tuple[Options, ...]"
"""For each base constraint the targets that a text satisfies, nested like the constraint."""


def read_rule(raw: object, where: str) -> Rule:
    """Read a rule from its plain form; a target stands for a sweep over itself.

    Raises:
        DataInvalid: It is wrong; the message begins with ``where``.
    """
    if not isinstance(raw, Mapping):
        return Sweep((read_targets(raw, where),))
    if "sweep" in raw:
        _refuse_others(raw, ("sweep",), where)
        return Sweep(swept(raw["sweep"], where))
    _refuse_others(raw, ("take", "from", "to", "values", "size"), where)
    how = raw.get("take")
    if how not in TAKINGS:
        raise DataInvalid(
            f"{where}: 'take' is missing or none of {', '.join(TAKINGS)}.",
            nearest(str(how), TAKINGS) if how else "Write sweep: [values], or take: value.",
        )
    size = raw.get("size", 0)
    if (how == "sample") is not (_is_number(size) and size > 0):
        raise DataInvalid(f"{where}: 'size', from 1, goes with take: sample and with no other.")
    bounds = _bounds({key: raw[key] for key in ("from", "to") if key in raw}, where)
    return Take(how, bounds, _bounds(raw.get("values", {}), f"{where}, values"), size)


def swept(raw: object, where: str) -> tuple[Target, ...]:
    """Return the values of a sweep: a list, or ``{from: 3, to: 9}``, in steps of ``step`` or 1.

    Raises:
        DataInvalid: It is neither; the message begins with ``where``.
    """
    if isinstance(raw, Mapping):
        _refuse_others(raw, ("from", "to", "step"), where)
        bounds = _bounds({key: raw[key] for key in ("from", "to") if key in raw}, where)
        step = raw.get("step", 1)
        if bounds.low is None or bounds.high is None or not _is_number(step) or step < 1:
            raise DataInvalid(f"{where}: a sweep goes from a number to a number, step from 1.")
        if (bounds.high - bounds.low) // step >= MOST_VALUES:
            raise DataInvalid(f"{where}: a sweep over more than {MOST_VALUES:,} values.")
        return tuple(range(bounds.low, bounds.high + 1, step))
    if not isinstance(raw, list | tuple) or not 0 < len(raw) <= MOST_VALUES:
        raise DataInvalid(
            f"{where}: a sweep is over a list of 1 to {MOST_VALUES:,} values, or over {{from, to}}."
        )
    return tuple(read_targets(value, where) for value in raw)


def satisfying(
    constraint: Constraint, rules: Rules, text: str, units: Splitter, draws: Callable[[], Draws]
) -> Options | None:
    """Find the targets that a text satisfies.

    One part of an ``or`` must be satisfied; the others may get any value of their sweeps.

    Args:
        constraint: The constraint.
        rules: A rule for each of its base constraints.
        text: The text.
        units: The splitter of texts.
        draws: Returns a stream of draws, if something is sampled.

    Returns:
        The options for each base constraint; None if the text cannot satisfy the constraint.
    """
    if isinstance(constraint, Base):
        assert not isinstance(rules, tuple)
        return options(rules, constraint, check.extract(constraint, text, units), draws) or None
    assert isinstance(rules, tuple)
    parts: list[Options] = []
    any_satisfied = False
    for part, rule in zip(constraint.constraints, rules, strict=True):
        found = satisfying(part, rule, text, units, draws)
        any_satisfied |= found is not None
        if found is None and constraint.logic == "or":
            found = _named(rule)
        if found is None:
            return None
        parts.append(found)
    return tuple(parts) if any_satisfied else None


def _named(rules: Rules) -> Options | None:
    """Return all values that sweeps name, or None if one is to be taken from the text."""
    if isinstance(rules, Sweep):
        return list(rules.values)
    if not isinstance(rules, tuple):
        return None
    parts = [_named(rule) for rule in rules]
    return None if None in parts else tuple(part for part in parts if part is not None)


def draw(found: Options, draws: Callable[[], Draws]) -> Target:
    """Draw one target from the options of each base constraint."""
    if isinstance(found, list):
        return found[0] if len(found) == 1 else draws().choice(found)
    return tuple(draw(part, draws) for part in found)


def options(rule: Rule, base: Base, observed: Observed, draws: Callable[[], Draws]) -> list[Target]:
    """Return the targets that a text can get for one base constraint, given what is observed in
    it.
    """
    if isinstance(rule, Sweep):
        return [value for value in rule.values if check.satisfied(base, observed, value)]
    taken = _taken(rule, observed, draws)
    if taken is None or not _within(taken, rule.bounds):
        return []
    return [taken] if check.satisfied(base, observed, taken) else []


def _taken(rule: Take, observed: Observed, draws: Callable[[], Draws]) -> Target | None:
    if not isinstance(observed, tuple):
        return observed if rule.how == "value" else None
    if not observed or not _is_whole(observed) or not rule.values.holds(len(observed)):
        return None
    whole = cast("tuple[Target, ...]", observed)
    match rule.how:
        case "value":
            return whole
        case "common":
            return whole[0] if len(set(whole)) == 1 else None
        case "sample":
            texts = {bare(text): text for text in reversed(whole) if isinstance(text, str)}
            clean = sorted(text for text in texts.values() if not suspicious(text))
            return tuple(draws().sample(clean, rule.size)) if len(clean) >= rule.size else None
    numbers = [number for number in whole if isinstance(number, int)]
    if not numbers:
        return None
    return min(numbers) if rule.how == "least" else max(numbers)


def _is_whole(observed: Observed) -> bool:
    """Return whether nothing is missing (such as the ninth of five words)."""
    return all(map(_is_whole, observed)) if isinstance(observed, tuple) else observed is not None


def _within(target: Target, bounds: Bounds) -> bool:
    if isinstance(target, tuple):
        return all(_within(part, bounds) for part in target)
    return bounds.holds(target) if isinstance(target, int) else True


def suspicious(target: Target) -> bool:
    """Return whether a text among the targets does not begin and end with a letter or digit.

    >>> suspicious((3, "end")), suspicious(("``", "end"))
    (False, True)
    """
    if isinstance(target, tuple):
        return any(map(suspicious, target))
    return isinstance(target, str) and not (target[:1].isalnum() and target[-1:].isalnum())


def specimen(rule: Rule, base: Base, where: str) -> Target:
    """Return an example of a target that a rule gives, to check that it fits the constraint.

    Raises:
        DataInvalid: The rule cannot take anything from what the constraint observes.
    """
    if isinstance(rule, Sweep):
        return rule.values[0]
    units: Shape = Several(MANY_TEXTS) if base.input_level else MANY_TEXTS
    shape = outcome(base.transformation, units, where)
    if rule.how == "value":
        return _specimen(shape, base)
    several = shape.of if isinstance(shape, Several) else None
    wanted = {"least": "number", "greatest": "number", "sample": "text"}.get(rule.how, several)
    if several is None or several != wanted:
        raise DataInvalid(f"{where}: take: {rule.how} does not fit what is observed here.")
    return ("a",) * rule.size if rule.how == "sample" else _specimen(several, base)


def _specimen(shape: Shape, base: Base) -> Target:
    if not isinstance(shape, Several):
        return 1 if shape == "number" else "a"
    index = base.transformation.index if isinstance(base.transformation, Position) else None
    size = len(index) if isinstance(index, tuple) and not base.input_level else 2
    return (_specimen(shape.of, base),) * size


def _bounds(raw: object, where: str) -> Bounds:
    if not isinstance(raw, Mapping):
        raise DataInvalid(f"{where}: a range is {{from: …, to: …}}, not {raw!r:.40}.")
    _refuse_others(raw, ("from", "to"), where)
    low, high = raw.get("from"), raw.get("to")
    for end in (low, high):
        if end is not None and not _is_number(end):
            raise DataInvalid(f"{where}: a range goes from a number to a number, not {end!r:.40}.")
    if low is not None and high is not None and low > high:
        raise DataInvalid(f"{where}: the range from {low} to {high} is empty.")
    return Bounds(low, high)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _refuse_others(raw: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in raw:
        if key not in known:
            raise DataInvalid(f"{where}: unknown key {key!r}.", nearest(str(key), known))
