"""A verdict as a `Score`: a short reason for people, compact details for analysis.

>>> score(check(hundred_words, text)).reason  # doctest: +SKIP
'98 of 100 words'
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from harness.records import Score
from harness.scoring.constraints.check import Finding, Verdict, outcomes
from harness.scoring.constraints.grammar import Base, Count, ForEach, Position, Target
from harness.scoring.constraints.relations import Observed, holds
from harness.scoring.constraints.render import asked_phrase, clause
from harness.scoring.constraints.wording import AMOUNT, described, inside, quoted, unit_nouns

LONGEST_REASON = 300
"""Characters."""
LONGEST_TEXT = 60
"""Characters of an observed or wanted text that are kept."""
MOST_VALUES = 8
"""Values of an observed or wanted list that are kept."""


def score(verdict: Verdict) -> Score:
    """The score of a checked text: True or False, with the reason where False."""
    reasons = [None if finding.passed else reason(finding) for finding in verdict.findings]
    failed = [why for why in reasons if why is not None]
    return Score(
        value=verdict.passed,
        passed=verdict.passed,
        reason="" if verdict.passed else _cut("; ".join(failed), LONGEST_REASON),
        details={"constraints": list(map(_details, verdict.findings, reasons))},
    )


def reason(finding: Finding) -> str:
    """Why a base constraint failed, in a few words: "98 of 100 words"."""
    base, observed, target = finding.base, finding.observed, finding.target
    transformation, nouns = base.transformation, unit_nouns(base)
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
            phrase = asked_phrase(base, transformation.do, inside(nouns), target)
        return f"{met} have {phrase or described(transformation.do, inside(nouns)) + ' as asked'}"
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
    """A base constraint with its values left out, for counting those of one kind.

    >>> kind(Base("word", Count(), "=="), 6)
    'with exactly N words'
    """
    return _kind(base, _left_out(base, target))


@lru_cache(maxsize=4096)  # a data set has few kinds, and each is asked for with every answer
def _kind(base: Base, left_out: Target) -> str:
    return clause(base, left_out).replace(str(_NUMBER), "N")


_NUMBER = 9_876_543_210
"""Stands for a number while the clause is worded: that of more than one."""


def _left_out(base: Base, target: Target) -> Target:
    if isinstance(target, tuple):
        # A position of several has a value for each; any other list may be of any length.
        each = target if _has_place_for_each(base) else target[:2]
        return tuple(_left_out(base, one) for one in each)
    return _NUMBER if isinstance(target, int) else "…"


def _has_place_for_each(base: Base) -> bool:
    measured = base.transformation
    if isinstance(measured, ForEach):
        measured = measured.do
    return isinstance(measured, Position) and isinstance(measured.index, tuple)


def _details(finding: Finding, why: str | None) -> dict[str, Any]:
    """why: `reason` of a failed one."""
    details = {
        "constraint": _cut(clause(finding.base, finding.target), LONGEST_REASON),
        "kind": _cut(kind(finding.base, finding.target), LONGEST_REASON),
        "passed": finding.passed,
        "observed": _compact(finding.observed),
        "target": _compact(finding.target),
    }
    return details if why is None else details | {"reason": why[:LONGEST_REASON]}


def _compact(value: Observed) -> Any:
    """A value for a line of JSON: long texts and lists are cut, and show it."""
    if isinstance(value, str):
        return _cut(value, LONGEST_TEXT)
    if not isinstance(value, tuple):
        return value
    kept = [_compact(part) for part in value[:MOST_VALUES]]
    return [*kept, f"… {len(value) - MOST_VALUES} more"] if len(value) > MOST_VALUES else kept


def _shown(value: Observed) -> str:
    if isinstance(value, tuple):
        more = f" and {len(value) - MOST_VALUES} more" if len(value) > MOST_VALUES else ""
        return ", ".join(map(_shown, value[:MOST_VALUES])) + more
    return quoted(_cut(value, LONGEST_TEXT) if isinstance(value, str) else value)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
