"""What a check found, in words: COLLIE's feedback for the model, and a score with short reasons.

The feedback is COLLIE's wording, byte for byte where it has one. It lists every constraint with
what was observed, even if it holds, and keeps COLLIE's grammar ("with 86 character"), because
recorded conversations continue from exactly this text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from harness.records import Score
from harness.scoring import cut
from harness.scoring.constraints import render
from harness.scoring.constraints.check import (
    CheckResult,
    ConstraintFinding,
    Observed,
    holds,
    outcomes,
)
from harness.scoring.constraints.grammar import (
    Base,
    Count,
    ForEach,
    Identity,
    Position,
    Specification,
    Target,
    Transformation,
)
from harness.scoring.constraints.render import AMOUNT, described, inside, quoted

LONGEST_REASON = 300
"""Characters."""
LONGEST_TEXT = 60
"""Characters of an observed text or target in details and reasons."""
MOST_VALUES = 8
"""Values of an observed or target list in them."""

_NUMBER = 9_876_543_210
"""Stands for any number above one while a clause is worded."""


def feedback(specification: Specification, result: CheckResult) -> str:
    """Write the user's next turn about a text with this result."""
    level, constraint = specification.level, specification.constraint
    if result.passed:
        # Quirk: a single constraint on each of the text's parts names the part.
        part = constraint.input_level if isinstance(constraint, Base) else None
        return f"The generated {part or level} satisfies all constraints."
    clauses = [_clause(finding, specification) for finding in result.findings]
    joined = f" {clauses[0]}." if isinstance(constraint, Base) else f":\n{render.numbered(clauses)}"
    asked = render.instruction(specification).removeprefix("Please ").removesuffix(".")
    return f"Your task is to {asked}.\nHowever, you just generated a {level}{joined}"


def _clause(finding: ConstraintFinding, specification: Specification) -> str:
    """Describe what was observed for a base constraint: "with 86 character"."""
    base, observed = finding.base, finding.observed
    transformation, nouns = base.transformation, render.unit_nouns(base)
    if base.input_level is None and transformation in (ForEach(Identity()), Identity()):
        return f"containing the {nouns[0]} {quoted(observed)}"
    if base.reduction is None:
        phrase = _observed_phrase(base, transformation, nouns, observed, specification)
        return f"with {phrase}" if phrase else _whose(base, nouns, observed)
    if isinstance(transformation, ForEach):
        phrase = _observed_phrase(base, transformation.do, inside(nouns), observed, specification)
        if phrase:
            some = "some " if base.reduction == "all" else ""
            return f"with {some}{nouns[0]}s having {phrase}"
    return _whose(base, nouns, observed)


def _observed_phrase(
    base: Base,
    measured: Transformation,
    nouns: render.Nouns,
    observed: Observed,
    specification: Specification,
) -> str | None:
    """Describe an observed count or position, or return None if there is no short wording."""
    if isinstance(measured, Count):
        worst = _worst(base, render.sole(observed))
        # Quirk: plural and singular are swapped.
        return render.count_phrase("", measured, nouns[0], worst, plural=worst == 1)
    if isinstance(measured, Position):
        # Quirk: if there is nothing, all the targets are listed.
        return render.position_phrase(
            measured, nouns[0], observed or specification.targets, "being"
        )
    return None


def _worst(base: Base, counts: Observed) -> Observed:
    """Return the count farthest from the bound, or all counts if there is no bound."""
    if not isinstance(counts, tuple):
        return counts
    numbers = [count for count in counts if isinstance(count, int)]
    if numbers and base.relation in (">=", ">"):
        return min(numbers)
    if numbers and base.relation in ("<=", "<"):
        return max(numbers)
    return counts


def _whose(base: Base, nouns: render.Nouns, observed: Observed) -> str:
    return f"with {described(base.transformation, nouns)} being {quoted(observed)}"


def score(result: CheckResult) -> Score:
    """Score a checked text: a short reason for people, compact details for analysis."""
    reasons = ["" if finding.passed else reason(finding) for finding in result.findings]
    why = "" if result.passed else cut("; ".join(filter(None, reasons)), LONGEST_REASON)
    details = {"constraints": list(map(_details, result.findings, reasons))}
    return Score(result.passed, result.passed, why, details)


def reason(finding: ConstraintFinding) -> str:
    """Say why a base constraint failed, in a few words: "98 of 100 words"."""
    base, observed, target = finding.base, finding.observed, finding.target
    transformation, nouns = base.transformation, render.unit_nouns(base)
    if base.reduction is not None and isinstance(observed, tuple):
        held = outcomes(base, observed, target)
        if held is None:
            asked = len(target) if isinstance(target, tuple) else 1
            return f"{len(observed)} of {asked} {nouns[0]}s"
        met = f"{sum(held)} of {len(held)} {nouns[0]}s"
        if not isinstance(transformation, ForEach):
            return f"{met} as asked"
        phrase = None
        if not isinstance(target, tuple):
            phrase = render.asked_phrase(base, transformation.do, inside(nouns), target)
        return f"{met} have {phrase or f'{described(transformation.do, inside(nouns))} as asked'}"
    if base.relation in ("in", "not in"):
        wanted = target if isinstance(target, tuple) else (target,)
        contained = tuple(part for part in wanted if holds("in", observed, part))
        if base.relation == "not in":
            return f"contains {_shown(contained)}"
        return f"lacks {_shown(tuple(part for part in wanted if part not in contained))}"
    if isinstance(transformation, Count) and transformation.of is None and base.relation in AMOUNT:
        amount = "" if base.relation == "==" else f"{AMOUNT[base.relation]} "
        return f"{quoted(observed)} of {amount}{quoted(target)} {nouns[0]}s"
    return f"{described(transformation, nouns)}: {_shown(observed)}, not {_shown(target)}"


def kind(base: Base, target: Target) -> str:
    """Describe a base constraint without its values, to count those of one kind."""
    return _kind(base, _left_out(base, target))


@lru_cache(maxsize=4096)  # a data set has few kinds, which every answer needs
def _kind(base: Base, left_out: Target) -> str:
    return render.clause(base, left_out).replace(str(_NUMBER), "N")


def _left_out(base: Base, target: Target) -> Target:
    if isinstance(target, tuple):
        # Several positions have a value each; any other list may be of any length.
        each = target if _has_positions(base) else target[:2]
        return tuple(_left_out(base, one) for one in each)
    return _NUMBER if isinstance(target, int) else "…"


def _has_positions(base: Base) -> bool:
    measured = base.transformation
    if isinstance(measured, ForEach):
        measured = measured.do
    return isinstance(measured, Position) and isinstance(measured.index, tuple)


def _details(finding: ConstraintFinding, why: str) -> dict[str, Any]:
    details = {
        "constraint": cut(render.clause(finding.base, finding.target), LONGEST_REASON),
        "kind": cut(kind(finding.base, finding.target), LONGEST_REASON),
        "passed": finding.passed,
        "observed": _compact(finding.observed),
        "target": _compact(finding.target),
    }
    return details | {"reason": why[:LONGEST_REASON]} if why else details


def _compact(value: Observed) -> Any:
    """Shorten a value for a line of JSON; cuts in long texts and lists are marked."""
    if isinstance(value, str):
        return cut(value, LONGEST_TEXT)
    if not isinstance(value, tuple):
        return value
    kept = [_compact(part) for part in value[:MOST_VALUES]]
    return [*kept, f"… {len(value) - MOST_VALUES} more"] if len(value) > MOST_VALUES else kept


def _shown(value: Observed) -> str:
    if isinstance(value, tuple):
        more = f" and {len(value) - MOST_VALUES} more" if len(value) > MOST_VALUES else ""
        return ", ".join(map(_shown, value[:MOST_VALUES])) + more
    return quoted(cut(value, LONGEST_TEXT) if isinstance(value, str) else value)
