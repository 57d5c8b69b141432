"""Audits a data set in COLLIE's format: whether each instance is correct, and how hard it is.

Natural texts, which were not written for the benchmark, measure the difficulty: the smaller the
share of them that satisfies an instance's constraint, the harder the instance.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, combinations, islice
from math import inf
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from harness.plugins.benchmarks.collie.constraints import check, grammar
from harness.plugins.benchmarks.collie.constraints.check import (
    PARAGRAPH_BREAK,
    Observed,
    Splitter,
    bare,
    sole,
)
from harness.plugins.benchmarks.collie.constraints.grammar import (
    Base,
    Constraint,
    Specification,
    Target,
)
from harness.plugins.benchmarks.collie.constraints.render import clause
from harness.plugins.benchmarks.collie.task import CollieItem
from harness.workers import Workers

TRIVIAL = 0.5  # an instance is trivial if at least this share of natural texts pass
TRIVIAL_PART = 0.95  # one of its base constraints is trivial if at least this share satisfy it
BACKGROUND = 40  # about how many natural texts per level (and source) to try on an instance
PIECE = 200  # instances that a process audits at once
OTHER_WORD = "incomprehensibilities"
ADDED_SENTENCE = "Nothing more was said about it."
MOST_PLACES = 16  # letters, words or sentences to change one by one, from the start
MOST_CHANGES = 150  # maximum changes tried on a text
MOST_PART_CHANGES = 50  # maximum of these that change only the part that a constraint applies to


def problems(specification: Specification) -> list[str]:
    """Describe pairs of base constraints that are duplicates, contradictions or implications.

    Only simple cases outside any ``or`` are detected.
    """
    required = _required(specification.constraint, specification.targets)
    problems = []
    for first, second in combinations(required, 2):
        kind = _problem(*first, *second)
        if kind:
            problems.append(f"{kind}: {clause(*first)} / {clause(*second)}")
    return problems


def _required(constraint: Constraint, targets: Target) -> Iterator[tuple[Base, Target]]:
    """Yield each base constraint that is not within an ``or``, with its target."""
    if isinstance(constraint, Base):
        yield constraint, targets
    elif constraint.logic != "or":
        assert isinstance(targets, tuple)
        for part, target in zip(constraint.constraints, targets, strict=True):
            yield from _required(part, target)


def _problem(base: Base, target: Target, second_base: Base, second_target: Target) -> str:
    same = bare(sole(target)) == bare(sole(second_target))
    if base == second_base and same:
        return "duplicate"
    forbidden = _forbids(base, target, second_base, second_target)
    if forbidden or _forbids(second_base, second_target, base, target):
        return "contradictory"
    if _measured(base) != _measured(second_base) or base.reduction not in (None, "all"):
        return ""
    first = _range(base, target)
    second = _range(second_base, second_target)
    if first and second:
        low = max(first[0], second[0])
        high = min(first[1], second[1])
        if low > high:
            return "contradictory"
        return "implied" if (low, high) in (first, second) else ""
    relations = {base.relation, second_base.relation}
    if relations == {"=="} and not same:
        return "contradictory"
    return "contradictory" if relations == {"==", "!="} and same else ""


def _measured(base: Base) -> tuple[object, ...]:
    return base.within, base.input_level, base.target_level, base.transformation, base.reduction


def _range(base: Base, target: Target) -> tuple[float, float] | None:
    """Return the range of numbers that satisfy a constraint, or None if it sets no range."""
    number = sole(target)
    if not isinstance(number, int):
        return None
    match base.relation:
        case "==":
            return number, number
        case ">=":
            return number, inf
        case ">":
            return number + 1, inf
        case "<=":
            return -inf, number
        case "<":
            return -inf, number - 1
    return None


def _forbids(base: Base, target: Target, required_base: Base, required: Target) -> bool:
    """Return whether ``base`` forbids a string that ``required_base`` requires."""
    base_parts = base.within or ()
    required_parts = required_base.within or ()
    if required_parts[: len(base_parts)] != base_parts:  # they are about different parts
        return False
    is_prohibition = base.relation == "not in" and base.reduction is None
    if not is_prohibition or base.target_level != required_base.target_level:
        return False
    if base.transformation not in grammar.UNCHANGED or not _requires(required_base):
        return False
    forbidden = set(map(bare, _texts_of(target)))
    return not forbidden.isdisjoint(map(bare, _texts_of(required)))


def _requires(base: Base) -> bool:
    """Return whether the text must contain the target of a base constraint."""
    operation = base.transformation
    if base.relation == "in":
        return operation in grammar.UNCHANGED and base.reduction is None
    if isinstance(operation, grammar.ForEach):
        operation = operation.do
    is_placed = isinstance(operation, grammar.Position)
    return is_placed and base.relation == "==" and base.reduction in (None, "all")


Background = Mapping[str, Mapping[str, Sequence[str]]]  # source -> level -> natural texts


class Audited(Struct, frozen=True):
    """The audit's findings on an instance, as a line of ``audit.jsonl``."""

    id: str
    structure: str
    source: str
    passes: bool | None  # whether the reference answer passes; None if there is none
    near_misses: tuple[str, ...]
    unbroken: tuple[str, ...]  # base constraints that no change of the reference answer violates
    problems: tuple[str, ...]
    natural: int  # number of natural texts tried
    share: float | None  # the share (0 to 1) of these that passes; None if no texts were tried
    trivial: bool
    trivial_parts: tuple[str, ...]  # base constraints that at least 95% of the texts satisfy
    same_as: str | None = None  # id of the first instance with this prompt and reference answer


def audit(
    items: Sequence[CollieItem], background: Background, nltk_data: Path, workers: Workers
) -> list[Audited]:
    """Return the findings on each instance, in order.

    ``background`` has natural texts by source and level. ``nltk_data`` is NLTK's data folder.
    """
    pieces = [items[first : first + PIECE] for first in range(0, len(items), PIECE)]
    work = partial(_audit_piece, background, nltk_data)
    findings = list(chain.from_iterable(workers.map_in_order(work, pieces)))
    seen: dict[tuple[str, str | None], str] = {}
    for place, item in enumerate(items):
        first_id = seen.setdefault((item.prompt, item.example), item.id)
        if first_id != item.id:
            findings[place] = replace(findings[place], same_as=first_id)
    return findings


def audit_items(items: Iterable[CollieItem], nltk_data: Path, workers: Workers) -> list[Audited]:
    """Return the findings on each item of the task ``collie``, in order.

    The background (see `audit`) is a sample of the reference answers at an item's level.
    """
    every = list(items)
    examples: dict[str, dict[str, None]] = defaultdict(dict)  # by level, each once
    for item in every:
        if item.example is not None:
            examples[item.specification.level][item.example] = None
    sample = {}
    for level, texts in examples.items():
        step = max(1, len(texts) // BACKGROUND)
        sample[level] = list(texts)[::step]
    background = {item.source: sample for item in every}
    return audit(every, background, nltk_data, workers)


def _audit_piece(
    background: Background, nltk_data: Path, items: Sequence[CollieItem]
) -> list[Audited]:
    units = check.splitter(nltk_data)

    @cache  # a structure's instances differ only in their targets
    def observe(base: Base, text: str) -> Observed:
        return check.extract(base, text, units)

    findings = []
    for item in items:
        texts = background[item.source].get(item.specification.level, ())
        findings.append(_audited(item, texts, units, observe))
    return findings


def _audited(
    item: CollieItem,
    texts: Sequence[str],
    units: Splitter,
    observe: Callable[[Base, str], Observed],
) -> Audited:
    """Return the findings on an item, given natural texts of its level."""
    specification = item.specification
    bases = [base for base, _ in specification.bases()]
    clauses = [clause(base, target) for base, target in specification.bases()]
    missed = list[str]()
    unbroken = list[int]()
    passes = None
    if item.example is not None:
        passes = check.check(specification, item.example, units).passed
        if passes:
            missed, unbroken = near_misses(specification, item.example, units)
    n = 0
    n_passed = 0
    n_satisfied = [0] * len(bases)  # by base constraint
    for text in texts:
        if text == item.example:
            continue
        verdict = check.checked(specification, [observe(base, text) for base in bases])
        n += 1
        n_passed += verdict.passed
        for place, finding in enumerate(verdict.findings):
            n_satisfied[place] += finding.passed
    share = None
    trivial_parts = []
    if n:
        share = n_passed / n
        for part, n_part in zip(clauses, n_satisfied, strict=True):
            if n_part / n >= TRIVIAL_PART:
                trivial_parts.append(part)
    return Audited(
        id=item.id,
        structure=item.structure,
        source=item.source,
        passes=passes,
        near_misses=tuple(missed),
        unbroken=tuple(clauses[place] for place in unbroken),
        problems=tuple(problems(specification)),
        natural=n,
        share=share,
        trivial=share is not None and share >= TRIVIAL,
        trivial_parts=tuple(trivial_parts),
    )


def near_misses(
    specification: Specification, text: str, units: Splitter
) -> tuple[list[str], list[int]]:
    """Search for near misses: failing texts that differ from a satisfying text by one change.

    A base constraint's near miss is the first such text found that violates the constraint. Also
    return the indices of the constraints that have none.
    """
    unbroken = set(range(len(list(specification.bases()))))
    texts: list[str] = []
    for changed in islice(_changes(specification, text, units), MOST_CHANGES):
        if not unbroken:
            break
        if changed == text or not changed.strip():
            continue
        verdict = check.check(specification, changed, units)
        broken = {n for n in unbroken if not verdict.findings[n].passed}
        if broken and not verdict.passed:
            texts.append(changed)
            unbroken -= broken
    return texts, sorted(unbroken)


def _changes(specification: Specification, text: str, units: Splitter) -> Iterator[str]:
    for base, target in specification.bases():
        part = check.located(base, text, units)
        if base.within and part and part in text:
            before, _, after = text.rpartition(part)
            of_part = Specification(base.within[-1].level, base, target)
            changes = _part_changes(of_part, part, units)
            for changed in islice(changes, MOST_PART_CHANGES):
                yield before + changed + after
    yield from _part_changes(specification, text, units)


def _part_changes(specification: Specification, text: str, units: Splitter) -> Iterator[str]:
    half = len(text) // 2
    yield text[:-1]
    yield text[1:]
    yield f"{text[:half]}e{text[half:]}"
    if specification.level == "word":
        for place, letter in enumerate(text[:MOST_PLACES]):
            other_letter = "u" if letter.lower() == "o" else "o"
            yield text[:place] + other_letter + text[place + 1 :]
        for length in range(len(text) - 2, 0, -1):
            yield text[:length]
        return
    words = [match.span() for match in re.finditer(r"[^\s.!?]+", text)]
    some = [*words[:MOST_PLACES], *words[-1:]]
    for target_text in _texts_of(specification.targets):
        yield text.replace(target_text, "")
        yield f"{target_text} {text}"
    for begin, end in reversed(some):
        yield text[:begin] + text[end:]
    for begin, _ in some:
        yield f"{text[:begin]}{OTHER_WORD} {text[begin:]}"
    for begin, end in some:
        yield text[:begin] + OTHER_WORD + text[end:]
    ends = _ends(text, units.sentences(text))
    yield f"{text} {ADDED_SENTENCE}"
    for end in reversed(ends[:-1]):
        yield text[:end]
    yield text.rpartition(PARAGRAPH_BREAK)[0]
    yield f"{text}{PARAGRAPH_BREAK}{ADDED_SENTENCE}"
    for begin, end in zip([0, *ends], ends[:MOST_PLACES], strict=False):
        sentence = text[begin:end]
        three_times = " ".join([sentence.rstrip(".!?")] * 3)
        yield text[:begin] + three_times + text[end - 1 :]
        first_word = " ".join(sentence.split()[:1]).rstrip(".!?")
        yield text[:begin] + first_word + text[end - 1 :]
    n_words = len(words)  # for bounds far from the text: half of it and multiples of it
    while n_words := n_words // 2:
        yield text[: words[n_words - 1][1]]
    for times in (2, 4, 8):
        yield " ".join([text] * times)


def _ends(text: str, sentences: Iterable[str]) -> list[int]:
    ends: list[int] = []
    offset = 0
    for sentence in sentences:
        begin = text.find(sentence, offset)
        if begin >= 0:
            offset = begin + len(sentence)
            ends.append(offset)
    return ends


def _texts_of(target: Target) -> Iterator[str]:
    for text in grammar.listed(target):
        if isinstance(text, str):
            yield text
        elif isinstance(text, tuple):
            yield from _texts_of(text)
