"""Where a base constraint's target comes from: a sweep over given values, or the text itself.

    sweep: {from: 3, to: 9}        # or a list: whichever of these the text satisfies
    take: least                    # or: what is observed in the text
    from: 10

A text that satisfies no value, or in which what is observed is out of bounds, gives no target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

from harness.builders.draws import Draws
from harness.errors import DataInvalid, nearest
from harness.scoring.constraints.check import satisfied
from harness.scoring.constraints.form import read_targets
from harness.scoring.constraints.grammar import Base, Position, Target
from harness.scoring.constraints.relations import Observed, bare
from harness.scoring.constraints.shapes import MANY_TEXTS, Several, Shape, outcome

Taking: TypeAlias = Literal["value", "common", "least", "greatest", "sample"]
TAKINGS: tuple[Taking, ...] = get_args(Taking)

MOST_VALUES = 10_000
"""Of a sweep."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A range of whole numbers, both ends included; None where it has no end."""

    low: int | None = None
    high: int | None = None

    def holds(self, number: int) -> bool:
        """Whether a number is in the range."""
        return (self.low is None or number >= self.low) and (
            self.high is None or number <= self.high
        )


@dataclass(frozen=True, slots=True)
class Sweep:
    """Every one of some values that the text satisfies."""

    values: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Take:
    """What is observed in the text.

    how: ``value``, as it is; ``common``, the one value that all of several are; ``least`` or
        ``greatest`` of several numbers; ``sample``, some of several texts.
    bounds: of each number that is taken.
    values: how many values must be observed, where there are several.
    size: of a sample.
    """

    how: Taking
    bounds: Bounds = Bounds()
    values: Bounds = Bounds()
    size: int = 0


Rule: TypeAlias = Sweep | Take


def read_rule(raw: object, where: str) -> Rule:
    """A rule in its plain form; a target of its own is a sweep over itself.

    Raises: DataInvalid.
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
    if (how == "sample") is not (isinstance(size, int) and not isinstance(size, bool) and size > 0):
        raise DataInvalid(f"{where}: 'size', from 1, goes with take: sample and with no other.")
    bounds = _bounds({key: raw[key] for key in ("from", "to") if key in raw}, where)
    return Take(how, bounds, _bounds(raw.get("values", {}), f"{where}, values"), size)


def swept(raw: object, where: str) -> tuple[Target, ...]:
    """The values of a sweep: a list, or ``{from: 3, to: 9}``, in steps of ``step`` or 1.

    Raises: DataInvalid.
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


def options(rule: Rule, base: Base, observed: Observed, draws: Callable[[], Draws]) -> list[Target]:
    """The targets that a text could get here, in an order of their own; none where it has none.

    observed: what the base constraint observes in the text.
    draws: gives a stream, where something is sampled.
    """
    if isinstance(rule, Sweep):
        return [value for value in rule.values if satisfied(base, observed, value)]
    taken = _taken(rule, observed, draws)
    if taken is None or not _within(taken, rule.bounds) or not satisfied(base, observed, taken):
        return []
    return [taken]


def suspicious(target: Target) -> bool:
    """Whether a text among the targets does not begin and end with a letter or digit.

    >>> suspicious((3, "end")), suspicious(("``", "end"))
    (False, True)
    """
    if isinstance(target, tuple):
        return any(map(suspicious, target))
    return isinstance(target, str) and not _is_clean(target)


def specimen(rule: Rule, base: Base, where: str) -> Target:
    """A target of the form that the rule gives, to see whether it fits.

    Raises: DataInvalid where nothing of the kind can be taken from what the constraint observes.
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
            clean = sorted(text for text in texts.values() if _is_clean(text))
            return tuple(draws().sample(clean, rule.size)) if len(clean) >= rule.size else None
    numbers = [number for number in whole if isinstance(number, int)]
    if not numbers:
        return None
    return min(numbers) if rule.how == "least" else max(numbers)


def _is_whole(observed: Observed) -> bool:
    """Whether nothing is missing (the ninth of five words)."""
    if isinstance(observed, tuple):
        return all(map(_is_whole, observed))
    return observed is not None


def _within(target: Target, bounds: Bounds) -> bool:
    if isinstance(target, tuple):
        return all(_within(part, bounds) for part in target)
    return bounds.holds(target) if isinstance(target, int) else True


def _is_clean(text: str) -> bool:
    return bool(text) and text[0].isalnum() and text[-1].isalnum()


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
