"""Extraction: processes batches of documents in any process, and merges what they yield.

Merging is independent of
order: neither the number of processes nor the batches change the result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from harness.builders.collie.audit import BACKGROUND, AuditRow
from harness.builders.collie.source import Source
from harness.builders.collie.strings import Candidate, Segmenter, Yield
from harness.builders.collie.structure import (
    Structure,
    draw,
    read_structure,
    satisfying,
    suspicious,
)
from harness.builders.draws import Draws, hashed
from harness.errors import HarnessError
from harness.records import Document
from harness.scoring.constraints.grammar import Specification, read, write
from harness.scoring.constraints.levels import Splitter, splitter

MOST_PROBLEMS = 10
"""Unreadable documents that are listed."""


def merge(found: Yield, part: Yield, plan: ExtractionPlan) -> None:
    """Add the yield of other documents."""
    for name in ("documents", "unreadable", "characters", "paragraphs", "sentences"):
        setattr(found, name, getattr(found, name) + getattr(part, name))
    found.problems = dict(sorted({**found.problems, **part.problems}.items())[:MOST_PROBLEMS])
    for name in ("texts", "satisfied", "suspicious"):
        _count(getattr(found, name), getattr(part, name))
    for unit, counts in part.filtered.items():
        _count(found.filtered.setdefault(unit, {}), counts)
    for name, candidates in part.candidates.items():
        both = [*found.candidates.get(name, []), *candidates]
        found.candidates[name] = chosen(both, plan.targets, plan.seed)
    key = hashed(f"background {plan.seed}")
    for level, texts in part.strings.items():
        some = {*found.strings.get(level, []), *texts}
        found.strings[level] = sorted(some, key=key)[:BACKGROUND]


def _count(to: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        to[name] = to.get(name, 0) + count


def chosen(candidates: Iterable[Candidate], most: int, seed: int) -> list[Candidate]:
    """Choose candidates for the instances of one structure from one source.

    Candidates whose targets are unique come first, in the order of a hash; then those that share
    targets with one of them, and so on, so that targets are as varied as the corpus allows. No text
    is chosen twice. The choice from a merger of choices is the choice from the whole: a candidate
    that is dropped here would be dropped there, since its rank among those with its targets only
    falls.
    """
    text_hash, targets_hash = hashed(f"text {seed}", 12), hashed(f"targets {seed}", 12)
    by_text: dict[str, Candidate] = {}
    for one in candidates:
        there = by_text.get(one.text)
        if there is None or one.document < there.document:
            by_text[one.text] = one
    by_targets: dict[bytes, list[tuple[bytes, str]]] = defaultdict(list)
    for one in by_text.values():
        targets = targets_hash(msgspec.json.encode(one.plain["targets"]).decode())
        by_targets[targets].append((text_hash(one.text), one.text))
    ranked = sorted(
        (rank, targets, hashed, text)
        for targets, texts in by_targets.items()
        for rank, (hashed, text) in enumerate(sorted(texts))
    )
    return [by_text[text] for *_, text in ranked[:most]]


class ExtractionPlan(Struct, frozen=True):
    """What to build, as plain data; structures and sources are in the form of their files.

    Attributes:
        plugins: The plug-ins that these name, with hashes of their code.
    """

    structures: list[dict[str, Any]]
    sources: dict[str, dict[str, Any]]
    plugins: dict[str, dict[str, str]]
    seed: int
    targets: int
    nltk_data: str


def extract_batch(plan: ExtractionPlan, batch: tuple[str, Sequence[Document]]) -> Yield:
    """Extract what some documents of a source yield."""
    source = Source.model_validate(plan.sources[batch[0]])
    units = splitter(Path(plan.nltk_data))
    segmenter = Segmenter(source, units, plan.seed)
    structures: dict[str, list[Structure]] = defaultdict(list)
    for structure in map(read_structure, plan.structures):
        if structure.level in source.levels:
            structures[structure.level].append(structure)

    def extracted(document: Document) -> Yield:
        if document.problem:
            return Yield(unreadable=1, problems={document.name: document.problem})
        found = segmenter.segment(document, structures)
        for level, texts in found.strings.items():
            for text in texts:  # the splitter remembers a text's units for all structures
                for structure in structures[level]:
                    specification = extract(structure, text, units, plan.seed)
                    if specification is None:
                        continue
                    _count(found.satisfied, {structure.name: 1})
                    if suspicious(specification.targets):
                        _count(found.suspicious, {structure.name: 1})
                        continue
                    plain, about = write(specification), dict(document.about)
                    candidate = Candidate(text, plain, document.name, about)
                    found.candidates.setdefault(structure.name, []).append(candidate)
        return found

    whole = Yield()
    for document in batch[1]:
        try:
            merge(whole, extracted(document), plan)
        except HarnessError as error:
            where = f"{source.name}, document {document.name!r:.200}"
            raise type(error)(f"{where}: {error.message}", error.remedy) from error
    return whole


def extract(structure: Structure, text: str, units: Splitter, seed: int) -> Specification | None:
    """Choose targets of a structure that a text satisfies.

    The draw among several depends on the seed, the structure's name and the text only.
    """

    @cache
    def draws() -> Draws:  # few texts give a target, and only these need one
        return Draws(seed, "targets", structure.name, text)

    constraints = list(structure.constraints)
    if len(constraints) > 1:
        constraints = draws().shuffled(constraints)
    for constraint in constraints:
        found = satisfying(constraint, structure.rules, text, units, draws)
        if found is not None:
            return Specification(structure.level, constraint, draw(found, draws))
    return None


def instances(structures: Sequence[Structure], yields: Mapping[str, Yield]) -> list[AuditRow]:
    """Return the instances, structure by structure; no structure uses a text twice."""
    rows = []
    for structure in structures:
        texts: set[str] = set()
        for source, found in yields.items():
            candidates = [
                one for one in found.candidates.get(structure.name, []) if one.text not in texts
            ]
            texts |= {one.text for one in candidates}
            rows += [
                AuditRow(
                    id=f"{source}/{structure.name}/{number}",
                    structure=structure.name,
                    source=source,
                    **one.plain,
                    prompt=structure.instruction(read(one.plain)),
                    example=one.text,
                    metadata={**one.about, "document": one.document},
                )
                for number, one in enumerate(candidates)
            ]
    return rows
