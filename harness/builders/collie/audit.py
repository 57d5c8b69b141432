"""The audit of a data set in COLLIE's form: is each instance right, and how hard is it?

The gold answer must pass its own checker and its near misses must fail; a constraint may not
contradict itself; and one that most natural texts satisfy, whatever they were written for, is
trivial. The share of natural texts that pass is the measure of difficulty: an instance that none
of 40 satisfies asks for more than one that half of them do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from harness.builders.collie.consistency import problems
from harness.builders.collie.near_misses import near_misses
from harness.builders.workers import Workers
from harness.scoring.constraints.check import check, extract, judged
from harness.scoring.constraints.form import read, write
from harness.scoring.constraints.grammar import Base
from harness.scoring.constraints.levels import Splitter, splitter
from harness.scoring.constraints.relations import Observed
from harness.scoring.constraints.render import clause
from harness.tasks.collie.items import Item

TRIVIAL = 0.5
"""Share of natural texts from which on an instance is trivial."""
TRIVIAL_BASE = 0.95
"""The same of one of its base constraints."""
PIECE = 200
"""Instances that a process audits at a time."""


class Subject(Struct, frozen=True):
    """An instance to audit.

    specification: in its plain form.
    background: names the natural texts that it is held against.
    """

    id: str
    structure: str
    source: str
    specification: dict[str, Any]
    example: str | None
    prompt: str
    background: str


class Audited(Struct, frozen=True):
    """What the audit found.

    passes: whether the gold answer does; None where there is none.
    near_misses: texts that fail, each for another of the base constraints.
    unbroken: base constraints that no change of the gold answer broke.
    problems: parts that are there twice, follow from others, or contradict.
    natural: of so many natural texts; share: the part of them that pass.
    trivial: the instance, and which of its base constraints: most natural texts satisfy it.
    same_as: the first instance that asks the same and has the same example.
    """

    id: str
    structure: str
    source: str
    passes: bool | None
    near_misses: tuple[str, ...]
    unbroken: tuple[str, ...]
    problems: tuple[str, ...]
    natural: int
    share: float | None
    trivial: bool
    trivial_parts: tuple[str, ...]
    same_as: str | None = None


class _Piece(Struct, frozen=True):
    subjects: list[Subject]
    background: dict[str, list[str]]
    nltk_data: str


def audit(
    subjects: Sequence[Subject],
    background: Mapping[str, list[str]],
    nltk_data: Path,
    workers: Workers,
) -> list[Audited]:
    """Audit instances, in their order.

    background: natural texts, by the names that the subjects have for them.
    nltk_data: where the sentence splitter's parameters may be.
    """
    pieces = _pieces(subjects, background, str(nltk_data))
    found = [one for part in workers.in_order(_audit_piece, pieces) for one in part]
    first: dict[tuple[str, str | None], str] = {}
    same = [first.setdefault((subject.prompt, subject.example), subject.id) for subject in subjects]
    return [
        one if one.id == other else replace(one, same_as=other)
        for one, other in zip(found, same, strict=True)
    ]


def audit_items(items: Iterable[Item], nltk_data: Path, workers: Workers) -> list[Audited]:
    """Audit a data set: the natural texts are the other examples of the same level."""
    subjects = []
    background: dict[str, list[str]] = defaultdict(list)
    for item in items:
        level = item.specification.level
        plain = write(item.specification)
        subjects.append(
            Subject(item.id, item.structure, item.source, plain, item.example, item.prompt, level)
        )
        if item.example is not None and item.example not in background[level]:
            background[level].append(item.example)
    spread = {level: texts[:: max(1, len(texts) // 40)] for level, texts in background.items()}
    return audit(subjects, spread, nltk_data, workers)


def _pieces(
    subjects: Sequence[Subject], background: Mapping[str, list[str]], nltk_data: str
) -> Iterator[_Piece]:
    for first in range(0, len(subjects), PIECE):
        chosen = list(subjects[first : first + PIECE])
        names = {subject.background for subject in chosen}
        yield _Piece(chosen, {name: background.get(name, []) for name in names}, nltk_data)


@cache
def _units(nltk_data: str) -> Splitter:
    return splitter(Path(nltk_data))


def _audit_piece(piece: _Piece) -> list[Audited]:
    units = _units(piece.nltk_data)

    @cache  # a structure's instances differ in their targets alone
    def observe(base: Base, text: str) -> Observed:
        return extract(base, text, units)

    return [
        _audited(one, piece.background[one.background], units, observe) for one in piece.subjects
    ]


def _audited(
    subject: Subject,
    background: Sequence[str],
    units: Splitter,
    observe: Callable[[Base, str], Observed],
) -> Audited:
    specification = read(subject.specification, subject.id)
    clauses = [clause(base, target) for base, target in specification.bases()]
    gold = subject.example
    passes = None if gold is None else check(specification, gold, units).passed
    missed = near_misses(specification, gold, units) if gold is not None and passes else None
    bases = [base for base, _ in specification.bases()]
    verdicts = [
        judged(specification, (observe(base, text) for base in bases))
        for text in background
        if text != gold
    ]
    shares = [
        sum(verdict.findings[n].passed for verdict in verdicts) / len(verdicts)
        for n in range(len(clauses))
        if verdicts
    ]
    share = sum(verdict.passed for verdict in verdicts) / len(verdicts) if verdicts else None
    return Audited(
        id=subject.id,
        structure=subject.structure,
        source=subject.source,
        passes=passes,
        near_misses=missed.texts if missed else (),
        unbroken=tuple(clauses[n] for n in missed.unbroken) if missed else (),
        problems=tuple(map(str, problems(specification))),
        natural=len(verdicts),
        share=share,
        trivial=share is not None and share >= TRIVIAL,
        trivial_parts=tuple(
            said for said, part in zip(clauses, shares, strict=False) if part >= TRIVIAL_BASE
        ),
    )
