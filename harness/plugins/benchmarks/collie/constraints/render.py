"""Describes constraints in English: instructions, feedback, and reasons for scores.

COLLIE's wordings are used byte for byte, including their grammar ("with 86 character"), because
models' answers depend on them and recorded conversations contain them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias

from harness.plugin_interface import wrap_errors
from harness.plugins.benchmarks.collie.constraints import check, grammar
from harness.plugins.benchmarks.collie.constraints.check import (
    CheckResult,
    ConstraintFinding,
    Observed,
    sole,
)
from harness.plugins.benchmarks.collie.constraints.grammar import (
    Base,
    Count,
    ForEach,
    Level,
    Target,
    Transformation,
)
from harness.records import JsonObject, Score
from harness.wording import join_first, truncate

LONGEST_REASON = 300  # maximum characters of a score's reason, and of each text in its details
LONGEST_TEXT = 60  # maximum characters of a string in a score's details and reason
MOST_VALUES = 8  # maximum items of a list there
_NUMBER = 9_876_543_210
"""Stands for any number in `_kind`, which replaces it by N. Above 1, so that units are plural."""

AMOUNT = {
    "==": "exactly",
    "!=": "not exactly",
    ">=": "at least",
    "<=": "at most",
    "<": "less than",
    ">": "more than",
}
_RELATION = {relation: f"to be {amount}" for relation, amount in AMOUNT.items()}
_RELATION |= {"==": "to be", "!=": "not to be", "in": "to contain", "not in": "not to contain"}
_CONTAINING = {"in": "containing", "not in": "not containing"}
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
    targets = specification.targets
    start = f"Please generate a {level}"
    if isinstance(constraint, Base):
        request = f"{start} {clause(constraint, targets)}."
        if _spaced(constraint, level):
            request += " Include whitespace into your character count."
        return request
    if constraint.logic != "all":
        return f"{start} {_joined(constraint, targets, level)}."
    return f"{start}:\n{numbered(_clauses(constraint, targets, level))}"


def numbered(clauses: Iterable[str]) -> str:
    """Return clauses as a numbered list, one per line."""
    lines = [f"{number}) {text}" for number, text in enumerate(clauses, start=1)]
    return ";\n".join(lines) + "."


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
    nouns = _unit_nouns(base)
    if base.relation in _CONTAINING:
        return _containing(base, target, nouns) or _whose(base, nouns, target)
    if base.reduction is None:
        if phrase := _asked_phrase(base, base.transformation, nouns, target):
            return f"with {phrase}"
        scope = f"each {nouns[0]}"
    else:
        scope = _scope(base, nouns[0], target)
    per_unit = _per_unit(base)
    phrase = None
    if isinstance(per_unit, ForEach):
        phrase = _asked_phrase(base, per_unit.do, inside(nouns), target)
    if phrase is None:
        return _whose(base, nouns, target)
    return f"with {scope} having {phrase}"


def _per_unit(base: Base) -> Transformation | None:
    """Return the operation whose results must all meet the relation, or None if there is none."""
    match base.transformation, base.relation:
        case transformation, _ if base.reduction is not None:
            return transformation
        case grammar.Max(do=do), "<=" | "<":  # the maximum is at most n if each number is
            return do
        case grammar.Min(do=do), ">=" | ">":
            return do
    return None


def _asked_phrase(base: Base, measured: Transformation, nouns: Nouns, target: Target) -> str | None:
    """Return a phrase for a count or position, such as "exactly 6 sentences", or None."""
    if isinstance(measured, Count) and base.relation in AMOUNT:
        number = sole(target)
        is_plural = not isinstance(number, int) or number > 1
        amount = f"{AMOUNT[base.relation]} "
        phrase = _count_phrase(amount, measured, nouns[0], number, is_plural)
        if several(target):
            phrase += ", respectively"
        return phrase
    if isinstance(measured, grammar.Position) and base.relation == "==":
        return _position_phrase(measured, nouns[0], target, "to be")
    return None


def _containing(base: Base, target: Target, nouns: Nouns) -> str | None:
    """Return a phrase for text that units must or must not contain, or None."""
    if base.transformation not in grammar.UNCHANGED:
        return None
    containing = _CONTAINING[base.relation]
    text = quoted(target)
    if base.reduction is None:
        if len(nouns) > 1:
            return None
        return f"{containing} the {nouns[0]} {text}"
    if len(nouns) > 1:
        text = f"the {nouns[1]} {text}"
    return f"with {_scope(base, nouns[0], target)} {containing} {text}"


def _whose(base: Base, nouns: Nouns, target: Target) -> str:
    relation = f"{_RELATION[base.relation]} {quoted(target)}"
    measured = described(base.transformation, nouns)
    if base.reduction is None:
        return f"with {measured} {relation}"
    phrase = f"with {measured}, in {_scope(base, 'case', target)}, {relation}"
    if several(target):
        phrase += ", respectively"
    return phrase


def _scope(base: Base, noun: str, target: Target) -> str:
    """Return a phrase for the units that a reduction covers, such as "all words"."""
    if base.reduction == "all" and isinstance(target, tuple):
        if len(target) > 1:
            return f"{noun}s"
        return f"a single {noun}"
    if base.reduction in _SCOPE:
        return _SCOPE[base.reduction].format(noun)
    n = base.reduction_value or 0
    return f"{base.reduction} {n} {_plural(noun, n > 1)}"


def _plural(noun: str, is_plural: bool) -> str:
    return f"{noun}s" if is_plural else noun


def _spaced(base: Base, level: Level) -> bool:
    """Return whether a base constraint counts the characters of units that contain spaces."""
    counted = base.transformation
    if isinstance(counted, grammar.Max | grammar.Min):
        counted = counted.do
    count: Transformation = Count()
    container: Level = level
    if base.input_level:
        count = ForEach(count)
        container = base.input_level
    elif base.within:
        container = base.within[-1].level
    return counted == count and base.target_level == "character" and container in _WITH_SPACES


def _clauses(tree: grammar.Combination, targets: Target, level: Level) -> Iterator[str]:
    assert isinstance(targets, tuple)  # `read` refuses anything else
    for part, target in zip(tree.constraints, targets, strict=True):
        if not isinstance(part, Base):
            yield f"({_joined(part, target, level)})"
        elif _spaced(part, level):
            yield f"{clause(part, target)} including whitespace"
        else:
            yield clause(part, target)


def _joined(tree: grammar.Combination, targets: Target, level: Level) -> str:
    word = " or " if tree.logic == "or" else " and "
    return word.join(_clauses(tree, targets, level))


def _unit_nouns(base: Base) -> Nouns:
    """Return the nouns for a base constraint's units, the larger unit first."""
    if base.input_level:
        return (base.input_level, base.target_level)
    return (base.target_level,)


def inside(nouns: Nouns) -> Nouns:
    """Return all nouns but the first or, if there is only one, ``character``."""
    return nouns[1:] or ("character",)


def described(transformation: Transformation, nouns: Nouns) -> str:
    """Return a noun phrase for a transformation, such as "the last word of each sentence"."""
    noun = nouns[0]
    match transformation:
        case Count(of=None):
            return f"the number of {noun}s"
        case Count(of=of):
            return f"the number of {noun}s {quoted(of)}"
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
            with wrap_errors(f"The measure {name!r}"):
                return grammar.measure(name).phrase(f"{noun}s")


def _count_phrase(amount: str, count: Count, noun: str, number: Observed, is_plural: bool) -> str:
    """Return a phrase for a count, such as "exactly 6 sentences"."""
    if count.of is not None:
        return f"the {noun} {quoted(count.of)} {amount}{quoted(number)} times"
    return f"{amount}{quoted(number)} {_plural(noun, is_plural)}"


def _position_phrase(position: grammar.Position, noun: str, value: Observed, verb: str) -> str:
    """Return a phrase such as "the 2nd word to be 'x'"; ``verb`` is "to be" or "being"."""
    indices = position.index if isinstance(position.index, tuple) else (position.index,)
    places = ", ".join(map(ordinal, indices))
    if len(indices) > 1:
        return f"the {places} {noun}s {verb} {quoted(value)} respectively"
    if several(value):  # always "to be", even in feedback, which otherwise says "being"
        return f"the {places} {noun} to be {quoted(value)}, respectively"
    return f"the {places} {noun} {verb} {quoted(value)}"


def several(value: Observed) -> bool:
    """Return whether a value is a list of more than one item."""
    return isinstance(value, tuple) and len(value) > 1


def quoted(value: Observed) -> str:
    """Return a value as text, with strings in quotes and None as '(empty)'."""
    if isinstance(value, tuple):
        return ", ".join(map(quoted, value))
    if isinstance(value, int):
        return str(value)
    if value is None:
        return "'(empty)'"
    return f"'{value}'"


def ordinal(index: int) -> str:
    """Return the ordinal of an index: "1st" for 0, "last" for -1."""
    if index == -1:
        return "last"
    if index < 0:
        return f"{ordinal(-index - 1)} to last"
    number = index + 1
    suffix = "th"
    if number % 100 not in (11, 12, 13):
        suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, suffix)
    return f"{number}{suffix}"


def feedback(specification: grammar.Specification, result: CheckResult) -> str:
    """Return feedback: that the text satisfies all constraints, or the task and what is wrong."""
    level = specification.level
    constraint = specification.constraint
    if result.passed:
        noun: str = level
        if (level, constraint) == ("paragraph", _PARA01):
            noun = "sentence"  # Quirk: the recorded feedback on para01 calls the paragraph so.
        return f"The generated {noun} satisfies all constraints."
    clauses = []
    for finding in result.findings:
        clauses.append(_missing(finding) or _observed(finding, specification))
    joined = f" {clauses[0]}."
    if not isinstance(constraint, Base):
        joined = f":\n{numbered(clauses)}"
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
    if base.input_level is None and measured in grammar.UNCHANGED:
        return f"containing the {nouns[0]} {quoted(observed)}{place(base)}"
    phrase = f"{described(measured, nouns)} being {quoted(observed)}"
    having = ""
    if base.reduction is not None and isinstance(measured, ForEach):
        having = f"{nouns[0]}s having "
        if base.reduction == "all":
            having = f"some {having}"
        measured = measured.do
        nouns = inside(nouns)
    if base.reduction is None or having:
        if isinstance(measured, Count):
            worst = _worst(base, sole(observed))
            # Quirk: plural and singular are swapped.
            phrase = _count_phrase("", measured, nouns[0], worst, worst == 1)
            phrase = f"{having}{phrase}"
        elif isinstance(measured, grammar.Position):
            # Quirk: if nothing was observed, all targets are listed.
            value = observed or specification.targets
            phrase = f"{having}{_position_phrase(measured, nouns[0], value, 'being')}"
    return f"with {phrase}{place(base)}"


def _worst(base: Base, counts: Observed) -> Observed:
    """Return the count furthest from a bound, or all counts if there is no bound."""
    if not isinstance(counts, tuple):
        return counts
    numbers = [count for count in counts if isinstance(count, int)]
    extreme = {">=": min, ">": min, "<=": max, "<": max}.get(base.relation)
    return extreme(numbers) if extreme and numbers else counts


def score(result: CheckResult) -> Score:
    """Return a score of True or False, with the verdict on each base constraint in its details."""
    constraints = []
    reasons = []
    for finding in result.findings:
        details = _details(finding)
        if not finding.passed:
            reasons.append(reason(finding))
            details["reason"] = reasons[-1][:LONGEST_REASON]
        constraints.append(details)
    why = ""
    if not result.passed:
        why = truncate("; ".join(reasons), LONGEST_REASON)
    return Score(result.passed, result.passed, why, {"constraints": constraints})


def reason(finding: ConstraintFinding) -> str:
    """Return a short reason why the finding's base constraint failed, such as "98 of 100 words"."""
    if missing := _missing(finding):
        return missing
    where = place(finding.base).strip()
    if where:
        return f"{where}: {_reason(finding)}"
    return _reason(finding)


def _reason(finding: ConstraintFinding) -> str:
    base = finding.base
    observed = finding.observed
    target = finding.target
    transformation = base.transformation
    nouns = _unit_nouns(base)
    if base.reduction is not None and isinstance(observed, tuple):
        return _reduction_reason(base, observed, target)
    if base.relation in _CONTAINING:
        # What the text should contain but does not, or the other way round.
        wrong = []
        for part in grammar.listed(target):
            if not check.holds(base.relation, observed, part):
                wrong.append(part)
        verb = "lacks" if base.relation == "in" else "contains"
        return f"{verb} {_value_text(tuple(wrong))}"
    if transformation == Count():
        amount = quoted(target)
        if base.relation != "==":
            amount = f"{AMOUNT[base.relation]} {amount}"
        return f"{quoted(observed)} of {amount} {nouns[0]}s"
    return f"{described(transformation, nouns)}: {_value_text(observed)}, not {_value_text(target)}"


def _reduction_reason(base: Base, observed: tuple[Observed, ...], target: Target) -> str:
    nouns = _unit_nouns(base)
    met_each = check.outcomes(base, observed, target)
    if met_each is None:
        return f"{len(observed)} of {len(grammar.listed(target))} {nouns[0]}s"
    met = f"{sum(met_each)} of {len(met_each)} {nouns[0]}s"
    if not isinstance(base.transformation, ForEach):
        return f"{met} as asked"
    measured = base.transformation.do
    phrase = None
    if not isinstance(target, tuple):
        phrase = _asked_phrase(base, measured, inside(nouns), target)
    if phrase is None:
        phrase = f"{described(measured, inside(nouns))} as asked"
    return f"{met} have {phrase}"


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
    if not isinstance(measured, grammar.Position) or isinstance(measured.index, int):
        # Several positions have one value each; any other list may have any length.
        target = target[:2]
    return tuple(_left_out(base, part) for part in target)


def _details(finding: ConstraintFinding) -> JsonObject:
    left_out = _left_out(finding.base, finding.target)
    return {
        "constraint": truncate(clause(finding.base, finding.target), LONGEST_REASON),
        "kind": truncate(_kind(finding.base, left_out), LONGEST_REASON),
        "passed": finding.passed,
        "observed": _compact(finding.observed),
        "target": _compact(finding.target),
    }


def _compact(value: Observed) -> Any:
    """Return a value as data for JSON, with "…" where it is cut."""
    if isinstance(value, str):
        return truncate(value, LONGEST_TEXT)
    if not isinstance(value, tuple):
        return value
    parts = [_compact(part) for part in value[:MOST_VALUES]]
    if len(value) > MOST_VALUES:
        parts.append(f"… {len(value) - MOST_VALUES} more")
    return parts


def _value_text(value: Observed) -> str:
    if isinstance(value, tuple):
        return join_first([_value_text(part) for part in value], MOST_VALUES)
    if value is None:
        return "none"
    if isinstance(value, str):
        value = truncate(value, LONGEST_TEXT)
    return quoted(value)
