"""A batch of documents: what a process of the build works on at a time.

Everything that the work needs goes along as plain data, so that any process can do it; what is made
of that (filters, structures) is made once in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from harness.builders.collie.extraction import extract
from harness.builders.collie.pool import Candidate, Pool
from harness.builders.collie.source import Part, Source, parts
from harness.builders.collie.strings import Seen, Segmenter
from harness.builders.collie.structure import Structure, read_structure
from harness.builders.collie.target_rules import suspicious
from harness.builders.collie.yields import Lengths, Limits, Yield, drawn
from harness.errors import HarnessError
from harness.plugins import Kind, calling, kind
from harness.records import Document
from harness.scoring.constraints.form import write
from harness.scoring.constraints.grammar import Level
from harness.scoring.constraints.levels import Splitter, splitter

BACKGROUND = 40
"""Texts of a level and source that constraints are held against, to see which are trivial."""


class Plan(Struct, frozen=True):
    """What is to be built, as plain data.

    structures, sources: as their files have them.
    plugins: that these name, with hashes of their code.
    targets: most instances of a structure from a source.
    nltk_data: where the sentence splitter's parameters may be.
    """

    structures: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    plugins: dict[str, dict[str, str]]
    seed: int
    targets: int
    nltk_data: str

    @property
    def limits(self) -> Limits:
        """How much of what is found is kept."""
        return Limits(self.targets, BACKGROUND)


class Batch(Struct, frozen=True):
    """Some documents of one source.

    plan: encoded, so that a process reads it once.
    source: its number in the plan.
    """

    plan: bytes
    source: int
    documents: list[Document]


def extract_batch(batch: Batch) -> Yield:
    """What the documents yield: a pure function of the batch.

    Raises: a `harness.errors.UserError`, such as of a pattern that takes too long.
    """
    return _extractor(batch.plan, batch.source).extract(batch.documents)


@cache
def _extractor(plan: bytes, source: int) -> _Extractor:
    return _Extractor(msgspec.json.decode(plan, type=Plan), source)


class _Extractor:
    """Extracts candidates from documents of a source."""

    def __init__(self, plan: Plan, source: int) -> None:
        self._plan = plan
        self._units = splitter(Path(plan.nltk_data))
        self._source = Source.model_validate(plan.sources[source])
        self._segmenter = segmenter(self._source, self._units, plan.seed)
        self._structures: dict[Level, list[Structure]] = {}
        for raw in plan.structures:
            structure = read_structure(raw, str(raw.get("name", "the structure")))
            if structure.level in self._source.levels:
                self._structures.setdefault(structure.level, []).append(structure)

    def extract(self, documents: list[Document]) -> Yield:
        """What some documents yield.

        Raises: a `harness.errors.HarnessError` that names the document.
        """
        found = Yield()
        pools: dict[str, Pool] = {}
        seen = Seen()
        for document in documents:
            if document.problem:
                found.unreadable += 1
                found.problems[document.name] = document.problem
                continue
            try:
                self._extract(document, found, pools, seen)
            except HarnessError as error:
                where = f"{self._source.name}, document {document.name!r:.200}"
                raise type(error)(f"{where}: {error.message}", error.remedy) from error
        found.paragraphs, found.sentences, found.single = (
            seen.paragraphs,
            seen.sentences,
            seen.single,
        )
        found.filtered = {unit: dict(counts) for unit, counts in seen.filtered.items() if counts}
        found.candidates = {name: pool.candidates() for name, pool in pools.items()}
        return found

    def _extract(
        self, document: Document, found: Yield, pools: dict[str, Pool], seen: Seen
    ) -> None:
        found.documents += 1
        found.characters += len(document.text)
        strings = self._segmenter.strings(document, self._structures, seen)
        for level, texts in strings.items():
            found.strings.setdefault(level, Lengths()).count(texts)
            background = [*found.background.get(level, []), *texts]
            found.background[level] = drawn(background, BACKGROUND, self._plan.seed)
            for text in texts:  # the splitter remembers a text's units for all structures
                for structure in self._structures[level]:
                    self._try(structure, text, document, found, pools)

    def _try(
        self,
        structure: Structure,
        text: str,
        document: Document,
        found: Yield,
        pools: dict[str, Pool],
    ) -> None:
        specification = extract(structure, text, self._units, self._plan.seed)
        if specification is None:
            return
        name = structure.name
        found.satisfied[name] = found.satisfied.get(name, 0) + 1
        if suspicious(specification.targets):
            found.suspicious[name] = found.suspicious.get(name, 0) + 1
            return
        plain = write(specification)
        candidate = Candidate(
            text, plain["constraint"], plain["targets"], document.name, dict(document.about)
        )
        pools.setdefault(name, Pool(self._plan.targets, self._plan.seed)).add(candidate)


def segmenter(source: Source, units: Splitter, seed: int) -> Segmenter:
    """The segmenter of a source, with its plug-ins.

    Raises: ConfigError for one that is not there, or an option that it has not.
    """

    def built(group: Kind, named: Sequence[Part]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, options in parts(named):
            again = sum(other.partition(" ")[0] == name for other in found)
            label = f"{name} {again + 1}" if again else name
            with calling(f"The {group.title} {label!r}"):
                found[label] = group.build(name, options, units=units)
        return found

    return Segmenter(
        source,
        built(kind("filters"), source.filters),
        built(kind("filters"), source.passage_filters),
        built(kind("post_processors"), source.post_processors),
        units,
        seed,
    )
