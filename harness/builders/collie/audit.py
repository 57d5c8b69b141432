"""The audit of a data set in COLLIE's form: is each instance right, and how hard is it?

The reference answer must pass its own checker, its near misses must fail, and no constraint may
contradict itself. Difficulty is the share of natural texts that pass, whatever they were written
for; an instance that most of them satisfy is trivial.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
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
"""The share of natural texts from which on an instance is trivial."""
TRIVIAL_PART = 0.95
"""The same for one of its base constraints."""
BACKGROUND = 40
"""Natural texts, about, of a level of a data set."""
PIECE = 200
"""Instances that a process audits at a time."""


class Subject(Struct, frozen=True):
    """An instance to audit.

    Attributes:
        specification: In its plain form.
        example: The reference answer, if there is one.
        background: The name of the natural texts to check it against.
    """

    id: str
    structure: str
    source: str
    specification: dict[str, Any]
    example: str | None
    prompt: str
    background: str


class Audited(Struct, frozen=True):
    """What the audit found about an instance: a line of ``audit.jsonl``.

    Attributes:
        passes: Whether the reference answer passes; None if there is none.
        near_misses: Texts that fail, each for another of the base constraints.
        unbroken: Base constraints that no change of the reference answer violates.
        problems: Duplicate, implied or contradictory parts.
        natural: How many natural texts were tried; ``share``: the share of them that pass.
        trivial: Whether most natural texts satisfy it; ``trivial_parts``: the base constraints that
            nearly all satisfy.
        same_as: The first instance with the same prompt and reference answer, if not this one.
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
    subjects: Sequence[Subject]
    background: dict[str, list[str]]
    nltk_data: str


def audit(
    subjects: Sequence[Subject],
    background: Mapping[str, list[str]],
    nltk_data: Path,
    workers: Workers,
) -> list[Audited]:
    """Audit instances, in their order.

    Args:
        subjects: The instances.
        background: Natural texts by the names that the subjects use.
        nltk_data: Where the parameters of the sentence splitter may be.
        workers: The processes to work in.
    """
    groups = [subjects[first : first + PIECE] for first in range(0, len(subjects), PIECE)]
    pieces = (
        _Piece(
            group,
            {name: background.get(name, []) for name in {one.background for one in group}},
            str(nltk_data),
        )
        for group in groups
    )
    found = [one for part in workers.in_order(_audit_piece, pieces) for one in part]
    first: dict[tuple[str, str | None], str] = {}
    same = [first.setdefault((subject.prompt, subject.example), subject.id) for subject in subjects]
    return [
        one if one.id == other else replace(one, same_as=other)
        for one, other in zip(found, same, strict=True)
    ]


def audit_items(items: Iterable[Item], nltk_data: Path, workers: Workers) -> list[Audited]:
    """Audit a data set; the natural texts are the other reference answers of the same level."""
    subjects = []
    background: dict[str, dict[str, None]] = defaultdict(dict)
    for item in items:
        level = item.specification.level
        plain = write(item.specification)
        subjects.append(
            Subject(item.id, item.structure, item.source, plain, item.example, item.prompt, level)
        )
        if item.example is not None:
            background[level][item.example] = None
    spread = {
        level: list(texts)[:: max(1, len(texts) // BACKGROUND)]
        for level, texts in background.items()
    }
    return audit(subjects, spread, nltk_data, workers)


def _audit_piece(piece: _Piece) -> list[Audited]:
    units = _units(piece.nltk_data)

    @cache  # a structure's instances differ in their targets alone
    def observe(base: Base, text: str) -> Observed:
        return extract(base, text, units)

    return [
        _audited(one, piece.background[one.background], units, observe) for one in piece.subjects
    ]


@cache
def _units(nltk_data: str) -> Splitter:
    return splitter(Path(nltk_data))


def _audited(
    subject: Subject,
    background: Sequence[str],
    units: Splitter,
    observe: Callable[[Base, str], Observed],
) -> Audited:
    specification = read(subject.specification, subject.id)
    clauses = [clause(base, target) for base, target in specification.bases()]
    bases = [base for base, _ in specification.bases()]
    reference = subject.example
    passes = None if reference is None else check(specification, reference, units).passed
    missed = (
        near_misses(specification, reference, units) if reference is not None and passes else None
    )
    verdicts = [
        judged(specification, (observe(base, text) for base in bases))
        for text in background
        if text != reference
    ]
    n = len(verdicts)
    share = sum(verdict.passed for verdict in verdicts) / n if n else None
    return Audited(
        id=subject.id,
        structure=subject.structure,
        source=subject.source,
        passes=passes,
        near_misses=missed.texts if missed else (),
        unbroken=tuple(clauses[place] for place in missed.unbroken) if missed else (),
        problems=tuple(map(str, problems(specification))),
        natural=n,
        share=share,
        trivial=share is not None and share >= TRIVIAL,
        trivial_parts=tuple(
            part
            for place, part in enumerate(clauses)
            if n and sum(v.findings[place].passed for v in verdicts) / n >= TRIVIAL_PART
        ),
    )
