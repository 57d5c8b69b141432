"""Feedback by rule: what was asked for, and what was generated instead.

COLLIE's wording, byte for byte where it has one. It lists every constraint with
what was observed, those that hold included, and its grammar is as it is ("with 86
character"): recorded conversations went on from exactly this text.

>>> print(feedback(three_words, check(three_words, "Snow.")))  # doctest: +SKIP
Your task is to generate a sentence with exactly 3 words.
However, you just generated a sentence with 1 words.
"""

from __future__ import annotations

from harness.scoring.constraints.check import Finding, Verdict
from harness.scoring.constraints.grammar import (
    Base,
    Count,
    ForEach,
    Identity,
    Position,
    Specification,
    Transformation,
)
from harness.scoring.constraints.relations import Observed
from harness.scoring.constraints.render import instruction, numbered
from harness.scoring.constraints.wording import (
    Nouns,
    count_phrase,
    described,
    inside,
    position_phrase,
    quoted,
    sole,
    unit_nouns,
)


def feedback(specification: Specification, verdict: Verdict) -> str:
    """What the user's next turn says about a text with this verdict."""
    level, constraint = specification.level, specification.constraint
    if verdict.passed:
        # Quirk: a single constraint on each of the text's parts names the part.
        part = constraint.input_level if isinstance(constraint, Base) else None
        return f"The generated {part or level} satisfies all constraints."
    clauses = [_clause(finding, specification) for finding in verdict.findings]
    joined = f" {clauses[0]}." if isinstance(constraint, Base) else f":\n{numbered(clauses)}"
    asked = instruction(specification).removeprefix("Please ").removesuffix(".")
    return f"Your task is to {asked}.\nHowever, you just generated a {level}{joined}"


def _clause(finding: Finding, specification: Specification) -> str:
    """What was observed for a base constraint: "with 86 character"."""
    base, observed = finding.base, finding.observed
    transformation, nouns = base.transformation, unit_nouns(base)
    if base.input_level is None and transformation in (ForEach(Identity()), Identity()):
        return f"containing the {nouns[0]} {quoted(observed)}"
    if base.reduction is None:
        told = _told(base, transformation, nouns, observed, specification)
        return f"with {told}" if told else _whose(base, nouns, observed)
    if isinstance(transformation, ForEach):
        told = _told(base, transformation.do, inside(nouns), observed, specification)
        if told:
            some = "some " if base.reduction == "all" else ""
            return f"with {some}{nouns[0]}s having {told}"
    return _whose(base, nouns, observed)


def _told(
    base: Base,
    measured: Transformation,
    nouns: Nouns,
    observed: Observed,
    specification: Specification,
) -> str | None:
    """A count or a position as observed, None where there is no short wording for it."""
    if isinstance(measured, Count):
        worst = _worst(base, sole(observed))
        # Quirk: the plural is where English has the singular.
        return count_phrase("", measured, nouns[0], worst, plural=worst == 1)
    if isinstance(measured, Position):
        # Quirk: where there is nothing, the targets are told, all of them.
        return position_phrase(measured, nouns[0], observed or specification.targets, "being")
    return None


def _worst(base: Base, counts: Observed) -> Observed:
    """Of several counts the one farthest from its bound; all of them where there is no bound."""
    if not isinstance(counts, tuple):
        return counts
    numbers = [count for count in counts if isinstance(count, int)]
    if numbers and base.relation in (">=", ">"):
        return min(numbers)
    if numbers and base.relation in ("<=", "<"):
        return max(numbers)
    return counts


def _whose(base: Base, nouns: Nouns, observed: Observed) -> str:
    return f"with {described(base.transformation, nouns)} being {quoted(observed)}"
