"""A constraint in English: the instruction that asks for it.

The wording is COLLIE's published one, byte for byte, where COLLIE has one, since a
model's answer depends on it (its oddities are in `wording`). Constraints of other
forms get plain wording of our own.

>>> from harness.scoring.constraints.form import read
>>> instruction(read({"level": "word", "targets": 11, "constraint": {
...     "target_level": "character", "transformation": {"op": "count"}, "relation": ">="}}))
'Please generate a word with at least 11 characters.'
"""

from __future__ import annotations

from harness.scoring.constraints.grammar import (
    Base,
    Combination,
    Constraint,
    Count,
    ForEach,
    Identity,
    Level,
    Max,
    Min,
    Position,
    Specification,
    Target,
    Transformation,
)
from harness.scoring.constraints.wording import (
    AMOUNT,
    Nouns,
    count_phrase,
    described,
    inside,
    position_phrase,
    quoted,
    several,
    sole,
    unit_nouns,
)

RELATION = {"==": "to be", "!=": "not to be", "in": "to contain", "not in": "not to contain"}
SCOPE = {"all": "all {}s", "any": "at least one {}", "none": "no {}"}
WITH_SPACES = ("sentence", "paragraph", "passage")
"""Where characters are counted in these, the instruction says that spaces count."""


def instruction(specification: Specification) -> str:
    """The request to generate a text under the constraint."""
    level, constraint = specification.level, specification.constraint
    start = f"Please generate a {level}"
    if isinstance(constraint, Base):
        note = (
            " Include whitespace into your character count." if _spaced(constraint, level) else ""
        )
        return f"{start} {clause(constraint, specification.targets)}.{note}"
    if constraint.logic != "all":
        return f"{start} {_joined(constraint, specification.targets, level)}."
    return f"{start}:\n{numbered(_clauses(constraint, specification.targets, level))}"


def numbered(clauses: list[str]) -> str:
    """Clauses as the list that both instruction and feedback have."""
    return ";\n".join(f"{number}) {text}" for number, text in enumerate(clauses, start=1)) + "."


def clause(base: Base, target: Target) -> str:
    """What a base constraint asks for: "with exactly 6 sentences"."""
    transformation, nouns = base.transformation, unit_nouns(base)
    if base.relation in ("in", "not in"):
        return _containing(base, target, nouns) or _whose(base, nouns, target)
    if base.reduction is None:
        asked = asked_phrase(base, transformation, nouns, target)
        if asked:
            return f"with {asked}"
        bound = (Max, ("<=", "<")) if isinstance(transformation, Max) else (Min, (">=", ">"))
        if isinstance(transformation, bound[0]) and base.relation in bound[1]:
            # The longest has at most n where each of them has.
            each = transformation.do
            if isinstance(each, ForEach):
                asked = asked_phrase(base, each.do, inside(nouns), target)
            if asked:
                return f"with each {nouns[0]} having {asked}"
    elif isinstance(transformation, ForEach):
        asked = asked_phrase(base, transformation.do, inside(nouns), target)
        if asked:
            return f"with {_scope(base, nouns[0], target)} having {asked}"
    return _whose(base, nouns, target)


def asked_phrase(base: Base, measured: Transformation, nouns: Nouns, target: Target) -> str | None:
    """A count or a position with its target, None where there is no short wording for it."""
    if isinstance(measured, Count) and base.relation in AMOUNT:
        number = sole(target)
        plural = not isinstance(number, int) or number > 1
        amount = f"{AMOUNT[base.relation]} "
        phrase = count_phrase(amount, measured, nouns[0], number, plural)
        return f"{phrase}, respectively" if several(target) else phrase
    if isinstance(measured, Position) and base.relation == "==":
        return position_phrase(measured, nouns[0], target, "to be")
    return None


def _containing(base: Base, target: Target, nouns: Nouns) -> str | None:
    """Units among the units, or texts within each of them."""
    if base.transformation not in (Identity(), ForEach(Identity())):
        return None
    containing = "containing" if base.relation == "in" else "not containing"
    if base.reduction is None:
        return f"{containing} the {nouns[0]} {quoted(target)}" if len(nouns) == 1 else None
    noun = f"the {nouns[1]} " if len(nouns) > 1 else ""
    return f"with {_scope(base, nouns[0], target)} {containing} {noun}{quoted(target)}"


def _whose(base: Base, nouns: Nouns, target: Target) -> str:
    """The wording of last resort: any transformation, any relation."""
    relation = RELATION.get(base.relation) or f"to be {AMOUNT[base.relation]}"
    scope = f", in {_scope(base, 'case', target)}," if base.reduction else ""
    each = ", respectively" if base.reduction and several(target) else ""
    return f"with {described(base.transformation, nouns)}{scope} {relation} {quoted(target)}{each}"


def _scope(base: Base, noun: str, target: Target) -> str:
    """For how many of the units: "all words"; a list of targets is met one by one."""
    if base.reduction == "all" and isinstance(target, tuple):
        return f"{noun}s" if len(target) > 1 else f"a single {noun}"
    if base.reduction in SCOPE:
        return SCOPE[base.reduction].format(noun)
    n = base.reduction_value or 0
    return f"{base.reduction} {n} {noun}{'s' if n > 1 else ''}"


def _spaced(base: Base, level: Level) -> bool:
    """Whether characters of more than a word are counted."""
    counted = base.transformation
    if isinstance(counted, Max | Min):
        counted = counted.do
    if isinstance(counted, ForEach) and base.input_level:
        counted = counted.do
    elif base.input_level:
        return False
    return (
        counted == Count()
        and base.target_level == "character"
        and (base.input_level or level) in WITH_SPACES
    )


def _clauses(tree: Combination, targets: Target, level: Level) -> list[str]:
    assert isinstance(targets, tuple)  # `form` refuses anything else
    return [
        _nested(part, target, level) for part, target in zip(tree.constraints, targets, strict=True)
    ]


def _nested(constraint: Constraint, target: Target, level: Level) -> str:
    if isinstance(constraint, Base):
        spaces = " including whitespace" if _spaced(constraint, level) else ""
        return clause(constraint, target) + spaces
    return f"({_joined(constraint, target, level)})"


def _joined(tree: Combination, targets: Target, level: Level) -> str:
    return (" or " if tree.logic == "or" else " and ").join(_clauses(tree, targets, level))
