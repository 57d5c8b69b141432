"""Describes constraints in English: instructions, feedback, and reasons for scores.

COLLIE's wordings are used byte for byte, including their grammar ("with 86 character"), because
models' answers depend on them and recorded conversations contain them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias

from harness.plugin_interface import calling
from harness.plugins.benchmarks.collie.constraints import check, grammar
from harness.plugins.benchmarks.collie.constraints.check import (
    CheckResult,
    ConstraintFinding,
    Observed,
)
from harness.plugins.benchmarks.collie.constraints.grammar import (
    Base,
    Count,
    ForEach,
    Level,
    Target,
    Transformation,
)
from harness.records import Score
from harness.wording import first_few, truncated

LONGEST_REASON = 300  # maximum characters of a score's reason, and of each text in its details
LONGEST_TEXT, MOST_VALUES = 60, 8
"""Maximum characters of a string, and maximum items of a list, in a score's details and reason."""
_NUMBER = 9_876_543_210
"""Stands for any number in `_kind`, which replaces it by N. Above 1, so that units are plural."""

AMOUNT = {
    **{"==": "exactly", "!=": "not exactly", ">=": "at least", "<=": "at most"},
    **{"<": "less than", ">": "more than"},
}
_RELATION = {"==": "to be", "!=": "not to be", "in": "to contain", "not in": "not to contain"}
_SCOPE = {"all": "all {}s", "any": "at least one {}", "none": "no {}"}
_WITH_SPACES = ("sentence", "paragraph", "passage")
"""Levels of text that contain spaces. Instructions that count characters mention the spaces."""

_PARA01 = Base(
    target_level="word",
    transformation=ForEach(grammar.Position(0)),
    relation="==",
    input_level="sentence",
    reduction="all",
)
"""The constraint of the published structure para01: every sentence begins with a given word."""

Nouns: TypeAlias = tuple[str, ...]


def instruction(specification: grammar.Specification) -> str:
    """Return a prompt that asks for text that satisfies a specification."""
    level = specification.level
    constraint = specification.constraint
    start = f"Please generate a {level}"
    if isinstance(constraint, Base):
        request = f"{start} {clause(constraint, specification.targets)}."
        spaced = _spaced(constraint, level)
        return request + (" Include whitespace into your character count." if spaced else "")
    if constraint.logic != "all":
        return f"{start} {_joined(constraint, specification.targets, level)}."
    return f"{start}:\n{numbered(_clauses(constraint, specification.targets, level))}"


def numbered(clauses: Iterable[str]) -> str:
    """Return clauses as a numbered list, one per line."""
    return ";\n".join(f"{number}) {text}" for number, text in enumerate(clauses, start=1)) + "."


def clause(base: Base, target: Target) -> str:
    """Return a phrase for a base constraint and its target, such as "with exactly 6 sentences"."""
    return _asked(base, target) + place(base)


def place(base: Base) -> str:
    """Return a phrase such as " in the last sentence of the 3rd paragraph", or ""."""
    if not base.within:
        return ""
    parts = (f"the {ordinal(part.index)} {part.level}" for part in reversed(base.within))
    return f" in {' of '.join(parts)}"


def _asked(base: Base, target: Target) -> str:
    transformation = base.transformation
    nouns = _unit_nouns(base)
    if base.relation in ("in", "not in"):
        return _containing(base, target, nouns) or _whose(base, nouns, target)
    if base.reduction is None:
        if phrase := _asked_phrase(base, transformation, nouns, target):
            return f"with {phrase}"
        per_unit = None
        scope = f"each {nouns[0]}"
        bounds = {grammar.Max: ("<=", "<"), grammar.Min: (">=", ">")}.get(type(transformation), ())
        if isinstance(transformation, grammar.Max | grammar.Min) and base.relation in bounds:
            per_unit = transformation.do  # the maximum is at most n if each number is
    else:
        per_unit = transformation
        scope = _scope(base, nouns[0], target)
    if isinstance(per_unit, ForEach) and (
        phrase := _asked_phrase(base, per_unit.do, inside(nouns), target)
    ):
        return f"with {scope} having {phrase}"
    return _whose(base, nouns, target)


def _asked_phrase(base: Base, measured: Transformation, nouns: Nouns, target: Target) -> str | None:
    """Return a phrase for a count or position, such as "exactly 6 sentences", or None."""
    if isinstance(measured, Count) and base.relation in AMOUNT:
        number = sole(target)
        plural = not isinstance(number, int) or number > 1
        amount = f"{AMOUNT[base.relation]} "
        phrase = _count_phrase(amount, measured, nouns[0], number, plural)
        return f"{phrase}, respectively" if several(target) else phrase
    if isinstance(measured, grammar.Position) and base.relation == "==":
        return _position_phrase(measured, nouns[0], target, "to be")
    return None


def _containing(base: Base, target: Target, nouns: Nouns) -> str | None:
    """Return a phrase for text that units must or must not contain, or None."""
    if base.transformation not in (grammar.Identity(), ForEach(grammar.Identity())):
        return None
    containing = "containing" if base.relation == "in" else "not containing"
    if base.reduction is None:
        return f"{containing} the {nouns[0]} {quoted(target)}" if len(nouns) == 1 else None
    noun = f"the {nouns[1]} " if len(nouns) > 1 else ""
    return f"with {_scope(base, nouns[0], target)} {containing} {noun}{quoted(target)}"


def _whose(base: Base, nouns: Nouns, target: Target) -> str:
    relation = _RELATION.get(base.relation) or f"to be {AMOUNT[base.relation]}"
    scope = f", in {_scope(base, 'case', target)}," if base.reduction else ""
    respectively = ", respectively" if base.reduction and several(target) else ""
    measured = f"{described(base.transformation, nouns)}{scope}"
    return f"with {measured} {relation} {quoted(target)}{respectively}"


def _scope(base: Base, noun: str, target: Target) -> str:
    """Return a phrase for the units that a reduction covers, such as "all words"."""
    if base.reduction == "all" and isinstance(target, tuple):
        return f"{noun}s" if len(target) > 1 else f"a single {noun}"
    if base.reduction in _SCOPE:
        return _SCOPE[base.reduction].format(noun)
    n = base.reduction_value or 0
    return f"{base.reduction} {n} {noun}{'s' if n > 1 else ''}"


def _spaced(base: Base, level: Level) -> bool:
    """Return whether a base constraint counts the characters of units that contain spaces."""
    counted = base.transformation
    if isinstance(counted, grammar.Max | grammar.Min):
        counted = counted.do
    is_count = counted == (ForEach(Count()) if base.input_level else Count())
    container = base.input_level or (base.within[-1].level if base.within else level)
    return is_count and base.target_level == "character" and container in _WITH_SPACES


def _clauses(tree: grammar.Combination, targets: Target, level: Level) -> Iterator[str]:
    assert isinstance(targets, tuple)  # `read` refuses anything else
    for part, target in zip(tree.constraints, targets, strict=True):
        if isinstance(part, Base):
            spaces = " including whitespace" if _spaced(part, level) else ""
            yield clause(part, target) + spaces
        else:
            yield f"({_joined(part, target, level)})"


def _joined(tree: grammar.Combination, targets: Target, level: Level) -> str:
    return (" or " if tree.logic == "or" else " and ").join(_clauses(tree, targets, level))


def _unit_nouns(base: Base) -> Nouns:
    """Return the nouns for a base constraint's units, the larger unit first."""
    return (base.input_level, base.target_level) if base.input_level else (base.target_level,)


def inside(nouns: Nouns) -> Nouns:
    """Return all nouns but the first or, if there is only one, ``character``."""
    return nouns[1:] or ("character",)


def described(transformation: Transformation, nouns: Nouns) -> str:
    """Return a noun phrase for a transformation, such as "the last word of each sentence"."""
    noun = nouns[0]
    match transformation:
        case Count(of=of):
            return f"the number of {noun}s" + ("" if of is None else f" {quoted(of)}")
        case grammar.Position(index=index):
            if isinstance(index, int):
                return f"the {ordinal(index)} {noun}"
            return f"the {', '.join(map(ordinal, index))} {noun}s"
        case ForEach(do=grammar.Identity()) | grammar.Identity():
            return f"the {noun}s"
        case ForEach(do=do):
            return f"{described(do, inside(nouns))} of each {noun}"
        case grammar.Max(do=do):
            return f"the greatest of {described(do, nouns)}"
        case grammar.Min(do=do):
            return f"the least of {described(do, nouns)}"
        case grammar.MeasureOp(name=name):
            with calling(f"The measure {name!r}"):
                return grammar.measure(name).phrase(f"{noun}s")


def _count_phrase(amount: str, count: Count, noun: str, number: Observed, plural: bool) -> str:
    """Return a phrase for a count, such as "exactly 6 sentences"."""
    if count.of is not None:
        return f"the {noun} {quoted(count.of)} {amount}{quoted(number)} times"
    return f"{amount}{quoted(number)} {noun}{'s' if plural else ''}"


def _position_phrase(position: grammar.Position, noun: str, value: Observed, verb: str) -> str:
    """Return a phrase such as "the 2nd word to be 'x'"; ``verb`` is "to be" or "being"."""
    if isinstance(position.index, tuple) and len(position.index) > 1:
        places = ", ".join(map(ordinal, position.index))
        return f"the {places} {noun}s {verb} {quoted(value)} respectively"
    index = position.index if isinstance(position.index, int) else position.index[0]
    # A list is always "to be", even in feedback, which otherwise says "being".
    tail = f"to be {quoted(value)}, respectively" if several(value) else f"{verb} {quoted(value)}"
    return f"the {ordinal(index)} {noun} {tail}"


def several(value: Observed) -> bool:
    """Return whether a value is a list of more than one item."""
    return isinstance(value, tuple) and len(value) > 1


def sole(value: Observed) -> Observed:
    """Return the item of a one-item list, or else the value itself."""
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def quoted(value: Observed) -> str:
    """Return a value as text, with strings in quotes and None as '(empty)'."""
    if isinstance(value, tuple):
        return ", ".join(map(quoted, value))
    if isinstance(value, int):
        return str(value)
    return f"'{value}'" if value is not None else "'(empty)'"


def ordinal(index: int) -> str:
    """Return the ordinal of an index: "1st" for 0, "last" for -1."""
    if index == -1:
        return "last"
    if index < 0:
        return f"{ordinal(-index - 1)} to last"
    number = index + 1
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
    return f"{number}{suffix}"


def feedback(specification: grammar.Specification, result: CheckResult) -> str:
    """Return feedback: that the text satisfies all constraints, or the task and what is wrong."""
    level = specification.level
    constraint = specification.constraint
    if result.passed:
        # Quirk: the recorded feedback on para01 calls the paragraph a sentence.
        noun = "sentence" if (level, constraint) == ("paragraph", _PARA01) else level
        return f"The generated {noun} satisfies all constraints."
    findings = result.findings
    clauses = [
        _missing(finding) or _observed(finding, specification) + place(finding.base)
        for finding in findings
    ]
    joined = f" {clauses[0]}." if isinstance(constraint, Base) else f":\n{numbered(clauses)}"
    request = instruction(specification).removeprefix("Please ").removesuffix(".")
    return f"Your task is to {request}.\nHowever, you just generated a {level}{joined}"


def _missing(finding: ConstraintFinding) -> str:
    """Return "without" and the name of the unit that the text lacks, or ""."""
    base = finding.base
    if not base.within or finding.observed is not None:
        return ""
    if isinstance(base.transformation, grammar.Position):  # the part may exist without the unit
        return f"without {described(base.transformation, _unit_nouns(base))}{place(base)}"
    return f"without {place(base).removeprefix(' in ')}"


def _observed(finding: ConstraintFinding, specification: grammar.Specification) -> str:
    base = finding.base
    observed = finding.observed
    measured = base.transformation
    nouns = _unit_nouns(base)
    having = ""
    if base.input_level is None and measured in (ForEach(grammar.Identity()), grammar.Identity()):
        return f"containing the {nouns[0]} {quoted(observed)}"
    if base.reduction is not None and isinstance(measured, ForEach):
        having = f"{'some ' if base.reduction == 'all' else ''}{nouns[0]}s having "
        measured = measured.do
        nouns = inside(nouns)
    if base.reduction is None or having:
        if isinstance(measured, Count):
            worst = _worst(base, sole(observed))
            # Quirk: plural and singular are swapped.
            return f"with {having}{_count_phrase('', measured, nouns[0], worst, worst == 1)}"
        if isinstance(measured, grammar.Position):
            # Quirk: if nothing was observed, all targets are listed.
            value = observed or specification.targets
            return f"with {having}{_position_phrase(measured, nouns[0], value, 'being')}"
    return f"with {described(base.transformation, _unit_nouns(base))} being {quoted(observed)}"


def _worst(base: Base, counts: Observed) -> Observed:
    """Return the count furthest from a bound, or all counts if there is no bound."""
    if not isinstance(counts, tuple):
        return counts
    numbers = [count for count in counts if isinstance(count, int)]
    extreme = {">=": min, ">": min, "<=": max, "<": max}.get(base.relation)
    return extreme(numbers) if extreme and numbers else counts


def score(result: CheckResult) -> Score:
    """Return a score of True or False, with the verdict on each base constraint in its details."""
    reasons = ["" if finding.passed else reason(finding) for finding in result.findings]
    why = "" if result.passed else truncated("; ".join(filter(None, reasons)), LONGEST_REASON)
    details = {"constraints": list(map(_details, result.findings, reasons))}
    return Score(result.passed, result.passed, why, details)


def reason(finding: ConstraintFinding) -> str:
    """Return a short reason why the finding's base constraint failed, such as "98 of 100 words"."""
    where = place(finding.base).strip()
    return _missing(finding) or (f"{where}: " if where else "") + _reason(finding)


def _reason(finding: ConstraintFinding) -> str:
    base = finding.base
    observed = finding.observed
    target = finding.target
    transformation = base.transformation
    nouns = _unit_nouns(base)
    if base.reduction is not None and isinstance(observed, tuple):
        met_each = check.outcomes(base, observed, target)
        if met_each is None:
            n_expected = len(target) if isinstance(target, tuple) else 1
            return f"{len(observed)} of {n_expected} {nouns[0]}s"
        met = f"{sum(met_each)} of {len(met_each)} {nouns[0]}s"
        if not isinstance(transformation, ForEach):
            return f"{met} as asked"
        measured = (transformation.do, inside(nouns))
        phrase = None
        if not isinstance(target, tuple):
            phrase = _asked_phrase(base, *measured, target)
        return f"{met} have {phrase or f'{described(*measured)} as asked'}"
    if base.relation in ("in", "not in"):
        parts = target if isinstance(target, tuple) else (target,)
        contained = tuple(part for part in parts if check.holds("in", observed, part))
        if base.relation == "not in":
            return f"contains {_value_text(contained)}"
        return f"lacks {_value_text(tuple(part for part in parts if part not in contained))}"
    if isinstance(transformation, Count) and transformation.of is None and base.relation in AMOUNT:
        amount = "" if base.relation == "==" else f"{AMOUNT[base.relation]} "
        return f"{quoted(observed)} of {amount}{quoted(target)} {nouns[0]}s"
    return f"{described(transformation, nouns)}: {_value_text(observed)}, not {_value_text(target)}"


@lru_cache(maxsize=4096)  # few kinds per data set, needed for every answer
def _kind(base: Base, left_out: Target) -> str:
    """Return a constraint's clause without its targets, to group similar constraints."""
    return clause(base, left_out).replace(str(_NUMBER), "N")


def _left_out(base: Base, target: Target) -> Target:
    if not isinstance(target, tuple):
        return _NUMBER if isinstance(target, int) else "…"
    measured = base.transformation
    if isinstance(measured, ForEach):
        measured = measured.do
    several = isinstance(measured, grammar.Position) and isinstance(measured.index, tuple)
    # Several positions have one value each; any other list may have any length.
    return tuple(_left_out(base, part) for part in (target if several else target[:2]))


def _details(finding: ConstraintFinding, why: str) -> dict[str, Any]:
    left_out = _left_out(finding.base, finding.target)
    details = {
        "constraint": truncated(clause(finding.base, finding.target), LONGEST_REASON),
        "kind": truncated(_kind(finding.base, left_out), LONGEST_REASON),
        "passed": finding.passed,
        "observed": _compact(finding.observed),
        "target": _compact(finding.target),
    }
    return details | {"reason": why[:LONGEST_REASON]} if why else details


def _compact(value: Observed) -> Any:
    """Return a value as data for JSON, with "…" where it is cut."""
    if isinstance(value, str):
        return truncated(value, LONGEST_TEXT)
    if not isinstance(value, tuple):
        return value
    parts = [_compact(part) for part in value[:MOST_VALUES]]
    return [*parts, f"… {len(value) - MOST_VALUES} more"] if len(value) > MOST_VALUES else parts


def _value_text(value: Observed) -> str:
    if isinstance(value, tuple):
        return first_few([_value_text(part) for part in value], MOST_VALUES)
    if value is None:
        return "none"
    return quoted(truncated(value, LONGEST_TEXT) if isinstance(value, str) else value)
