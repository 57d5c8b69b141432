"""Audits a data set in COLLIE's format: whether each instance is correct, and how hard it is.

Natural texts, which were not written for the benchmark, measure the difficulty: the smaller the
share of them that satisfies an instance's constraint, the harder the instance.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    pairs = _required(specification.constraint, specification.targets)
    return [
        f"{kind}: {clause(*first)} / {clause(*second)}"
        for first, second in combinations(pairs, 2)
        if (kind := _problem(*first, *second))
    ]


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
    if _forbids(base, target, second_base, second_target) or _forbids(
        second_base, second_target, base, target
    ):
        return "contradictory"
    if _measured(base) != _measured(second_base) or base.reduction not in (None, "all"):
        return ""
    first = _range(base, target)
    second = _range(second_base, second_target)
    if first and second:
        both = max(first[0], second[0]), min(first[1], second[1])
        return "contradictory" if both[0] > both[1] else "implied" * (both in (first, second))
    relations = {base.relation, second_base.relation}
    exact = "==" in relations and relations <= {"==", "!="}
    return "contradictory" if exact and same == ("!=" in relations) else ""


def _measured(base: Base) -> tuple[object, ...]:
    return base.within, base.input_level, base.target_level, base.transformation, base.reduction


def _range(base: Base, target: Target) -> tuple[float, float] | None:
    """Return the range of numbers that satisfy a constraint, or None if it sets no range."""
    number = sole(target)
    if not isinstance(number, int):
        return None
    return {
        "==": (number, number),
        ">=": (number, inf),
        ">": (number + 1, inf),
        "<=": (-inf, number),
        "<": (-inf, number - 1),
    }.get(base.relation)


def _forbids(base: Base, target: Target, required_base: Base, required: Target) -> bool:
    """Return whether ``base`` forbids a string that ``required_base`` requires."""
    unchanged = (grammar.ForEach(grammar.Identity()), grammar.Identity())
    base_parts = base.within or ()
    others = required_base.within or ()
    if (
        others[: len(base_parts)] != base_parts
    ):  # the constraints are about different parts of the text
        return False
    forbids = (base.relation, base.reduction, base.target_level)
    if (
        forbids != ("not in", None, required_base.target_level)
        or base.transformation not in unchanged
    ):
        return False
    done = required_base.transformation
    placed = isinstance(done.do if isinstance(done, grammar.ForEach) else done, grammar.Position)
    requires = (
        required_base.relation == "==" and placed and required_base.reduction in (None, "all")
    )
    requires |= (
        required_base.relation == "in" and done in unchanged and required_base.reduction is None
    )
    return requires and not set(map(bare, _texts_of(target))).isdisjoint(
        map(bare, _texts_of(required))
    )


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
    pieces = (items[first : first + PIECE] for first in range(0, len(items), PIECE))
    work = partial(_audit_piece, background, nltk_data)
    findings = [finding for part in workers.in_order(work, pieces) for finding in part]
    seen: dict[tuple[str, str | None], str] = {}
    for place, item in enumerate(items):
        if (first := seen.setdefault((item.prompt, item.example), item.id)) != item.id:
            findings[place] = replace(findings[place], same_as=first)
    return findings


def audit_items(items: Iterable[CollieItem], nltk_data: Path, workers: Workers) -> list[Audited]:
    """Return the findings on each item of the task ``collie``, in order.

    The background (see `audit`) is a sample of the reference answers at an item's level.
    """
    every = list(items)
    texts: dict[str, dict[str, None]] = defaultdict(dict)
    for item in every:
        if item.example is not None:
            texts[item.specification.level][item.example] = None
    spread = {
        name: list(examples)[:: max(1, len(examples) // BACKGROUND)]
        for name, examples in texts.items()
    }
    return audit(every, dict.fromkeys({item.source for item in every}, spread), nltk_data, workers)


def _audit_piece(
    background: Background, nltk_data: Path, items: Sequence[CollieItem]
) -> list[Audited]:
    units = check.splitter(nltk_data)

    @cache  # a structure's instances differ only in their targets
    def observe(base: Base, text: str) -> Observed:
        return check.extract(base, text, units)

    def audited(item: CollieItem) -> Audited:
        specification = item.specification
        bases = list(specification.bases())
        clauses = [clause(base, target) for base, target in bases]
        missed = list[str]()
        unbroken = list[int]()
        passes = None
        if item.example is not None:
            passes = check.check(specification, item.example, units).passed
            if passes:
                missed, unbroken = near_misses(specification, item.example, units)
        verdicts = [
            check.checked(specification, (observe(base, text) for base, _ in bases))
            for text in background[item.source].get(specification.level, ())
            if text != item.example
        ]
        n = len(verdicts)
        share = sum(verdict.passed for verdict in verdicts) / n if n else None
        findings = zip(*(verdict.findings for verdict in verdicts), strict=True)
        satisfied = [sum(finding.passed for finding in part) for part in findings]
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
            trivial_parts=tuple(
                clauses[place] for place, k in enumerate(satisfied) if k / n >= TRIVIAL_PART
            ),
        )

    return list(map(audited, items))


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
            specification_of_part = Specification(base.within[-1].level, base, target)
            for changed in islice(
                _part_changes(specification_of_part, part, units), MOST_PART_CHANGES
            ):
                yield before + changed + after
    yield from _part_changes(specification, text, units)


def _part_changes(specification: Specification, text: str, units: Splitter) -> Iterator[str]:
    half = len(text) // 2
    yield from (text[:-1], text[1:], f"{text[:half]}e{text[half:]}")
    if specification.level == "word":
        for place, letter in enumerate(text[:MOST_PLACES]):
            yield text[:place] + ("o" if letter.lower() != "o" else "u") + text[place + 1 :]
        yield from (text[:length] for length in range(len(text) - 2, 0, -1))
        return
    words = [match.span() for match in re.finditer(r"[^\s.!?]+", text)]
    some = [*words[:MOST_PLACES], *words[-1:]]
    for target_text in _texts_of(specification.targets):
        yield text.replace(target_text, "")
        yield f"{target_text} {text}"
    yield from (text[:begin] + text[end:] for begin, end in some[::-1])
    yield from (f"{text[:begin]}{OTHER_WORD} {text[begin:]}" for begin, _ in some)
    yield from (text[:begin] + OTHER_WORD + text[end:] for begin, end in some)
    ends = _ends(text, units.sentences(text))
    yield f"{text} {ADDED_SENTENCE}"
    yield from (text[:end] for end in reversed(ends[:-1]))
    yield text.rpartition(PARAGRAPH_BREAK)[0]
    yield f"{text}{PARAGRAPH_BREAK}{ADDED_SENTENCE}"
    for begin, end in zip([0, *ends], ends[:MOST_PLACES], strict=False):
        sentence = text[begin:end]
        yield text[:begin] + " ".join([sentence.rstrip(".!?")] * 3) + text[end - 1 :]
        yield text[:begin] + " ".join(sentence.split()[:1]).rstrip(".!?") + text[end - 1 :]
    n_words = len(words)  # for bounds far from the text: half of it and multiples of it
    while n_words := n_words // 2:
        yield text[: words[n_words - 1][1]]
    yield from (" ".join([text] * times) for times in (2, 4, 8))


def _ends(text: str, sentences: Iterable[str]) -> list[int]:
    ends: list[int] = []
    for sentence in sentences:
        if (begin := text.find(sentence, ends[-1] if ends else 0)) >= 0:
            ends.append(begin + len(sentence))
    return ends


def _texts_of(target: Target) -> Iterator[str]:
    if isinstance(target, str):
        yield target
    elif isinstance(target, tuple):
        yield from chain.from_iterable(map(_texts_of, target))
