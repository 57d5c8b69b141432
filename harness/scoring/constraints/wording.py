"""Words for units, transformations and values, as instruction and feedback use them.

The wording of values is COLLIE's, oddities included: texts stand in quotes that
are never escaped, what is missing is '(empty)', one list is "respectively" after
a comma and the other without. Recorded prompts and feedback have it so.

>>> ordinal(3), ordinal(-1), quoted(("a", None, 2))
('4th', 'last', "'a', '(empty)', 2")
"""

from __future__ import annotations

from typing import TypeAlias

from harness.plugins import calling
from harness.scoring.constraints.grammar import (
    Base,
    Count,
    ForEach,
    Identity,
    Max,
    Measure,
    Min,
    Position,
    Transformation,
)
from harness.scoring.constraints.measuring import measure
from harness.scoring.constraints.relations import Observed

AMOUNT = {
    "==": "exactly",
    "!=": "not exactly",
    ">=": "at least",
    "<=": "at most",
    "<": "less than",
    ">": "more than",
}

Nouns: TypeAlias = tuple[str, ...]


def unit_nouns(base: Base) -> Nouns:
    """What the units are called, from the outermost in."""
    return (base.input_level, base.target_level) if base.input_level else (base.target_level,)


def inside(nouns: Nouns) -> Nouns:
    """What the units of a unit are called; at last everything is made of characters."""
    return nouns[1:] or ("character",)


def described(transformation: Transformation, nouns: Nouns) -> str:
    """A transformation as a noun phrase: "the last word of each sentence"."""
    noun, inner = nouns[0], inside(nouns)
    match transformation:
        case Count(of=of):
            return f"the number of {noun}s" + ("" if of is None else f" {quoted(of)}")
        case Position(index=index):
            if isinstance(index, int):
                return f"the {ordinal(index)} {noun}"
            return f"the {', '.join(map(ordinal, index))} {noun}s"
        case ForEach(do=do):
            if isinstance(do, Identity):
                return f"the {noun}s"
            return f"{described(do, inner)} of each {noun}"
        case Max(do=do):
            return f"the greatest of {described(do, nouns)}"
        case Min(do=do):
            return f"the least of {described(do, nouns)}"
        case Measure(name=name):
            with calling(f"The measure {name!r}"):
                return measure(name).phrase(f"{noun}s")
        case Identity():
            return f"the {noun}s"


def count_phrase(amount: str, count: Count, noun: str, number: Observed, plural: bool) -> str:
    """A count with its unit, as in "exactly 6 sentences"; the caller knows the plural."""
    if count.of is not None:
        return f"the {noun} {quoted(count.of)} {amount}{quoted(number)} times"
    return f"{amount}{quoted(number)} {noun}{'s' if plural else ''}"


def position_phrase(position: Position, noun: str, value: Observed, verb: str) -> str:
    """A position with its text; "respectively" follows a comma only for a single position."""
    if isinstance(position.index, tuple) and len(position.index) > 1:
        places = ", ".join(map(ordinal, position.index))
        return f"the {places} {noun}s {verb} {quoted(value)} respectively"
    index = position.index if isinstance(position.index, int) else position.index[0]
    # A list is always "to be", also in feedback, which says "being" elsewhere.
    tail = f"to be {quoted(value)}, respectively" if several(value) else f"{verb} {quoted(value)}"
    return f"the {ordinal(index)} {noun} {tail}"


def several(value: Observed) -> bool:
    """Whether a value reads as a list; a list of one does not."""
    return isinstance(value, tuple) and len(value) > 1


def sole(value: Observed) -> Observed:
    """The value of a list of one."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def quoted(value: Observed) -> str:
    """Texts in single quotes (never escaped), numbers bare, what is missing as '(empty)'."""
    if isinstance(value, tuple):
        return ", ".join(map(quoted, value))
    if isinstance(value, int):
        return str(value)
    return f"'{value}'" if value is not None else "'(empty)'"


def ordinal(index: int) -> str:
    """An index from 0 in words: "1st" for 0, "last" for -1."""
    if index == -1:
        return "last"
    if index < 0:
        return f"{ordinal(-index - 1)} to last"
    number = index + 1
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0)
    return f"{number}{suffix or 'th'}"
