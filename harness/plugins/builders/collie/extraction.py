"""Extracts natural texts from documents, and candidates for instances from these texts.

The result depends neither on the number of processes nor on how documents are batched: a hash of
the seed and the string decides which strings are drawn, and results can be merged in any order.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from harness.errors import ConfigError, DataMissing, HarnessError
from harness.plugin_interface import wrap_errors
from harness.plugin_loader import kind
from harness.plugins.benchmarks.collie.constraints.check import (
    PARAGRAPH_BREAK,
    Splitter,
    read,
    splitter,
)
from harness.plugins.benchmarks.collie.constraints.grammar import Specification, write
from harness.plugins.benchmarks.collie.task import CollieItem
from harness.plugins.builders.collie.audit import BACKGROUND
from harness.plugins.builders.collie.source import DocumentBatch, PlugIn, Source, parts
from harness.plugins.builders.collie.structure import (
    Structure,
    draw,
    read_structure,
    satisfying,
    suspicious,
)
from harness.plugins.builders.draws import Draws, hashed
from harness.ports import Filter
from harness.records import Document, JsonObject

# Reasons for dropping text, besides the filters' names.
TOO_LONG = "too long"
EMPTY = "empty"
ENOUGH = 4  # sentences to split per sentence to keep: splitting a whole book takes long
MOST_PROBLEMS = 10  # maximum unreadable documents to list


class Candidate(Struct, frozen=True):
    """A text that can become an instance, with a specification that it satisfies (``plain``).

    ``document`` names the text's document, and ``about`` has facts about it.
    """

    text: str
    plain: JsonObject
    document: str
    about: JsonObject


class Yield(Struct):
    """Strings, counts and candidates for instances, from some documents of a source."""

    documents: int = 0
    unreadable: int = 0
    problems: dict[str, str] = {}  # why documents are unreadable; at most `MOST_PROBLEMS`
    characters: int = 0
    paragraphs: int = 0
    sentences: int = 0  # examined; examination stops when enough are kept
    filtered: dict[str, dict[str, int]] = {}  # by unit (paragraph, …) and filter
    texts: dict[str, int] = {}  # tried, by level
    satisfied: dict[str, int] = {}  # texts that fit, by structure
    suspicious: dict[str, int] = {}  # of these, texts that were dropped
    candidates: dict[str, list[Candidate]] = {}  # by structure; once merged, what a build may use
    strings: dict[str, list[str]] = {}  # by level; once merged, at most `BACKGROUND` of each


class Segmenter:
    """Cleans a source's documents, and cuts them into strings of each level."""

    def __init__(self, source: Source, units: Splitter, seed: int) -> None:
        self._source = source
        self._units = units
        self._seed = seed
        self._filters = _built("filters", source.filters, units)
        self._passage_filters = _built("filters", source.passage_filters, units)
        self._post_processors = _built("post_processors", source.post_processors, units)

    def segment(self, document: Document, levels: Iterable[str]) -> Yield:
        """Clean a document, and draw up to `Source.strings` strings per level from it."""
        chunks = [chunk for chunk in document.text.split(self._source.delimiter) if chunk.strip()]
        paragraphs = [self._paragraph(chunk) for chunk in chunks]
        surviving = [text for text, reason in paragraphs if not reason]
        filtered = {"paragraph": Counter(reason for _, reason in paragraphs if reason)}
        strings: dict[str, list[str]] = {}
        sentences = 0
        for level in levels:
            candidates: Iterable[str] = surviving
            if level == "sentence":
                candidates, filtered["sentence"] = self._sentences(surviving)
                sentences = len(candidates) + filtered["sentence"].total()
            elif level == "passage":
                runs, filtered["passage"] = self._runs(paragraphs)
                candidates = self._passages(document.name, runs)
            elif level == "word":
                candidates = self._words(surviving)
            strings[level] = self._ordered(level, candidates)[: self._source.strings]
        return Yield(
            documents=1,
            characters=len(document.text),
            paragraphs=len(chunks),
            sentences=sentences,
            filtered={unit: dict(counts) for unit, counts in filtered.items()},
            texts={level: len(texts) for level, texts in strings.items()},
            strings=strings,
        )

    def _paragraph(self, chunk: str) -> tuple[str, str]:
        """Clean a chunk, and return it with the reason for dropping it ("" if it is kept)."""
        if reason := self._unnatural(chunk):
            return chunk, reason
        for name, process in self._post_processors.items():
            with wrap_errors(f"The post-processor {name!r}"):
                chunk = process(chunk)
            if not isinstance(chunk, str):
                message = f"The post-processor {name!r} returns {chunk!r:.40}, which is not text."
                raise ConfigError(message, "Fix it, or remove it from the source.")
        paragraph = chunk.strip()
        return paragraph, "" if paragraph else EMPTY

    def _unnatural(self, text: str) -> str:
        """Return why a text is dropped: a filter's name, `TOO_LONG`, or "" if it is kept."""
        if len(text) > self._source.longest:
            return TOO_LONG
        return _filter(text, self._filters)

    def _words(self, paragraphs: list[str]) -> Iterator[str]:
        """Yield each one-word paragraph, and the alphabetic words of the others."""
        for paragraph in paragraphs:
            if any(map(str.isspace, paragraph)):
                yield from filter(str.isalpha, self._units.units(paragraph, "word"))
            else:
                yield paragraph

    def _sentences(self, paragraphs: list[str]) -> tuple[list[str], Counter[str]]:
        """Draw sentences, and count those that each filter dropped."""
        limit = self._source.strings or sys.maxsize
        drawn = list[str]()
        sentences = list[str]()
        left_out = Counter[str]()
        for paragraph in self._ordered("paragraph", paragraphs):
            drawn += filter(None, map(str.strip, self._units.sentences(paragraph)))
            if len(drawn) >= ENOUGH * limit:
                break
        for sentence in self._ordered("sentence", drawn):
            if len(sentences) >= limit:
                break
            if reason := self._unnatural(sentence):
                left_out[reason] += 1
            else:
                sentences.append(sentence)
        return sentences, left_out

    def _runs(self, paragraphs: list[tuple[str, str]]) -> tuple[list[list[str]], Counter[str]]:
        """Return runs of paragraphs for passages, and count those that each filter dropped."""
        runs = [list[str]()]
        left_out = Counter[str]()
        for text, dropped in paragraphs:
            reason = "" if dropped else _filter(text, self._passage_filters)
            if reason:
                left_out[reason] += 1
            if dropped or reason:
                runs.append([])
            else:
                runs[-1].append(text)
        return runs, left_out

    def _passages(self, name: str, runs: list[list[str]]) -> Iterator[str]:
        """Yield the passages of the document ``name``."""
        fewest = self._source.passages.low if self._source.passages else 2
        for piece in self._pieces(name, runs):
            if len(piece) >= fewest:
                yield PARAGRAPH_BREAK.join(piece)

    def _pieces(self, name: str, runs: list[list[str]]) -> Iterator[list[str]]:
        """Yield the runs of the document ``name``, cutting long runs at random places."""
        draws = Draws(self._seed, "passages", self._source.name, name)
        bounds = self._source.passages
        for run in runs:
            while bounds and len(run) > bounds.high:
                size = draws.integer(bounds.low, bounds.high)
                # Leave enough paragraphs for another passage.
                size = max(bounds.low, min(size, len(run) - bounds.low))
                yield run[:size]
                run = run[size:]
            yield run

    def _ordered(self, level: str, strings: Iterable[str]) -> list[str]:
        return sorted(set(strings), key=hashed(f"{self._seed} {level} "))


def _built(group: str, plug_ins: Sequence[PlugIn], units: Splitter) -> dict[str, Any]:
    """Build plug-ins by name. The second of a name becomes ``NAME 2``, and so on."""
    built: dict[str, Any] = {}
    n_built = Counter[str]()
    for name, options in parts(plug_ins):
        n_built[name] += 1
        label = name
        if n_built[name] > 1:
            label = f"{name} {n_built[name]}"
        with wrap_errors(f"The {kind(group).title} {label!r}"):
            built[label] = kind(group).build(name, options, units=units)
    return built


def _filter(text: str, filters: Mapping[str, Filter]) -> str:
    """Return the name of the first filter that drops a text, or ""."""
    for name, leaves_out in filters.items():
        with wrap_errors(f"The filter {name!r}"):
            if leaves_out(text):
                return name
    return ""


class ExtractionPlan(Struct, frozen=True):
    """The settings of an extraction, as plain data.

    ``plugins`` has the package, version and code hash of each plug-in.
    """

    structures: list[JsonObject]
    sources: dict[str, JsonObject]
    plugins: dict[str, dict[str, str]]
    seed: int
    targets: int
    nltk_data: str
    splitter: str  # the name of the sentence splitter


class Extracted(Struct):
    """The `Yield` of some documents, and the documents' concatenated digests."""

    found: Yield
    digests: bytes


def extract_batch(plan: ExtractionPlan, batch: DocumentBatch) -> Extracted:
    """Extract strings and candidates from documents.

    Raises:
        HarnessError: If a document causes an error. The message names the document.
    """
    source = Source.model_validate(plan.sources[batch.source])
    units = splitter(Path(plan.nltk_data))
    if units.name != plan.splitter:
        message = f"A machine splits sentences with {units.name}, but this one with {plan.splitter}"
        remedy = f"Each machine needs the same sentence data in {plan.nltk_data}."
        raise DataMissing(f"{message}.", remedy)
    segmenter = Segmenter(source, units, plan.seed)
    structures: dict[str, list[Structure]] = defaultdict(list)
    for structure in map(read_structure, plan.structures):
        if structure.level in source.levels:
            structures[structure.level].append(structure)

    def extracted(document: Document) -> Yield:
        if document.problem:
            return Yield(unreadable=1, problems={document.name: document.problem})
        segmented = segmenter.segment(document, structures)
        for level, texts in segmented.strings.items():
            # The splitter caches a text's units for all structures.
            for text, structure in product(texts, structures[level]):
                specification = extract(structure, text, units, plan.seed)
                if specification is None:
                    continue
                _count(segmented.satisfied, {structure.name: 1})
                if suspicious(specification.targets):
                    _count(segmented.suspicious, {structure.name: 1})
                    continue
                plain = write(specification)
                about = dict(document.about)
                candidates = segmented.candidates.setdefault(structure.name, [])
                candidates.append(Candidate(text, plain, document.name, about))
        return segmented

    total = Yield()
    for document in batch.documents:
        try:
            merge(total, extracted(document), plan)
        except HarnessError as error:
            where = f"{source.name}, document {document.name!r:.200}"
            raise type(error)(f"{where}: {error.message}", error.remedy) from error
    return Extracted(total, batch.digests)


def extract(structure: Structure, text: str, units: Splitter, seed: int) -> Specification | None:
    """Draw, for a structure, a specification that a text satisfies (None if none fits)."""

    @cache
    def draws() -> Draws:  # few texts yield a target, and only these need draws
        return Draws(seed, "targets", structure.name, text)

    constraints = list(structure.constraints)
    if len(constraints) > 1:
        constraints = draws().shuffled(constraints)
    for constraint in constraints:
        options = satisfying(constraint, structure.rules, text, units, draws)
        if options is not None:
            return Specification(structure.level, constraint, draw(options, draws))
    return None


def merge(total: Yield, part: Yield, plan: ExtractionPlan) -> None:
    """Merge the yield of more documents into ``total``, and drop what the build cannot use."""
    for name in ("documents", "unreadable", "characters", "paragraphs", "sentences"):
        setattr(total, name, getattr(total, name) + getattr(part, name))
    problems = sorted({**total.problems, **part.problems}.items())
    total.problems = dict(problems[:MOST_PROBLEMS])
    for name in ("texts", "satisfied", "suspicious"):
        _count(getattr(total, name), getattr(part, name))
    for unit, counts in part.filtered.items():
        _count(total.filtered.setdefault(unit, {}), counts)
    for name, candidates in part.candidates.items():
        both = [*total.candidates.get(name, []), *candidates]
        total.candidates[name] = chosen(both, plan.targets, plan.seed)
    key = hashed(f"background {plan.seed}")
    for level, texts in part.strings.items():
        all_texts = {*total.strings.get(level, []), *texts}
        total.strings[level] = sorted(all_texts, key=key)[:BACKGROUND]


def _count(to: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        to[name] = to.get(name, 0) + count


def chosen(candidates: Iterable[Candidate], limit: int, seed: int) -> list[Candidate]:
    """Choose up to ``limit`` candidates for the instances of one structure, with different texts.

    The first candidate of each group with the same targets is chosen, then the second, and so on.
    Batches can be reduced before they are merged: a candidate's rank in its group never improves
    when others are added.
    """
    text_hash = hashed(f"text {seed}", 12)
    targets_hash = hashed(f"targets {seed}", 12)
    by_text: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate.document):
        by_text.setdefault(candidate.text, candidate)
    by_targets: dict[bytes, list[tuple[bytes, str]]] = defaultdict(list)
    for candidate in by_text.values():
        targets = targets_hash(msgspec.json.encode(candidate.plain["targets"]).decode())
        by_targets[targets].append((text_hash(candidate.text), candidate.text))
    ranked = []
    for targets, texts in by_targets.items():
        for rank, (text_key, text) in enumerate(sorted(texts)):
            ranked.append((rank, targets, text_key, text))
    ranked.sort()
    return [by_text[text] for *_, text in ranked[:limit]]


class BuiltItem(CollieItem, frozen=True):
    """An instance of a built data set, with facts about its example's document."""

    metadata: JsonObject

    def row(self, near_misses: Sequence[str]) -> JsonObject:
        """Return the instance, with its near misses, as a row of ``instances.jsonl``."""
        return {
            "id": self.id,
            "structure": self.structure,
            "source": self.source,
            **write(self.specification),
            "prompt": self.prompt,
            "example": self.example,
            "metadata": self.metadata,
            "near_misses": near_misses,
        }


def instances(structures: Sequence[Structure], yields: Mapping[str, Yield]) -> list[BuiltItem]:
    """Return the instances of all structures. No structure uses the same text twice."""
    items = []
    for structure in structures:
        used: set[str] = set()
        for source, extracted in yields.items():
            number = 0
            for candidate in extracted.candidates.get(structure.name, []):
                if candidate.text in used:
                    continue
                used.add(candidate.text)
                specification = read(candidate.plain)
                items.append(
                    BuiltItem(
                        id=f"{source}/{structure.name}/{number}",
                        specification=specification,
                        prompt=structure.instruction(specification),
                        example=candidate.text,
                        structure=structure.name,
                        source=source,
                        metadata={**candidate.about, "document": candidate.document},
                    )
                )
                number += 1
    return items
