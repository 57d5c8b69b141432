"""A benchmark like COLLIE (arXiv 2307.08689), built from a corpus of the user's own.

The paper's six steps: documents are loaded (`documents`), split into paragraphs, filtered, cleaned,
and made into sentences and passages (`strings`); each string is tried on each structure
(`structure`, `target_rules`, `extraction`); of what suits, some instances are drawn (`pool`). Every
instance is then audited (`audit`) and the folder written, with its card and report.

>>> build(find_structures(["paper"]), [find_source("corpus/")], Path("mine"))  # doctest: +SKIP
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.build import folder
from harness.build.collie.audit import Audited, Subject, audit
from harness.build.collie.batch import Batch, Plan, extract_batch, segmenter
from harness.build.collie.documents import Documents, described
from harness.build.collie.instances import Row, choose
from harness.build.collie.report import card, report
from harness.build.collie.source import Source
from harness.build.collie.structure import Structure
from harness.build.collie.yields import Yield
from harness.build.stages import Stages, key_of
from harness.build.workers import in_order
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


@dataclass(slots=True)
class _Found:
    """What a source has yielded so far."""

    documents: Documents
    whole: Yield = field(default_factory=Yield)


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

    A build that was cut off goes on from its stages, in a folder beside; they go when it has ended.

    targets: most instances of a structure from one source.
    jobs: processes that work at the same time; the result is the same for any number.
    told: is told what has been done, in a line.

    Raises: a `harness.errors.UserError`: ConfigError where structures and sources do not go
        together; RunConflict where out is there and was not built here; DataInvalid where no
        instance was found.
    """
    began = clock()
    folder.refuse_other(out, KIND, FILES)
    _refuse_mismatch(structures, sources)
    units = splitter(data.root / "nltk_data")
    for source in sources:
        segmenter(source, units, seed)  # a mistyped filter ends the build here
    plan = Plan(
        [dict(structure.plain) for structure in structures],
        [described(source) for source in sources],
        seed,
        targets,
        str(data.root / "nltk_data"),
    )
    found = [_Found(Documents(source, seed, data)) for source in sources]
    stages = Stages(out.with_name(f".{out.name}.stages"))
    key = key_of(VERSION, plan, units.name)
    _extract(plan, key, sources, found, stages, jobs, told)
    rows = choose(structures, {s.name: f.whole for s, f in zip(sources, found, strict=True)})
    if not rows:
        raise DataInvalid(
            "No text of the sources suits any of the structures.", _remedy(sources, found)
        )
    told(f"{len(rows):,} instances; auditing them")

    def audited_now() -> list[Audited]:
        return _audited(plan, rows, sources, found, jobs)

    audited = stages.result("audit", key_of(key, rows), list[Audited], audited_now)
    facts = {
        "version": VERSION,
        "seed": seed,
        "targets": targets,
        "splitter": units.name,
        "structures": {s.name: key_of(s.plain) for s in structures},
        "sources": [
            {
                **described(source),
                "available": each.documents.available,
                "chosen": each.documents.chosen,
                "sha256": each.documents.sha256,
            }
            for source, each in zip(sources, found, strict=True)
        ],
        "counts": _counts(rows),
    }
    missed = {one.id: one.near_misses for one in audited}
    finished = [msgspec.structs.replace(row, near_misses=list(missed[row.id])) for row in rows]
    yields = {s.name: f.whole for s, f in zip(sources, found, strict=True)}
    said = report(structures, yields, rows, audited)
    folder.write(
        out,
        KIND,
        {INSTANCES: finished, AUDIT: audited},
        facts,
        texts={CARD: card(out.name, structures, facts, yields), REPORT: said},
    )
    resumed = stages.resumed
    stages.done()
    return Built(out, len(rows), facts, said, resumed, clock() - began)


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


def _extract(
    plan: Plan,
    key: str,
    sources: Sequence[Source],
    found: Sequence[_Found],
    stages: Stages,
    jobs: int,
    told: Callable[[str], None],
) -> None:
    """Extract the candidates of every source, batch by batch; each batch is a stage."""
    encoded = msgspec.json.encode(plan)
    waiting: deque[tuple[int, str, str]] = deque()

    def missing() -> Iterator[Batch]:
        """The batches that no earlier build has done; what it has is taken in."""
        for number, (source, each) in enumerate(zip(sources, found, strict=True)):
            for place, documents in enumerate(each.documents.batches()):
                stage = f"{source.name}-{place:05}"
                stage_key = key_of(key, source.name, documents)
                there = stages.found(stage, stage_key, Yield)
                if there is None:
                    waiting.append((number, stage, stage_key))
                    yield Batch(encoded, number, documents)
                else:
                    each.whole.add(there, plan.limits, plan.seed)

    for part in in_order(extract_batch, missing(), jobs=jobs):
        number, stage, stage_key = waiting.popleft()
        stages.keep(stage, stage_key, part)
        each = found[number]
        each.whole.add(part, plan.limits, plan.seed)
        told(
            f"{sources[number].name}: {each.whole.documents:,} of {each.documents.chosen:,} "
            f"documents, {each.whole.characters / 1e6:.1f} million characters"
        )


def _audited(
    plan: Plan,
    rows: Sequence[Row],
    sources: Sequence[Source],
    found: Sequence[_Found],
    jobs: int,
) -> list[Audited]:
    subjects = [
        Subject(
            row.id,
            row.structure,
            row.source,
            {"level": row.level, "constraint": row.constraint, "targets": row.targets},
            row.example,
            row.prompt,
            f"{row.source} {row.level}",
        )
        for row in rows
    ]
    background = {
        f"{source.name} {level}": texts
        for source, each in zip(sources, found, strict=True)
        for level, texts in each.whole.background.items()
    }
    return audit(subjects, background, Path(plan.nltk_data), jobs=jobs)


def _counts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Structure -> source -> instances."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        of = counts.setdefault(row.structure, {})
        of[row.source] = of.get(row.source, 0) + 1
    return counts


def _remedy(sources: Sequence[Source], found: Sequence[_Found]) -> str:
    """What may be wrong with a corpus from which nothing came."""
    for source, each in zip(sources, found, strict=True):
        if not each.whole.documents:
            reason = next(iter(each.whole.problems.values()), "none is there")
            return f"No document of {source.name!r} could be read: {reason}."
        left_out = sum(each.whole.filtered.get("paragraph", {}).values())
        if left_out == each.whole.paragraphs:
            return f"The filters of {source.name!r} leave out all {left_out:,} paragraphs."
    return "Widen the structures' ranges, or take more text."
