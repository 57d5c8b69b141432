"""A benchmark like COLLIE (arXiv 2307.08689), built from a corpus of the user's own.

The paper's six steps: documents are loaded (`documents`), split into paragraphs, filtered, cleaned,
and made into sentences and passages (`strings`); each string is tried on each structure
(`structure`, `target_rules`, `extraction`); of what suits, some instances are drawn (`pool`). Every
instance is then audited (`audit`) and the folder written, with its card and report.

>>> build(find_structures(["paper"]), [find_source("corpus/")], Path("mine"))  # doctest: +SKIP
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from harness.builders import folder
from harness.builders.collie.batch import Plan, segmenter
from harness.builders.collie.documents import Documents, described
from harness.builders.collie.impossible import refuse_impossible
from harness.builders.collie.instances import Row, choose
from harness.builders.collie.pipeline import Pipeline
from harness.builders.collie.provenance import plugins
from harness.builders.collie.report import card, report
from harness.builders.collie.source import Source
from harness.builders.collie.structure import Structure
from harness.builders.collie.yields import Yield
from harness.builders.stages import held, key_of
from harness.builders.workers import Workers
from harness.datasets.folder import DataFolder
from harness.errors import ConfigError, DataInvalid
from harness.scoring.constraints.levels import splitter

KIND = "collie"
VERSION = 1
"""Version of what a seed gives: another one, other instances."""

INSTANCES = "instances.jsonl"
AUDIT = "audit.jsonl"
CARD = "card.md"
REPORT = "report.md"
FILES = (INSTANCES, AUDIT, CARD, REPORT)

TARGETS = 100
"""Most instances of a structure from one source."""


@dataclass(frozen=True, slots=True)
class Built:
    """What was built.

    facts: what the manifest says.
    report: for people, in Markdown.
    resumed: stages whose result was there from a build that was cut off.
    """

    folder: Path
    instances: int
    facts: dict[str, Any]
    report: str
    resumed: int
    seconds: float


def build(
    structures: Sequence[Structure],
    sources: Sequence[Source],
    out: Path,
    *,
    data: DataFolder,
    seed: int = 0,
    targets: int = TARGETS,
    jobs: int = 1,
    told: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Built:
    """Build the benchmark and write its folder.

    A build that was cut off goes on from its stages, in a folder beside; they go when it has ended,
    or when it cannot end because of what it was given.

    targets: most instances of a structure from one source.
    jobs: processes that work at the same time; the result is the same for any number.
    told: is told what has been done, in a line.

    Raises: a `harness.errors.HarnessError`: ConfigError where structures and sources do not go
        together; RunConflict where out is there and was not built here, or another process builds
        it; DataInvalid where no document of a source can be read, or no instance was found.
    """
    began = clock()
    out = out.resolve()
    nltk_data = data.root / "nltk_data"
    folder.refuse_other(out, KIND, FILES)
    _refuse_mismatch(structures, sources)
    for structure in structures:
        refuse_impossible(structure)
    units = splitter(nltk_data)
    for source in sources:
        segmenter(source, units, seed)  # a mistyped filter ends the build here
    plan = Plan(
        [dict(structure.plain) for structure in structures],
        [described(source) for source in sources],
        plugins(structures, sources),
        seed,
        targets,
        str(nltk_data),
    )
    corpora = {source.name: Documents(source, seed, data) for source in sources}
    stages_folder = out.with_name(f".{out.name}.stages")
    with held(stages_folder, out) as stages, stages.dropped_on_mistakes(), Workers(jobs) as workers:
        key = key_of(VERSION, plan, units.name)
        pipeline = Pipeline(plan, corpora, key, stages, workers, told)
        pipeline.extract()
        yields = pipeline.yields
        _refuse_unreadable(yields)
        rows = choose(structures, yields)
        if not rows:
            raise DataInvalid("No text of the sources suits any structure.", _remedy(yields))
        audited = pipeline.audit(rows)
        missed = {one.id: list(one.near_misses) for one in audited}
        facts = {
            "version": VERSION,
            "seed": seed,
            "targets": targets,
            "splitter": units.name,
            "structures": {structure.name: key_of(structure.plain) for structure in structures},
            "sources": [
                _source_facts(source, corpora[source.name], yields[source.name])
                for source in sources
            ],
            "plugins": plan.plugins,
            "counts": _counts(rows),
        }
        said = report(structures, yields, rows, audited)
        tables: dict[str, Sequence[Struct]] = {
            INSTANCES: [replace(row, near_misses=missed[row.id]) for row in rows],
            AUDIT: audited,
        }
        texts = {CARD: card(out.name, structures, facts, yields), REPORT: said}
        folder.write(out, KIND, tables, facts, texts=texts)
        stages.done()
    return Built(out, len(rows), facts, said, stages.resumed, clock() - began)


def _refuse_mismatch(structures: Sequence[Structure], sources: Sequence[Source]) -> None:
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"There are two sources named {name!r}.", "Name one: --source NAME=PATH."
            )
    for structure in structures:
        if not any(structure.level in source.levels for source in sources):
            remedy = "Give the file's 'levels' that level, or leave the structure out."
            if structure.level == "word":
                remedy = "Add a word list, --source words=FILE, or leave the structure out."
            raise ConfigError(
                f"No source has texts of the level {structure.level}, which the structure "
                f"{structure.name} asks for.",
                remedy,
            )


def _refuse_unreadable(yields: Mapping[str, Yield]) -> None:
    for name, found in yields.items():
        if not found.documents:
            reason = next(iter(found.problems.values()), "it has none").rstrip(".")
            raise DataInvalid(f"No document of {name!r} can be read: {reason}.")


def _source_facts(source: Source, documents: Documents, found: Yield) -> dict[str, Any]:
    return {
        **described(source),
        "available": documents.available,
        "chosen": documents.chosen,
        "unreadable": found.unreadable,
        "sha256": documents.sha256,
    }


def _counts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Structure -> source -> instances."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        of = counts.setdefault(row.structure, {})
        of[row.source] = of.get(row.source, 0) + 1
    return counts


def _remedy(yields: Mapping[str, Yield]) -> str:
    """What may be wrong with a corpus from which nothing came."""
    suspicious = sum(sum(found.suspicious.values()) for found in yields.values())
    if suspicious:
        return (
            f"Of {suspicious:,} texts that do, a target begins or ends with neither letter nor "
            "digit: such are left out. Clean the text by post-processors, or ask for other places."
        )
    for name, found in yields.items():
        if not found.surviving:
            return f"The filters of {name!r} leave out all {found.paragraphs:,} paragraphs."
    return "Widen the structures' ranges, or take more text."
